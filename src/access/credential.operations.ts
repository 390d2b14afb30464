import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import { DuctileError } from '../base/errors.ts';
import { readCredentialUsers, type CredentialUsers } from './credential-users.service.ts';
import type { CredentialRow } from './types.ts';
import { defineOperation } from '../operation/define.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

export const credentialField = nonBlankText().describe(
  'name of the credential: `credential:<name>` in a configuration',
);
/** The errors of keys that seal credentials. */
export const keyErrors = ['CREDENTIAL_KEY_INVALID', 'CREDENTIAL_KEY_MISSING'] as const;
const time = z.string().describe('UTC, ISO 8601 with milliseconds');

/** The visible fields. The value isn't one of them. */
const credentialShape = z.object({
  name: z.string(),
  credential_id: z.string(),
  provider: z.string().nullable().describe('provider of the secret, as it was set'),
  status: z.enum(['active', 'expired']),
  used_by: z
    .array(z.string())
    .describe('plugins whose configuration uses it, and webhook:<id or path> for webhooks'),
  key_id: z.string().describe('key that seals it'),
  created_by: z.string(),
  created_at: time,
  updated_by: z.string(),
  updated_at: time,
  expires_at: time.nullable(),
  last_used_at: time.nullable().describe('written in batches, so about half a minute late'),
});

export const listCredentialsOperation = defineOperation({
  name: 'credential.list',
  summary: 'List the stored secrets for plugins, without their values.',
  effect: 'read',
  scope: 'credentials:ro',
  input: z.strictObject(pageFields),
  output: z.object({ credentials: z.array(credentialShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/credentials' },
  cli: {
    examples: ['ductile credential list'],
    isDefault: true,
    table: {
      rows: 'credentials',
      columns: [
        ['NAME', 'name'],
        ['PROVIDER', 'provider'],
        ['STATUS', 'status'],
        ['USED BY', 'used_by'],
        ['CHANGED', 'updated_at'],
        ['LAST USED', 'last_used_at'],
        ['EXPIRES', 'expires_at', 'detail'],
        ['KEY', 'key_id', 'detail'],
        ['ID', 'credential_id', 'detail'],
      ],
      empty: 'There are no credentials.',
    },
  },
  async run({ engine }, request) {
    const { page, next } = cutPage(
      await engine.ledger.credentials.list(),
      (row) => row.name,
      request,
    );
    const usersOf = await readCredentialUsers(engine);
    return { credentials: page.map((row) => show(row, usersOf(row.name))), next_cursor: next };
  },
});

export const showCredential = defineOperation({
  name: 'credential.show',
  summary: 'Show the details of a secret. Its value is never shown.',
  effect: 'read',
  scope: 'credentials:ro',
  input: z.strictObject({ name: credentialField }),
  output: credentialShape,
  errors: ['CREDENTIAL_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/credentials/:name' },
  cli: { positionals: ['name'], examples: ['ductile credential show github-token'] },
  async run({ engine }, input) {
    const found = await engine.ledger.credentials.find(input.name);
    if (found !== undefined) return show(found, (await readCredentialUsers(engine))(found.name));
    const message = `there is no credential ${input.name}`;
    throw new DuctileError('CREDENTIAL_NOT_FOUND', message, { place: 'name' });
  },
});

function show(row: CredentialRow, { plugins, webhooks }: CredentialUsers) {
  return showRow(credentialShape, row, {
    credential_id: row.id,
    status: row.isExpired ? 'expired' : 'active',
    used_by: [...plugins, ...webhooks.map((id) => `webhook:${id}`)],
  });
}
