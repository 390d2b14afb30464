import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from './type.ts';

/** Whoever gets the text of a token may do what it may, so only who may do everything makes one. */
const OWNER = '*';

/** `read` alone is no scope; `jobs:ro`, `echo:allow:poll`, `*` and `read:*` are. */
const scopePattern = /^(\*|[A-Za-z0-9_][A-Za-z0-9_.*-]*(:[A-Za-z0-9_.*-]+){1,2})$/;

const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
  error: 'must be up to 64 letters, digits, dots, _ and -, and start with a letter or digit',
});

export interface NewToken {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly expires_in_ms?: number | undefined;
}

export interface TokenChoice {
  readonly token: string;
}

export const createTokenType: DirectiveType<NewToken> = {
  type: 'token.create',
  summary: 'Make a token for the API; its text is shown once.',
  scope: OWNER,
  isImmediate: true,
  params: z.strictObject({
    name,
    scopes: z
      .array(z.string().max(limits.scopeCharsMax).regex(scopePattern, { error: 'is no scope' }))
      .min(1)
      .max(limits.scopesMax),
    expires_in_ms: z.int().min(1000).max(limits.tokenLifeMsMax).optional(),
  }),
  sameness: () => 'each',
  target: (params) => params.name,
};

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
    params: z.strictObject({ token: z.string().min(1).describe('its name or id') }),
    sameness: () => 'each',
    target: ({ token }) => token,
  };
}
