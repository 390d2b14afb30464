import * as z from 'zod';
import { roleOf, roles } from '../base/roles.ts';
import { defineOperation } from '../operation/define.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

export const listTokensOperation = defineOperation({
  name: 'token.list',
  summary: 'List the tokens of the configuration and of the database, without their secrets.',
  effect: 'read',
  scope: 'tokens:ro',
  input: z.strictObject(pageFields),
  output: z.object({
    tokens: z.array(
      z.object({
        name: z.string(),
        token_id: z.string().nullable().describe('null for a token of the configuration'),
        role: z.enum(roles),
        scopes: z.array(z.string()).describe('scopes besides those of the role'),
        place: z
          .string()
          .describe('file and line of the configuration, or `ledger` for the database'),
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
