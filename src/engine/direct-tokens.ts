import { createHash, randomBytes } from 'node:crypto';
import { formatDuration } from '../base/duration.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import {
  createTokenType,
  revokeTokenType,
  rotateTokenType,
  type NewToken,
  type TokenChoice,
} from '../directive/token.ts';
import type { ApiTokenRow } from '../ledger/directives.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { DirectiveDefinition } from './directive-definition.ts';

/** So that a token that leaked into a file or a log can be found by its beginning. */
const PREFIX = 'duct_';
const TOKEN_BYTES = 32;

export interface TokenSeams {
  readonly ledger: Ledger;
  /** Names that the configuration has given away. */
  readonly configured: () => readonly { readonly name: string }[];
  readonly refresh: () => Promise<void>;
}

export function createTokenDirective(seams: TokenSeams): DirectiveDefinition<NewToken> {
  return {
    ...createTokenType,
    async plan({ name, scopes, expires_in_ms: lifeMs }) {
      const tokens = [...seams.configured(), ...(await seams.ledger.tokens())];
      if (tokens.some((token) => token.name === name)) {
        throw new DuctileError('TOKEN_EXISTS', `there is a token named ${name} already`, {
          place: 'name',
        });
      }
      const life = lifeMs === undefined ? 'for ever' : `for ${formatDuration(lifeMs)}`;
      return [`A token ${name} would be made that may ${scopes.join(', ')}, good ${life}.`];
    },
    prepare({ name, scopes, expires_in_ms: expiresInMs }) {
      const { clear, digest } = makeToken();
      const token = { id: makeId(), name, digest, scopes, expiresInMs };
      return { work: { kind: 'token.create', token }, reveal: { token: clear } };
    },
    after: () => seams.refresh(),
  };
}

export function revokeTokenDirective(seams: TokenSeams): DirectiveDefinition<TokenChoice> {
  return {
    ...revokeTokenType,
    async plan({ token }) {
      const { name } = await mustFind(seams, token);
      return [`The token ${name} would be refused from now on.`];
    },
    async prepare({ token }) {
      const { id } = await mustFind(seams, token);
      return { work: { kind: 'token.revoke', tokenId: id } };
    },
    after: () => seams.refresh(),
  };
}

export function rotateTokenDirective(seams: TokenSeams): DirectiveDefinition<TokenChoice> {
  return {
    ...rotateTokenType,
    async plan({ token }) {
      const { name } = await mustFind(seams, token);
      return [`The token ${name} would get a new text; the one in use would be refused.`];
    },
    async prepare({ token }) {
      const { id } = await mustFind(seams, token);
      const { clear, digest } = makeToken();
      return { work: { kind: 'token.rotate', tokenId: id, digest }, reveal: { token: clear } };
    },
    after: () => seams.refresh(),
  };
}

function makeToken(): { clear: string; digest: string } {
  const clear = PREFIX + randomBytes(TOKEN_BYTES).toString('base64url');
  return { clear, digest: createHash('sha256').update(clear).digest('hex') };
}

async function mustFind({ ledger, configured }: TokenSeams, wanted: string): Promise<ApiTokenRow> {
  const tokens = await ledger.tokens();
  const found = tokens.find(({ id, name }) => id === wanted || name === wanted);
  if (found !== undefined) return found;
  if (configured().some(({ name }) => name === wanted)) {
    const hint = 'Change it in its configuration file, then reload.';
    throw new DuctileError('TOKEN_NOT_FOUND', `${wanted} is a token of the configuration`, {
      hint,
    });
  }
  throw new DuctileError('TOKEN_NOT_FOUND', `there is no token ${wanted}`, { place: 'token' });
}
