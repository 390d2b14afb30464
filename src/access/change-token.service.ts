import { createHash, randomBytes } from 'node:crypto';
import { formatDuration } from '../base/quantity.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { API_TOKEN } from '../base/secrets.ts';
import * as z from 'zod';
import { limits } from '../base/limits.ts';
import { roleOf, roles, type Role } from '../base/roles.ts';
import type { DirectiveType } from '../directive/directive.ts';
import type { ApiTokenRow } from './types.ts';
import type { BoundDirective } from '../directive/define.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import { createToken, revokeToken, rotateToken } from './token.sql.ts';
import type { TokenStore } from './tokens.service.ts';

const TOKEN_BYTES = 32;

type TokenReader = Pick<TokenStore, 'refresh'>;

/** The caller who rotates a token learns its text, so only callers with all rights may do it. */
const OWNER = '*';

/** Matches `jobs:ro`, `echo:allow:poll`, `*` and `read:*`, but not `read` alone. */
const scopePattern = /^(\*|[A-Za-z0-9_][A-Za-z0-9_.*-]*(:[A-Za-z0-9_.*-]+){1,2})$/;

const tokenName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
  error: 'must be up to 64 letters, digits, dots, _ and -, and start with a letter or digit',
});

interface TokenParams {
  readonly name: string;
  readonly role?: Role | undefined;
  readonly scopes: readonly string[];
  readonly expires_in_ms?: number | undefined;
}

/** The params on record, with the digest of the token. */
interface RecordedTokenParams extends TokenParams {
  /** SHA-256 of the text, in hexadecimal. */
  readonly digest?: string | undefined;
}

interface TokenChoice {
  readonly token: string;
}

const tokenFields = {
  name: tokenName,
  role: z.enum(roles).optional(),
  scopes: z
    .array(z.string().max(limits.scopeCharsMax).regex(scopePattern, { error: 'is no scope' }))
    .max(limits.scopesMax)
    .default([]),
  expires_in_ms: z.int().min(1000).max(limits.tokenLifeMsMax).optional(),
};

/** Callers never choose a digest. */
const recordedTokenParams: z.ZodType<RecordedTokenParams> = z.strictObject({
  ...tokenFields,
  digest: z.string(),
});

export const createTokenType: DirectiveType<RecordedTokenParams> = {
  type: 'token.create',
  summary: 'Make a token for the API; its text is shown once.',
  scope: 'tokens:rw',
  role: 'admin',
  params: z
    .strictObject(tokenFields)
    .refine(({ role = 'service', scopes }) => role !== 'service' || scopes.length > 0, {
      path: ['scopes'],
      error: 'or a role must say what the token may do',
    }),
  sameness: () => 'each',
  target: (params) => params.name,
};

/** Returns the role of a new token: without a role, its scopes decide. */
export function resolveRole({ role, scopes }: Pick<TokenParams, 'role' | 'scopes'>): Role {
  return role === undefined || scopes.includes('*') ? roleOf(scopes) : role;
}

export const revokeTokenType = defineChoiceType(
  'token.revoke',
  'tokens:rw',
  'Make a token worthless, at once and for ever.',
);
export const rotateTokenType: DirectiveType<TokenChoice> = {
  ...defineChoiceType(
    'token.rotate',
    OWNER,
    'Give a token a new text; the old one is worthless at once.',
  ),
  isImmediate: true,
};

function defineChoiceType(
  type: string,
  scope: string,
  summary: string,
): DirectiveType<TokenChoice> {
  return {
    type,
    summary,
    scope,
    lasting: 'The text that is in use now is worthless then, for ever.',
    params: z.strictObject({ token: z.string().min(1).describe('its name or id') }),
    sameness: () => 'each',
    target: ({ token }) => token,
  };
}

export function createTokenDirective(
  context: LedgerContext,
  tokens: TokenReader,
): BoundDirective<RecordedTokenParams> {
  return {
    ...createTokenType,
    recorded: recordedTokenParams,
    // The caller gets the text at once. It is valid when the token exists: after the approval, if needed.
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
      const what = resolveRole({ role, scopes });
      return [`A token ${name} would be made, ${what}, that may ${may}, good ${life}.`];
    },
    async prepare({ name, role: wanted, scopes, expires_in_ms: expiresInMs, digest = '' }) {
      const role = resolveRole({ role: wanted, scopes });
      const token = { id: makeId(), name, digest, role, scopes, expiresInMs };
      await context.tenant?.addKey('token', digest);
      return { work: (tx, actor) => createToken(tx, token, actor) };
    },
    after: () => tokens.refresh(),
  };
}

export function revokeTokenDirective(
  context: LedgerContext,
  tokens: TokenReader,
): BoundDirective<TokenChoice> {
  const oldDigests: OldDigests = new Map();
  return {
    ...revokeTokenType,
    async plan({ token }) {
      const { name } = await requireToken(context, token);
      return [`The token ${name} would be refused from now on.`];
    },
    async prepare({ token }) {
      const { id, digest } = await requireToken(context, token);
      oldDigests.set(id, digest);
      return { work: (tx) => revokeToken(tx, id) };
    },
    after: (_, result) => dropOldDigest(result, oldDigests, context, tokens),
  };
}

export function rotateTokenDirective(
  context: LedgerContext,
  tokens: TokenReader,
): BoundDirective<TokenChoice> {
  const oldDigests: OldDigests = new Map();
  return {
    ...rotateTokenType,
    async plan({ token }) {
      const { name } = await requireToken(context, token);
      return [`The token ${name} would get a new text; the one in use would be refused.`];
    },
    async prepare({ token }) {
      const { id, digest: old } = await requireToken(context, token);
      const { clear, digest } = makeToken();
      oldDigests.set(id, old);
      await context.tenant?.addKey('token', digest);
      return { work: (tx) => rotateToken(tx, id, digest), reveal: { token: clear } };
    },
    after: (_, result) => dropOldDigest(result, oldDigests, context, tokens),
  };
}

/** The digests that running directives replace, by the id of the token. */
type OldDigests = Map<string, string>;

/**
 * Stops accepting the old text, and then removes its key from the root ledger. If this is interrupted,
 * the key still leads to the tenant's ledger, which doesn't know the token any more.
 */
async function dropOldDigest(
  { token_id: id }: JsonObject,
  oldDigests: OldDigests,
  { tenant }: LedgerContext,
  tokens: TokenReader,
): Promise<void> {
  await tokens.refresh();
  const digest = typeof id === 'string' ? oldDigests.get(id) : undefined;
  if (typeof id !== 'string' || digest === undefined) return;
  oldDigests.delete(id);
  await tenant?.dropKey('token', digest);
}

function makeToken(): { clear: string; digest: string } {
  const clear = API_TOKEN + randomBytes(TOKEN_BYTES).toString('base64url');
  return { clear, digest: createHash('sha256').update(clear).digest('hex') };
}

async function requireToken(
  { ledger, config }: LedgerContext,
  wanted: string,
): Promise<ApiTokenRow> {
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
