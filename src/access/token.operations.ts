import { compact } from '../base/json.ts';
import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { duration, nonBlankText } from '../base/fields.ts';
import { roleOf, roles, type Role } from '../base/roles.ts';
import { resolveRole } from './change-token.service.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../operation/request-directive.ts';
import { explainCommand, explainScope, listScopedPlugins } from './check-scopes.service.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

const resultFields = {
  token: z
    .string()
    .nullable()
    .describe('its text, shown this once: null when the same request is made again'),
  directive_id: z.string().describe('the record of this change'),
};

const tokenField = nonBlankText().describe('the name or the id of a token');

export const createTokenOperation = defineOperation({
  name: 'token.create',
  summary: 'Make a token for the API; its text is shown once.',
  effect: 'write',
  scope: 'tokens:rw',
  input: z.strictObject({
    name: nonBlankText().describe('what it is called, in lists and as the actor of what it does'),
    role: z.enum(roles).optional().describe('owner, admin, member, or service: its scopes alone'),
    scopes: z.array(nonBlankText()).default([]).describe('what it may do besides, such as jobs:ro'),
    expires: duration({ minMs: 1000, maxMs: limits.tokenLifeMsMax })
      .optional()
      .describe('how long it is good (for ever unless told)'),
  }),
  output: z.object({
    token_id: z.string().nullable().describe('null while it waits for approval'),
    name: z.string(),
    role: z.enum(roles),
    scopes: z.array(z.string()),
    expires_at: z.string().nullable(),
    awaiting_approval: z.boolean().describe('its text is accepted when the directive is approved'),
    ...resultFields,
  }),
  errors: [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TOKEN_EXISTS'],
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
  async run(context, input) {
    checkScopes(context, input);
    const created = await direct(context, 'token.create', toParams(input), { mayWait: true });
    const { id, result } = created;
    return {
      token_id: textOrNull(result['token_id']),
      name: input.name,
      role: resolveRole(input),
      scopes: input.scopes,
      expires_at: textOrNull(result['expires_at']),
      awaiting_approval: created.awaitingApproval,
      token: textOrNull(result['token']),
      directive_id: id,
    };
  },
  plan(context, input) {
    checkScopes(context, input);
    return planDirective(context, 'token.create', toParams(input));
  },
});

export const listTokensOperation = defineOperation({
  name: 'token.list',
  summary: 'List the tokens of the configuration and of the ledger, without their texts.',
  effect: 'read',
  scope: 'tokens:ro',
  input: z.strictObject(pageFields),
  output: z.object({
    tokens: z.array(
      z.object({
        name: z.string(),
        token_id: z.string().nullable().describe('null for one of the configuration'),
        role: z.enum(roles),
        scopes: z.array(z.string()).describe('besides those of its role'),
        place: z.string().describe('the file and line of the configuration, or `ledger`'),
        created_by: z.string().nullable(),
        created_at: z.string().nullable(),
        rotated_at: z.string().nullable(),
        expires_at: z.string().nullable(),
        expired: z.boolean(),
        last_used_at: z
          .string()
          .nullable()
          .describe('written in batches, so about half a minute late'),
      }),
    ),
    next_cursor: nextCursorField,
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/tokens' },
  cli: {
    examples: ['ductile token list'],
    table: {
      rows: 'tokens',
      columns: [
        ['NAME', 'name'],
        ['ROLE', 'role'],
        ['SCOPES', 'scopes'],
        ['PLACE', 'place'],
        ['EXPIRES', 'expires_at'],
        ['LAST USED', 'last_used_at'],
        ['ID', 'token_id', 'detail'],
        ['CREATED', 'created_at', 'detail'],
        ['BY', 'created_by', 'detail'],
        ['ROTATED', 'rotated_at', 'detail'],
      ],
      empty: 'There are no tokens.',
    },
  },
  async run({ engine: { config, ledger } }, request) {
    const configured = config.api.auth.tokens.map(({ name, scopes, place }) => ({
      name,
      token_id: null,
      role: roleOf(scopes),
      scopes: [...scopes],
      place,
      created_by: null,
      created_at: null,
      rotated_at: null,
      expires_at: null,
      expired: false,
      last_used_at: null,
    }));
    const stored = (await ledger.tokens.list()).map((token) => ({
      name: token.name,
      token_id: token.id,
      role: token.role,
      scopes: [...token.scopes],
      place: 'ledger',
      created_by: token.createdBy,
      created_at: token.createdAt,
      rotated_at: token.rotatedAt,
      expires_at: token.expiresAt,
      expired: token.expired,
      last_used_at: token.lastUsedAt,
    }));
    const all = [...configured, ...stored];
    const { page, next } = cutPage(
      all,
      ({ name, token_id }) => `${name} ${token_id ?? ''}`,
      request,
    );
    return { tokens: page, next_cursor: next };
  },
});

export const revokeTokenOperation = defineOperation({
  name: 'token.revoke',
  summary: 'Make a token worthless, at once and for ever.',
  effect: 'destroy',
  scope: 'tokens:rw',
  input: z.strictObject({ token: tokenField }),
  output: z.object({
    token_id: z.string(),
    name: z.string(),
    revoked: z.boolean(),
    directive_id: resultFields.directive_id,
  }),
  errors: [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TOKEN_NOT_FOUND'],
  http: { method: 'POST', path: '/tokens/:token/revoke' },
  cli: { positionals: ['token'], examples: ['ductile token revoke deploy'] },
  async run(context, { token }) {
    const { id, result } = await direct(context, 'token.revoke', { token });
    return {
      token_id: textIn(result, 'token_id'),
      name: textIn(result, 'name'),
      revoked: true,
      directive_id: id,
    };
  },
  plan: (context, { token }) => planDirective(context, 'token.revoke', { token }),
});

export const rotateTokenOperation = defineOperation({
  name: 'token.rotate',
  summary: 'Give a token a new text, shown once; the old one is worthless at once.',
  effect: 'write',
  scope: '*',
  input: z.strictObject({ token: tokenField }),
  output: z.object({ token_id: z.string(), name: z.string(), ...resultFields }),
  errors: [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TOKEN_NOT_FOUND'],
  http: { method: 'POST', path: '/tokens/:token/rotate', isSecret: true },
  cli: { positionals: ['token'], examples: ['ductile token rotate deploy'] },
  async run(context, { token }) {
    const { id, result } = await direct(context, 'token.rotate', { token });
    return {
      token_id: textIn(result, 'token_id'),
      name: textIn(result, 'name'),
      token: textOrNull(result['token']),
      directive_id: id,
    };
  },
  plan: (context, { token }) => planDirective(context, 'token.rotate', { token }),
});

/** Refuses misspelled scopes, which grant too little or too much. */
function checkScopes({ engine: { config, catalog } }: Context, { scopes }: TokenInput): void {
  const known = listScopedPlugins(config, catalog);
  for (const scope of scopes) {
    const fault = explainScope(scope, known) ?? explainCommand(scope, known);
    if (fault === undefined) continue;
    const { message, hint } = fault;
    throw new DuctileError('INPUT_INVALID', `the token ${message}`, { place: 'scopes', hint });
  }
}

interface TokenInput {
  readonly name: string;
  readonly role?: Role | undefined;
  readonly scopes: readonly string[];
  readonly expires?: number | undefined;
}

function toParams({ name, role, scopes, expires }: TokenInput): object {
  const wanted = role === undefined ? { name, scopes } : { name, role, scopes };
  return { ...wanted, ...compact({ expires_in_ms: expires }) };
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
