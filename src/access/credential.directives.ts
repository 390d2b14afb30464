import * as z from 'zod';
import { credentialName } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import { duration, nonBlankText } from '../base/fields.ts';
import { makeId } from '../base/ids.ts';
import { compact } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { purposes } from '../base/seal.ts';
import { formatDuration } from '../base/quantity.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';
import { checkCredential } from '../webhook/check-entry.service.ts';
import { readCredentialUsers } from './credential-users.service.ts';
import { credentialField, keyErrors } from './credential.operations.ts';
import { deleteCredential, setCredential } from './credential.sql.ts';
import { guardFirstKey, isSameSecret } from './vault.service.ts';

const nameField = z.string().regex(credentialName, {
  error: 'must be up to 64 letters, digits, dots, _ and -, and start with a letter or digit',
});

const credentialFields = {
  name: nameField,
  provider: z.string().min(1).max(limits.credentialProviderCharsMax).optional(),
  expires_in_ms: z.int().min(1000).max(limits.tokenLifeMsMax).optional(),
};

/** The value isn't one of the params: it is only stored sealed. */
export const setCredentialDirective = defineDirective({
  type: 'credential.set',
  summary: 'Store a secret for plugins, or replace its value.',
  scope: 'credentials:rw',
  role: 'admin',
  isImmediate: true,
  params: z.strictObject(credentialFields),
  recorded: z.strictObject({
    ...credentialFields,
    fingerprint: z
      .string()
      .optional()
      .describe('digest that recognizes an equal value; only a holder of the key can compute it'),
  }),
  sameness: () => 'each',
  target: ({ name }) => name,
  async resolve({ ledger, vault, services: { webhookIntake } }, params, { secret, dryRun }) {
    if (secret !== undefined) {
      checkValue(secret);
      await checkCredential(params.name, secret, ledger, webhookIntake.store);
    }
    if (dryRun === true) return params;
    await guardFirstKey(vault, ledger);
    const value = requireValue(secret);
    return { ...params, fingerprint: vault.fingerprint(value, purposes.credential(params.name)) };
  },
  isSameSecret: ({ vault }, { name, fingerprint: print }, secret) =>
    isSameSecret(secret, purposes.credential(name), print, vault),
  async plan(context, { name, provider, expires_in_ms: lifeMs }) {
    const before = await context.ledger.credentials.find(name);
    const owner = provider === undefined ? '' : ` of ${provider}`;
    const life = lifeMs === undefined ? '' : ` and expire after ${formatDuration(lifeMs)}`;
    if (before === undefined) {
      return [
        `The credential ${name}${owner} will be created${life}.`,
        ...(await describeUse(name, context, 'set')),
      ];
    }
    return [
      `The credential ${name}${owner} will get a new value${life}.`,
      'The current value cannot be recovered.',
      ...(await describeUse(name, context, 'set')),
    ];
  },
  prepare({ vault }, { name, provider = null, expires_in_ms: expiresInMs }, { secret }) {
    const sealed = vault.seal(requireValue(secret), purposes.credential(name));
    const credential = { id: makeId(), name, provider, sealed, expiresInMs };
    return { work: (tx, actor) => setCredential(tx, credential, actor) };
  },
  operation: {
    effect: 'write',
    secrets: ['value'],
    input: z.strictObject({
      name: credentialField,
      value: z.string().describe('the secret; Ductile never shows it'),
      provider: nonBlankText().optional().describe('provider of the secret, such as github'),
      expires: duration({ minMs: 1000, maxMs: limits.tokenLifeMsMax })
        .optional()
        .describe('lifetime, such as 90d (default: never expires)'),
    }),
    output: z.object({
      credential_id: z.string(),
      name: z.string(),
      created: z.boolean().describe('false if the credential already existed'),
      expires_at: z.string().describe('UTC, ISO 8601 with milliseconds').nullable(),
      directive_id: directiveIdField,
    }),
    errors: [...keyErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
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
    toParams: (_context, { name, provider, expires }) => ({
      name,
      ...compact({ provider, expires_in_ms: expires }),
    }),
    toSecret: (_context, { value }) => value,
    toOutput: (_context, { input, result: { created, expires_at: expiresAt, ...result } }) => ({
      credential_id: textIn(result, 'credential_id'),
      name: input.name,
      created: created === true,
      expires_at: typeof expiresAt === 'string' ? expiresAt : null,
    }),
  },
});

export const deleteCredentialDirective = defineDirective({
  type: 'credential.delete',
  summary: 'Delete a secret. Later attempts that need it fail.',
  scope: 'credentials:rw',
  role: 'admin',
  params: z.strictObject({ name: nameField }),
  sameness: () => 'each',
  target: ({ name }) => name,
  async plan(context, { name }) {
    if ((await context.ledger.credentials.find(name)) === undefined) {
      const message = `there is no credential ${name}`;
      throw new DuctileError('CREDENTIAL_NOT_FOUND', message, { place: 'name' });
    }
    return [
      `The credential ${name} and its value will be deleted. This cannot be undone.`,
      ...(await describeUse(name, context, 'delete')),
    ];
  },
  prepare: (_context, { name }) => ({ work: (tx) => deleteCredential(tx, name) }),
  operation: {
    effect: 'destroy',
    input: z.strictObject({ name: credentialField }),
    output: z.object({
      credential_id: z.string(),
      name: z.string(),
      deleted: z.boolean(),
      directive_id: directiveIdField,
    }),
    errors: ['CREDENTIAL_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
    http: { method: 'POST', path: '/credentials/:name/delete' },
    cli: { positionals: ['name'], examples: ['ductile credential delete github-token'] },
    toOutput: (_context, { input: { name }, result }) => ({
      credential_id: textIn(result, 'credential_id'),
      name,
      deleted: true,
    }),
  },
});

async function describeUse(
  name: string,
  { tenant, catalog, config, services: { webhookIntake } }: DirectiveContext,
  change: 'set' | 'delete',
): Promise<string[]> {
  const { plugins, webhooks } = (
    await readCredentialUsers({ catalog, config, webhookIntake, tenant })
  )(name);
  if (plugins.length + webhooks.length === 0) return ['No plugin and no webhook uses it.'];
  const isSet = change === 'set';
  const attempts = isSet ? 'will use the new value' : 'will fail';
  const deliveries = isSet ? 'will be verified with the new value' : 'will be refused';
  return [
    ...(plugins.length === 0
      ? []
      : [`Plugins that use it: ${plugins.join(', ')}. Their next attempts ${attempts}.`]),
    ...(webhooks.length === 0
      ? []
      : [`Webhooks that use it: ${webhooks.join(', ')}. Their next deliveries ${deliveries}.`]),
  ];
}

/** Refuses unusable values. The messages never contain the value. */
function checkValue(value: string): void {
  const { credentialCharsMin: min, credentialBytesMax: max } = limits;
  const createError = (why: string): DuctileError =>
    new DuctileError('INPUT_INVALID', `the value ${why}`, { place: 'value' });
  if (value.length < min) {
    // A shorter value would occur by chance, and be masked, in the output of plugins.
    throw createError(`has fewer than ${min} characters`);
  }
  if (Buffer.byteLength(value) > max) throw createError(`is larger than ${max} bytes`);
  if (value.includes('\u0000')) throw createError('contains the character U+0000');
  if (!value.isWellFormed()) throw createError('is not well-formed text');
  if (/^\$\{[^{}]*\}?$/.test(value)) throw createError('is a placeholder that was not replaced');
}

function requireValue(secret: string | undefined): string {
  if (secret !== undefined) return secret;
  throw new DuctileError('INPUT_INVALID', 'the value is missing', {
    place: 'value',
    hint: 'Use `ductile credential set`, which asks for the value. Directives never contain it.',
  });
}
