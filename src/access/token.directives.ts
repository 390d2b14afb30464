import { createHash, randomBytes } from 'node:crypto';
import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { duration, nonBlankText } from '../base/fields.ts';
import { makeId } from '../base/ids.ts';
import { compact } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatDuration } from '../base/quantity.ts';
import { roles } from '../base/roles.ts';
import { API_TOKEN } from '../base/secrets.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import type { Context } from '../operation/context.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';
import { explainCommand, explainScope, listScopedPlugins } from './check-scopes.service.ts';
import {
  refuseApproverName,
  refuseHigherRole,
  refuseMoreRights,
  resolveRole,
} from './token-rights.service.ts';
import { createToken, revokeToken, rotateToken } from './token.sql.ts';
import type { ApiTokenRow } from './types.ts';

const TOKEN_BYTES = 32;

/** Matches `jobs:ro`, `echo:allow:poll`, `*` and `read:*`, but not `read` alone. */
const scopePattern = /^(\*|[A-Za-z0-9_][A-Za-z0-9_.*-]*(:[A-Za-z0-9_.*-]+){1,2})$/;

const tokenName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
  error: 'must be up to 64 letters, digits, dots, _ and -, and start with a letter or digit',
});

const tokenFields = {
  name: tokenName,
  role: z.enum(roles).optional(),
  scopes: z
    .array(z.string().max(limits.scopeCharsMax).regex(scopePattern, { error: 'is not a scope' }))
    .max(limits.scopesMax)
    .default([]),
  expires_in_ms: z.int().min(1000).max(limits.tokenLifeMsMax).optional(),
};

const resultFields = {
  token: z
    .string()
    .nullable()
    .describe('the secret, shown only once; null if the request is repeated'),
  directive_id: z.string().describe('id of the directive that recorded the change'),
};

export const createTokenDirective = defineDirective({
  type: 'token.create',
  summary: 'Create a token for the API. Its secret is shown only once.',
  scope: 'tokens:rw',
  role: 'admin',
  params: z
    .strictObject(tokenFields)
    .refine(({ role = 'service', scopes }) => role !== 'service' || scopes.length > 0, {
      path: ['scopes'],
      error: 'or a role is required',
    }),
  // Callers never choose a digest.
  recorded: z.strictObject({ ...tokenFields, digest: z.string() }),
  sameness: () => 'each',
  target: ({ name }) => name,
  authorize({ config }, params, caller) {
    refuseMoreRights(caller, params);
    refuseApproverName(config, params);
  },
  // The caller gets the text at once. It is valid when the token exists: after the approval, if needed.
  draw() {
    const { clear, digest } = drawToken();
    return { params: { digest }, reveal: { token: clear } };
  },
  async plan({ config, ledger }, { name, role, scopes, expires_in_ms: lifeMs }) {
    const isConfigured = config.api.auth.tokens.some((token) => token.name === name);
    const taken = isConfigured
      ? `the configuration has a token named ${name}`
      : await ledger.tokens.describeTakenName(name);
    if (taken !== undefined) throw new DuctileError('TOKEN_EXISTS', taken, { place: 'name' });
    const life = lifeMs === undefined ? 'never expire' : `expire after ${formatDuration(lifeMs)}`;
    const added = scopes.length === 0 ? '' : ` and the scopes ${scopes.join(', ')}`;
    const rights = `the role ${resolveRole({ role, scopes })}${added}`;
    return [`The token ${name} will be created with ${rights}. It will ${life}.`];
  },
  async prepare({ tenant }, { name, role: wanted, scopes, expires_in_ms: expiresInMs, digest }) {
    const role = resolveRole({ role: wanted, scopes });
    const token = { id: makeId(), name, digest, role, scopes, expiresInMs };
    await tenant?.addKey('token', digest);
    return { work: (tx, actor) => createToken(tx, token, actor) };
  },
  after: ({ services: { tokens } }) => tokens.refresh(),
  operation: {
    effect: 'write',
    input: z.strictObject({
      name: nonBlankText().describe('name of the token in lists, and of the actor of its changes'),
      role: z
        .enum(roles)
        .optional()
        .describe('role of the token; `service` has its scopes only (default: service)'),
      scopes: z
        .array(nonBlankText())
        .default([])
        .describe('scopes besides those of the role, such as jobs:ro'),
      expires: duration({ minMs: 1000, maxMs: limits.tokenLifeMsMax })
        .optional()
        .describe('lifetime, such as 90d (default: never expires)'),
    }),
    output: z.object({
      token_id: z.string().nullable().describe('null while it waits for approval'),
      name: z.string(),
      role: z.enum(roles),
      scopes: z.array(z.string()),
      expires_at: z.string().nullable(),
      awaiting_approval: z
        .boolean()
        .describe('true if the token is not accepted until the directive is approved'),
      ...resultFields,
    }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TOKEN_EXISTS'],
    http: {
      method: 'POST',
      path: '/tokens',
      isSecret: true,
      status: ({ awaiting_approval: waits }) => (waits === true ? 202 : 201),
      location: '/directives/:directive_id',
      statuses: [201, 202],
    },
    cli: {
      positionals: ['name'],
      examples: [
        'ductile token create deploy --scopes plugin:rw,jobs:ro --expires 90d',
        'ductile token create ann --role admin --dry-run',
      ],
    },
    mayWait: true,
    toParams(context, { name, role, scopes, expires }) {
      checkScopes(context, scopes);
      return { name, scopes, ...compact({ role, expires_in_ms: expires }) };
    },
    toOutput: (_context, { input, result, awaitingApproval }) => ({
      token_id: textOrNull(result['token_id']),
      name: input.name,
      role: resolveRole(input),
      scopes: input.scopes,
      expires_at: textOrNull(result['expires_at']),
      awaiting_approval: awaitingApproval,
      token: textOrNull(result['token']),
    }),
  },
});

/** The parts that a revocation and a rotation have in common. */
const common = {
  lasting: 'The current secret can never be used again.',
  params: z.strictObject({ token: nonBlankText().describe('name or id of the token') }),
  sameness: () => 'each' as const,
  target: ({ token }: { readonly token: string }) => token,
} as const;

export const revokeTokenDirective = defineDirective({
  ...common,
  type: 'token.revoke',
  summary: 'Revoke a token. It stops working immediately, and this cannot be undone.',
  scope: 'tokens:rw',
  authorize: ({ ledger }, params, caller) => refuseHigherRole(ledger, params, caller),
  async plan(context, { token }) {
    const { name } = await requireToken(context, token);
    return [`The token ${name} will be revoked. It will stop working immediately.`];
  },
  async prepare(context, { token }) {
    const { id, digest } = await requireToken(context, token);
    return {
      work: (tx) => revokeToken(tx, id),
      after: () => dropOldDigest(context, digest),
    };
  },
  operation: {
    effect: 'destroy',
    output: z.object({
      token_id: z.string(),
      name: z.string(),
      revoked: z.boolean(),
      directive_id: directiveIdField,
    }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TOKEN_NOT_FOUND'],
    http: { method: 'POST', path: '/tokens/:token/revoke' },
    cli: { positionals: ['token'], examples: ['ductile token revoke deploy'] },
    toOutput: (_context, { result }) => ({
      token_id: textIn(result, 'token_id'),
      name: textIn(result, 'name'),
      revoked: true,
    }),
  },
});

export const rotateTokenDirective = defineDirective({
  ...common,
  type: 'token.rotate',
  summary: 'Give a token a new secret, shown only once. The old one stops working immediately.',
  // The caller who rotates a token learns its text, so only callers with all rights may do it.
  scope: '*',
  isImmediate: true,
  async plan(context, { token }) {
    const { name } = await requireToken(context, token);
    return [`The token ${name} will get a new secret. The current one stops working immediately.`];
  },
  async prepare(context, { token }) {
    const { id, digest: old } = await requireToken(context, token);
    const { clear, digest } = drawToken();
    await context.tenant?.addKey('token', digest);
    return {
      work: (tx) => rotateToken(tx, id, digest),
      reveal: { token: clear },
      after: () => dropOldDigest(context, old),
    };
  },
  operation: {
    effect: 'write',
    output: z.object({ token_id: z.string(), name: z.string(), ...resultFields }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TOKEN_NOT_FOUND'],
    http: { method: 'POST', path: '/tokens/:token/rotate', isSecret: true },
    cli: { positionals: ['token'], examples: ['ductile token rotate deploy'] },
    toOutput: (_context, { result }) => ({
      token_id: textIn(result, 'token_id'),
      name: textIn(result, 'name'),
      token: textOrNull(result['token']),
    }),
  },
});

/** Refuses misspelled scopes, which grant too little or too much. */
function checkScopes({ engine: { config, catalog } }: Context, scopes: readonly string[]): void {
  const known = listScopedPlugins(config, catalog);
  for (const scope of scopes) {
    const fault = explainScope(scope, known) ?? explainCommand(scope, known);
    if (fault === undefined) continue;
    const { message, hint } = fault;
    throw new DuctileError('INPUT_INVALID', `the token ${message}`, { place: 'scopes', hint });
  }
}

/**
 * Stops accepting the old text, and then removes its key from the root ledger. If this is interrupted,
 * the key still leads to the tenant's ledger, which doesn't know the token any more.
 */
async function dropOldDigest(
  { tenant, services: { tokens } }: DirectiveContext,
  digest: string,
): Promise<void> {
  await tokens.refresh();
  await tenant?.dropKey('token', digest);
}

function drawToken(): { clear: string; digest: string } {
  const clear = API_TOKEN + randomBytes(TOKEN_BYTES).toString('base64url');
  return { clear, digest: createHash('sha256').update(clear).digest('hex') };
}

async function requireToken(
  { ledger, config }: DirectiveContext,
  wanted: string,
): Promise<ApiTokenRow> {
  const tokens = await ledger.tokens.list();
  const found = tokens.find(({ id, name }) => id === wanted || name === wanted);
  if (found !== undefined) return found;
  if (config.api.auth.tokens.some(({ name }) => name === wanted)) {
    const message = `the token ${wanted} is defined in the configuration`;
    const hint = 'Change it in its configuration file, then run `ductile system reload`.';
    throw new DuctileError('TOKEN_NOT_FOUND', message, { hint });
  }
  throw new DuctileError('TOKEN_NOT_FOUND', `there is no token ${wanted}`, { place: 'token' });
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
