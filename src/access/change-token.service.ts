import { createHash, randomBytes } from 'node:crypto';
import { formatDuration } from '../base/quantity.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { API_TOKEN } from '../base/secrets.ts';
import {
  createTokenType,
  recordedToken,
  revokeTokenType,
  roleOfNew,
  rotateTokenType,
  type DrawnToken,
  type TokenChoice,
} from './token-directives.ts';
import type { ApiTokenRow } from './types.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { TokenStore } from './tokens.service.ts';

const TOKEN_BYTES = 32;

type TokenReader = Pick<TokenStore, 'refresh'>;

export function createTokenDirective(
  context: LedgerContext,
  tokens: TokenReader,
): DirectiveDefinition<DrawnToken> {
  return {
    ...createTokenType,
    recorded: recordedToken,
    // The caller gets the text at once; it is accepted when the token exists, after an approval.
    draw() {
      const { clear, digest } = makeToken();
      return { params: { digest }, reveal: { token: clear } };
    },
    async plan({ name, role, scopes, expires_in_ms: lifeMs }) {
      const isConfigured = context.config.api.auth.tokens.some((token) => token.name === name);
      const taken = isConfigured
        ? `the configuration has a token named ${name}`
        : await context.ledger.tokens.describeTakenName(name);
      if (taken !== undefined) throw new DuctileError('TOKEN_EXISTS', taken, { place: 'name' });
      const life = lifeMs === undefined ? 'for ever' : `for ${formatDuration(lifeMs)}`;
      const may = scopes.length === 0 ? 'what its role may' : scopes.join(', ');
      const what = roleOfNew({ role, scopes });
      return [`A token ${name} would be made, ${what}, that may ${may}, good ${life}.`];
    },
    async prepare({ name, role: wanted, scopes, expires_in_ms: expiresInMs, digest = '' }) {
      const role = roleOfNew({ role: wanted, scopes });
      const token = { id: makeId(), name, digest, role, scopes, expiresInMs };
      await context.tenant?.addKey('token', digest);
      return { work: { kind: 'token.create', token } };
    },
    after: () => tokens.refresh(),
  };
}

export function revokeTokenDirective(
  context: LedgerContext,
  tokens: TokenReader,
): DirectiveDefinition<TokenChoice> {
  const outgoing: Outgoing = new Map();
  return {
    ...revokeTokenType,
    async plan({ token }) {
      const { name } = await mustFind(context, token);
      return [`The token ${name} would be refused from now on.`];
    },
    async prepare({ token }) {
      const { id, digest } = await mustFind(context, token);
      outgoing.set(id, digest);
      return { work: { kind: 'token.revoke', tokenId: id } };
    },
    after: (_, result) => refuseOld(result, outgoing, context, tokens),
  };
}

export function rotateTokenDirective(
  context: LedgerContext,
  tokens: TokenReader,
): DirectiveDefinition<TokenChoice> {
  const outgoing: Outgoing = new Map();
  return {
    ...rotateTokenType,
    async plan({ token }) {
      const { name } = await mustFind(context, token);
      return [`The token ${name} would get a new text; the one in use would be refused.`];
    },
    async prepare({ token }) {
      const { id, digest: old } = await mustFind(context, token);
      const { clear, digest } = makeToken();
      outgoing.set(id, old);
      await context.tenant?.addKey('token', digest);
      return { work: { kind: 'token.rotate', tokenId: id, digest }, reveal: { token: clear } };
    },
    after: (_, result) => refuseOld(result, outgoing, context, tokens),
  };
}

/** By the id of a token, what led to it until the directive that is under way. */
type Outgoing = Map<string, string>;

/** When this is interrupted, what leads here leads to a ledger that knows no such token. */
async function refuseOld(
  { token_id: id }: JsonObject,
  outgoing: Outgoing,
  { tenant }: LedgerContext,
  tokens: TokenReader,
): Promise<void> {
  await tokens.refresh();
  const digest = typeof id === 'string' ? outgoing.get(id) : undefined;
  if (typeof id !== 'string' || digest === undefined) return;
  outgoing.delete(id);
  await tenant?.dropKey('token', digest);
}

function makeToken(): { clear: string; digest: string } {
  const clear = API_TOKEN + randomBytes(TOKEN_BYTES).toString('base64url');
  return { clear, digest: createHash('sha256').update(clear).digest('hex') };
}

async function mustFind({ ledger, config }: LedgerContext, wanted: string): Promise<ApiTokenRow> {
  const tokens = await ledger.tokens.list();
  const found = tokens.find(({ id, name }) => id === wanted || name === wanted);
  if (found !== undefined) return found;
  if (config.api.auth.tokens.some(({ name }) => name === wanted)) {
    const hint = 'Change it in its configuration file, then reload.';
    throw new DuctileError('TOKEN_NOT_FOUND', `${wanted} is a token of the configuration`, {
      hint,
    });
  }
  throw new DuctileError('TOKEN_NOT_FOUND', `there is no token ${wanted}`, { place: 'token' });
}
