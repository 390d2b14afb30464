import * as z from 'zod';
import { credentialName } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { keyErrors } from '../access/credential.operations.ts';
import { guardFirstKey, isSameSecret } from '../access/vault.service.ts';
import { purposes } from '../base/seal.ts';
import type { DirectiveExecution } from '../directive/define.service.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';
import {
  authModeOf,
  createId,
  createSecrets,
  describeTakenId,
  fingerprintGiven,
  findWebhookCommands,
  globalToken,
  refuseProvided,
  requireCredential,
  requireWebhookRow,
  reserveId,
  sealSecrets,
} from './change.service.ts';
import { checkWebhookEntry, checkWebhookSecret } from './check-entry.service.ts';
import { checkGivenSecret, generateSecret, makeSecret } from './secrets.service.ts';
import {
  formatWebhookUrl,
  settingsFields,
  webhookIdField,
  webhookUrlField,
} from './shapes.operations.ts';
import { GLOBAL_TOKEN } from './store.service.ts';
import { describeTarget } from './target.ts';
import { createWebhook, deleteWebhook } from './webhook.sql.ts';
import { nonBlankText } from '../base/fields.ts';
import { secretKeyOf, type AuthMode } from './auth-settings.ts';

/** The secret in a result. */
export const newSecretField = z
  .string()
  .nullable()
  .describe('generated secret, shown only once; null if none was generated');
export const secretCredentialField = nonBlankText()
  .optional()
  .describe('credential that holds its secret (default: a new secret, shown only once)');
const givenSecret = z
  .string()
  .optional()
  .describe('the secret itself, if the sender generated it; stored encrypted and never shown');
const givenToken = z.string().optional().describe('the same as secret, for bearer and gitlab');
const givenKey = z.string().optional().describe('the same as secret, for modes that sign');
/** The secret, with its two older names. */
export const secretFields = { secret: givenSecret, token: givenToken, hmac_secret: givenKey };
export const secretNames: readonly string[] = Object.keys(secretFields);

type SecretInput = Readonly<Partial<Record<keyof typeof secretFields, string | undefined>>>;

/** Reads the secret, which is passed beside the params because params are recorded. */
export function readWebhookSecret(
  input: SecretInput,
  mode: AuthMode = 'bearer',
): string | undefined {
  const [first, second] = keys.filter((name) => input[name] !== undefined);
  if (first === undefined) return undefined;
  if (second !== undefined) throw refuseSecret(second, `and ${first} exclude each other`);
  const expected = secretKeyOf(mode);
  if (first !== 'secret' && first !== expected) {
    throw refuseSecret(first, `is not for auth_mode ${mode}`, `Write it as ${expected}.`);
  }
  const value = input.secret ?? input.token ?? input.hmac_secret ?? '';
  if (first !== 'secret' && value.length < limits.webhookSecretCharsMin) {
    throw refuseSecret(first, `has fewer than ${limits.webhookSecretCharsMin} characters`);
  }
  return value;
}

function refuseSecret(place: string, message: string, hint?: string): DuctileError {
  const more = hint === undefined ? {} : { hint };
  return new DuctileError('INPUT_INVALID', `${place} ${message}`, { place, ...more });
}

const keys = Object.keys(secretFields) as (keyof typeof secretFields)[];

const scope = 'webhooks:rw';

/** The id of a webhook. */
export const webhookIdParam = z
  .string()
  .max(limits.webhookIdCharsMax)
  .regex(/^[a-z0-9][a-z0-9_-]*$/, 'must be lowercase letters, digits, - and _');

/** Ids that would collide with the paths of other lists below `/webhooks/`. */
export const reservedIds: readonly string[] = ['deliveries', 'endpoints'];

const newId = webhookIdParam.refine((name) => !reservedIds.includes(name), {
  error: `must be another word: ${reservedIds.map((name) => `/webhooks/${name}`).join(' and ')} are lists`,
});

/**
 * Params are recorded, so they hold no secrets. Secrets are generated, are credentials, or arrive
 * beside the params.
 */
export const settingsParam = z
  .record(z.string(), z.unknown())
  .refine((given) => !('token' in given) && !('hmac_secret' in given), {
    error: 'must not contain the secret: name a credential, or let Ductile generate one',
  }) as unknown as z.ZodType<JsonObject>;

/** The credential that is the secret of a webhook. */
export const secretCredential = z
  .string()
  .regex(credentialName, 'must name a credential')
  .optional();

/**
 * Fingerprint of a secret that the caller brought. It reveals nothing, but shows whether the secret
 * is the same.
 */
export const secretFingerprint = z.string().min(1).optional();

/** The errors of a webhook whose target doesn't exist. */
export const webhookTargetErrors = [
  'COMMAND_NOT_FOUND',
  'PIPELINE_NOT_FOUND',
  'PLUGIN_NOT_FOUND',
] as const;

export const createWebhookDirective = defineDirective({
  type: 'webhook.create',
  summary: 'Create a webhook. Only deliveries with a valid signature or token are accepted.',
  scope,
  role: 'admin',
  isImmediate: true,
  params: z.strictObject({
    id: newId.optional(),
    settings: settingsParam,
    credential: secretCredential,
    fingerprint: secretFingerprint,
  }),
  sameness: () => 'each',
  target: ({ id }) => id ?? '',
  findStarted: (context, { id, settings }) => findWebhookCommands(context, id, settings),
  async resolve(context, { id: wanted, ...rest }, request) {
    const { secret } = request;
    const id =
      wanted === undefined
        ? await createId(request, context)
        : await reserveId(wanted, request.dryRun === true, context.tenant);
    if (secret !== undefined)
      checkWebhookEntry(id, rest.settings, [checkGivenSecret(secret)], context.generation);
    return { id, ...rest, ...(await fingerprintGiven(id, rest.credential, request, context)) };
  },
  isSameSecret: ({ vault }, { id = '', fingerprint: print }, secret) =>
    isSameSecret(secret, purposes.webhook(id), print, vault),
  async plan(context, { id = '', settings, credential, fingerprint }) {
    const { webhookIntake: intake } = context.services;
    if ((await context.ledger.webhooks.find(id)) !== undefined) throw describeTakenId(id);
    await requireCredential(credential, intake);
    const mode = authModeOf(settings);
    // `resolve` has checked a given secret. It isn't available here, so another one stands in.
    const isGiven = fingerprint !== undefined;
    const secrets = isGiven
      ? [{ secret: generateSecret(mode) }]
      : createSecrets(settings, credential);
    const { target } = checkWebhookEntry(id, settings, secrets, context.generation);
    await checkWebhookSecret({ id, settings }, secrets[0] ?? globalToken, intake.store);
    const work = describeTarget(target);
    return [
      `A webhook will be created at /hooks/${id}.`,
      `Each delivery that is verified with ${mode} will start ${work}.`,
    ];
  },
  async prepare(context, { id = '', settings, credential, fingerprint }, execution) {
    const { ledger, vault, tenant, services } = context;
    const { secret } = execution;
    await guardFirstKey(vault, ledger);
    const isGiven = fingerprint !== undefined;
    const secrets = isGiven ? [checkGivenSecret(secret)] : createSecrets(settings, credential);
    const reveal: JsonObject = {};
    const [own] = secrets;
    const isMade = credential === undefined && !isGiven;
    if (own !== undefined && isMade) reveal['secret'] = own.secret;
    if (
      own === undefined &&
      (await services.webhookIntake.store.credential(GLOBAL_TOKEN)) === undefined
    ) {
      const token = makeSecret('bearer');
      await setGlobalToken(token, execution);
      reveal['global_token'] = token;
    }
    if (tenant !== undefined && !(await tenant.addKey('hook', id))) throw describeTakenId(id);
    const sealed = secrets.length === 0 ? null : sealSecrets(id, secrets, vault);
    const webhook = { id, settings: JSON.stringify(settings), sealed };
    return { work: (tx, by) => createWebhook(tx, webhook, by), reveal };
  },
  after: ({ services: { webhookIntake } }) => webhookIntake.store.refresh(),
  operation: {
    name: 'webhook.add',
    effect: 'write',
    input: z.strictObject({
      ...settingsFields,
      id: webhookIdField
        .optional()
        .describe('id of the webhook, as in /hooks/<id> (default: generated)'),
      title: settingsFields.title.unwrap().describe('display name'),
      credential: secretCredentialField,
      ...secretFields,
    }),
    nulls: 'absent',
    secrets: secretNames,
    output: z.object({
      id: z.string(),
      path: z.string(),
      url: webhookUrlField,
      secret: newSecretField,
      global_token: z
        .string()
        .nullable()
        .describe('the global token, if it was generated for this webhook'),
      directive_id: directiveIdField,
    }),
    errors: [
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      ...keyErrors,
      ...webhookTargetErrors,
      'CREDENTIAL_NOT_FOUND',
      'WEBHOOK_EXISTS',
    ],
    http: {
      method: 'POST',
      path: '/webhooks',
      isSecret: true,
      status: () => 201,
      statuses: [201],
      location: '/webhooks/:webhook_id',
    },
    cli: {
      command: 'webhook create',
      positionals: ['id'],
      flags: { enabled: '--enabled <bool>' },
      examples: [
        'ductile webhook create deploys --title Deploys --plugin echo --auth-mode github',
        'ductile webhook create payments --title Payments --signal order.paid --auth-mode stripe --secret-stdin',
        "ductile webhook create ci --title CI --mode cron_task --task-folder ci --prompt-template '{{issue}}'",
      ],
    },
    toParams: (_context, input) => {
      const { id, credential, secret: _, token: __, hmac_secret: ___, ...given } = input;
      return { settings: omitUndefined(given), ...compact({ id, credential }) };
    },
    toSecret: (_context, input) => readWebhookSecret(input, input.auth_mode),
    toOutput({ engine }, { result }) {
      const id = textIn(result, 'id');
      return {
        webhook_id: id,
        id,
        path: `/hooks/${id}`,
        url: formatWebhookUrl(engine, id),
        secret: textOrNull(result['secret']),
        global_token: textOrNull(result['global_token']),
      };
    },
  },
});

export const deleteWebhookDirective = defineDirective({
  type: 'webhook.delete',
  summary: 'Delete a webhook. Later deliveries get 404.',
  lasting: 'Its secret cannot be restored.',
  scope,
  role: 'admin',
  params: z.strictObject({ id: webhookIdParam }),
  sameness: () => 'each',
  target: ({ id }) => id,
  async plan({ ledger }, { id }) {
    refuseProvided(await requireWebhookRow(id, ledger));
    return [`Webhook ${id} will be deleted. Its earlier deliveries are kept.`];
  },
  prepare: (_context, { id }) => ({ work: (tx) => deleteWebhook(tx, id) }),
  async after({ tenant, services: { webhookIntake } }, { id }) {
    await webhookIntake.store.refresh();
    await tenant?.dropKey('hook', id);
  },
  operation: {
    name: 'webhook.remove',
    effect: 'destroy',
    input: z.strictObject({ id: webhookIdField }),
    output: z.object({ id: z.string(), removed: z.boolean(), directive_id: directiveIdField }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'WEBHOOK_NOT_FOUND', 'WEBHOOK_PROVIDED'],
    http: { method: 'DELETE', path: '/webhooks/:id' },
    cli: {
      command: 'webhook delete',
      positionals: ['id'],
      examples: ['ductile webhook delete deploys'],
    },
    toOutput: (_context, { input: { id } }) => ({ id, removed: true }),
  },
});

/** Sets the token of all webhooks without a secret of their own. */
async function setGlobalToken(
  secret: string,
  { direct, actor }: Pick<DirectiveExecution, 'direct' | 'actor'>,
): Promise<void> {
  const params = { name: GLOBAL_TOKEN };
  const { error } = await direct({ type: 'credential.set', params, secret, actor });
  if (error !== null) throw new DuctileError('DIRECTIVE_FAILED', error);
}

export function omitUndefined(given: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
