import { compact } from '../base/json.ts';
import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { duration, nonBlankText } from '../base/fields.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { readCredentialUsers, type CredentialUsers } from './change-credential.service.ts';
import type { CredentialRow } from './types.ts';
import { defineOperation } from '../operation/define.ts';
import {
  requestDirective,
  direct,
  directErrors,
  planDirective,
  textIn,
} from '../operation/request-directive.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

const directiveId = z.string().describe('the record of this change');
const name = nonBlankText().describe('what it is called: `credential:<name>` in a configuration');
const keyErrors = ['CREDENTIAL_KEY_INVALID', 'CREDENTIAL_KEY_MISSING'] as const;
const time = z.string().describe('UTC, ISO 8601 with milliseconds');

/** The visible fields. The value isn't one of them. */
const credentialShape = z.object({
  name: z.string(),
  credential_id: z.string(),
  provider: z.string().nullable().describe('whose it is, as it was said'),
  status: z.enum(['active', 'expired']),
  used_by: z
    .array(z.string())
    .describe('plugins whose configuration asks for it, and webhook:<id or path> for webhooks'),
  key_id: z.string().describe('the key that it is sealed with'),
  created_by: z.string(),
  created_at: time,
  updated_by: z.string(),
  updated_at: time,
  expires_at: time.nullable(),
  last_used_at: time.nullable().describe('written in batches, so about half a minute late'),
});

export const setCredentialOperation = defineOperation({
  name: 'credential.set',
  summary: 'Keep a secret for plugins, or put another value in its place.',
  effect: 'write',
  scope: 'credentials:rw',
  secrets: ['value'],
  input: z.strictObject({
    name,
    value: z.string().describe('the secret itself; it is shown nowhere'),
    provider: nonBlankText().optional().describe('whose it is, such as github'),
    expires: duration({ minMs: 1000, maxMs: limits.tokenLifeMsMax })
      .optional()
      .describe('how long it is good (for ever unless told)'),
  }),
  output: z.object({
    credential_id: z.string(),
    name: z.string(),
    created: z.boolean().describe('false when another value was there before'),
    expires_at: time.nullable(),
    directive_id: directiveId,
  }),
  errors: [...directErrors, ...keyErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  // On a repeated request with the same key, the directive decides whether the value is the same.
  http: { method: 'POST', path: '/credentials', isSecret: true },
  mcp: { absent: 'a secret must not pass through the context of a model' },
  cli: {
    positionals: ['name'],
    examples: [
      'ductile credential set github-token < token.txt',
      'ductile credential set github-token --provider github --expires 90d',
    ],
  },
  async run(context, { value, ...rest }) {
    const params = toParams(rest);
    const { id, result } = await direct(context, 'credential.set', params, { secret: value });
    const expiresAt = result['expires_at'];
    return {
      credential_id: textIn(result, 'credential_id'),
      name: rest.name,
      created: result['created'] === true,
      expires_at: typeof expiresAt === 'string' ? expiresAt : null,
      directive_id: id,
    };
  },
  async plan(context, { value, ...rest }) {
    const params = toParams(rest);
    const request = { type: 'credential.set', params, dryRun: true, secret: value };
    return [...(await requestDirective(context, request)).plan];
  },
});

export const listCredentialsOperation = defineOperation({
  name: 'credential.list',
  summary: 'List the secrets that are kept for plugins, without their values.',
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
  summary: 'Show what is known of one secret; its value is shown to nobody.',
  effect: 'read',
  scope: 'credentials:ro',
  input: z.strictObject({ name }),
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

export const deleteCredentialOperation = defineOperation({
  name: 'credential.delete',
  summary: 'Forget a secret; attempts that ask for it fail from then on.',
  effect: 'destroy',
  scope: 'credentials:rw',
  input: z.strictObject({ name }),
  output: z.object({
    credential_id: z.string(),
    name: z.string(),
    deleted: z.boolean(),
    directive_id: directiveId,
  }),
  errors: [...directErrors, 'CREDENTIAL_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/credentials/:name/delete' },
  cli: { positionals: ['name'], examples: ['ductile credential delete github-token'] },
  async run(context, input) {
    const { id, result } = await direct(context, 'credential.delete', input);
    const credentialId = textIn(result, 'credential_id');
    return { credential_id: credentialId, name: input.name, deleted: true, directive_id: id };
  },
  plan: (context, input) => planDirective(context, 'credential.delete', input),
});

export const rotateKey = defineOperation({
  name: 'credential.rotate-key',
  summary: 'Seal everything that is secret at rest with a new key.',
  effect: 'write',
  isForRoot: true,
  scope: '*',
  input: z.strictObject({}),
  output: z.object({
    key_id: z.string().describe('the key that seals from now on'),
    resealed: z
      .int()
      .describe('credentials, payloads of signals and secrets of webhooks that it seals now'),
    left: z.int().describe('what could not be opened, and is as it was'),
    left_reason: z.string().nullable(),
    tenants: z.int().describe('tenants whose secrets were sealed anew as well'),
    tenants_failed: z
      .array(z.string())
      .describe('those where that failed; their old keys open them'),
    directive_id: directiveId,
  }),
  errors: [...directErrors, ...keyErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/credentials/rotate-key' },
  cli: { examples: ['ductile credential rotate-key --dry-run', 'ductile credential rotate-key'] },
  async run(context, input) {
    const { id, result } = await direct(context, 'credential.rotate', input);
    const { left_reason: reason, tenants_failed: failed } = result;
    return {
      key_id: textIn(result, 'key_id'),
      resealed: Number(result['resealed']),
      left: Number(result['left']),
      left_reason: typeof reason === 'string' ? reason : null,
      tenants: Number(result['tenants'] ?? 0),
      tenants_failed: Array.isArray(failed) ? failed.map(String) : [],
      directive_id: id,
    };
  },
  plan: (context, input) => planDirective(context, 'credential.rotate', input),
});

interface CredentialInput {
  readonly name: string;
  readonly provider?: string | undefined;
  readonly expires?: number | undefined;
}

function toParams({ name: wanted, provider, expires }: CredentialInput): object {
  return {
    name: wanted,
    ...compact({ provider, expires_in_ms: expires }),
  };
}

function show(row: CredentialRow, { plugins, webhooks }: CredentialUsers) {
  return showRow(credentialShape, row, {
    credential_id: row.id,
    status: row.isExpired ? 'expired' : 'active',
    used_by: [...plugins, ...webhooks.map((id) => `webhook:${id}`)],
  });
}
