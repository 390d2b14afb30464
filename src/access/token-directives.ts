import * as z from 'zod';
import { limits } from '../base/limits.ts';
import { roleOf, roles, type Role } from './roles.ts';
import type { DirectiveType } from '../directive/directive.ts';

/** The caller who rotates a token learns its text, so only callers with all rights may do it. */
const OWNER = '*';

/** Matches `jobs:ro`, `echo:allow:poll`, `*` and `read:*`, but not `read` alone. */
const scopePattern = /^(\*|[A-Za-z0-9_][A-Za-z0-9_.*-]*(:[A-Za-z0-9_.*-]+){1,2})$/;

const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
  error: 'must be up to 64 letters, digits, dots, _ and -, and start with a letter or digit',
});

export interface NewToken {
  readonly name: string;
  readonly role?: Role | undefined;
  readonly scopes: readonly string[];
  readonly expires_in_ms?: number | undefined;
}

/** A recorded request for a token, with the digest of its text. */
export interface DrawnToken extends NewToken {
  /** SHA-256 of the text, in hexadecimal. */
  readonly digest?: string | undefined;
}

export interface TokenChoice {
  readonly token: string;
}

const fields = {
  name,
  role: z.enum(roles).optional(),
  scopes: z
    .array(z.string().max(limits.scopeCharsMax).regex(scopePattern, { error: 'is no scope' }))
    .max(limits.scopesMax)
    .default([]),
  expires_in_ms: z.int().min(1000).max(limits.tokenLifeMsMax).optional(),
};

/** The params of a `token.create` that is on record. Callers never choose a digest. */
export const recordedToken: z.ZodType<DrawnToken> = z.strictObject({
  ...fields,
  digest: z.string(),
});

export const createTokenType: DirectiveType<DrawnToken> = {
  type: 'token.create',
  summary: 'Make a token for the API; its text is shown once.',
  scope: 'tokens:rw',
  role: 'admin',
  params: z
    .strictObject(fields)
    .refine(({ role = 'service', scopes }) => role !== 'service' || scopes.length > 0, {
      path: ['scopes'],
      error: 'or a role must say what the token may do',
    }),
  sameness: () => 'each',
  target: (params) => params.name,
};

/** Returns the role of a new token: without a role, its scopes decide. */
export function roleOfNew({ role, scopes }: Pick<NewToken, 'role' | 'scopes'>): Role {
  return role === undefined || scopes.includes('*') ? roleOf(scopes) : role;
}

export const revokeTokenType = choiceType(
  'token.revoke',
  'tokens:rw',
  'Make a token worthless, at once and for ever.',
);
export const rotateTokenType: DirectiveType<TokenChoice> = {
  ...choiceType(
    'token.rotate',
    OWNER,
    'Give a token a new text; the old one is worthless at once.',
  ),
  isImmediate: true,
};

function choiceType(type: string, scope: string, summary: string): DirectiveType<TokenChoice> {
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
