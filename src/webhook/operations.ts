import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { duration, nonBlankText } from '../base/fields.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { limits } from '../base/limits.ts';
import { describeMissingWebhook } from './store.service.ts';
import { authModes, secretKeyOf, type AuthMode } from './auth-settings.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import {
  requestDirective,
  direct,
  directErrors,
  planDirective,
  textIn,
} from '../operation/request-directive.ts';
import { findLastOutcomes } from './outcomes.service.ts';
import {
  webhookIdField,
  webhookUrlField,
  settingName,
  settingsFields,
  showWebhook,
  formatWebhookUrl,
  webhookShape,
} from './shapes.operations.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

const directiveId = z.string().describe('the record of this change');
const secret = z
  .string()
  .nullable()
  .describe('the secret that was made for it, shown this once; null when none was');
const credential = nonBlankText()
  .optional()
  .describe('the credential that is its secret; one is made and shown once unless told');
const givenSecret = z
  .string()
  .optional()
  .describe('the secret itself, which its sender made; it is sealed, and shown nowhere');
const givenToken = z.string().optional().describe('the same as secret, for bearer and gitlab');
const givenKey = z.string().optional().describe('the same as secret, for modes that sign');
/** The secret, with its two older names. */
const secretFields = { secret: givenSecret, token: givenToken, hmac_secret: givenKey };
const secretNames = Object.keys(secretFields);
const keyErrors = ['CREDENTIAL_KEY_INVALID', 'CREDENTIAL_KEY_MISSING'] as const;
const targetErrors = ['COMMAND_NOT_FOUND', 'PIPELINE_NOT_FOUND', 'PLUGIN_NOT_FOUND'] as const;
const commonErrors = [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'] as const;

export const addWebhook = defineOperation({
  name: 'webhook.add',
  summary: 'Open a webhook: a place where others may deliver, once they prove who they are.',
  effect: 'write',
  scope: 'webhooks:rw',
  input: z.strictObject({
    ...settingsFields,
    id: webhookIdField.optional(),
    title: settingsFields.title.unwrap().describe('what people call it'),
    credential,
    ...secretFields,
  }),
  nulls: 'absent',
  secrets: secretNames,
  output: z.object({
    id: z.string(),
    path: z.string(),
    url: webhookUrlField,
    secret,
    global_token: z.string().nullable().describe('shown when it was made for this first webhook'),
    directive_id: directiveId,
  }),
  errors: [
    ...commonErrors,
    ...keyErrors,
    ...targetErrors,
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
    positionals: ['id'],
    flags: { enabled: '--enabled <bool>' },
    examples: [
      'ductile webhook add deploys --title Deploys --plugin echo --auth-mode github',
      'ductile webhook add payments --title Payments --signal order.paid --auth-mode stripe --secret-stdin',
      "ductile webhook add triage --title Triage --mode cron_task --task-folder triage --prompt-template '{{issue}}'",
    ],
  },
  async run(context, input) {
    const params = toCreate(input);
    const secretInput = readSecret(input, input.auth_mode);
    const { id, result } = await direct(context, 'webhook.create', params, secretInput);
    const webhookId = textIn(result, 'id');
    return {
      webhook_id: webhookId,
      id: webhookId,
      path: `/hooks/${webhookId}`,
      url: formatWebhookUrl(context.engine, webhookId),
      secret: textOrNull(result['secret']),
      global_token: textOrNull(result['global_token']),
      directive_id: id,
    };
  },
  plan: (context, input) =>
    plan(context, 'webhook.create', toCreate(input), readSecret(input, input.auth_mode)),
});

export const editWebhook = defineOperation({
  name: 'webhook.edit',
  summary: 'Change what a webhook does, or how its deliveries are verified.',
  effect: 'write',
  scope: 'webhooks:rw',
  input: z.strictObject({
    ...settingsFields,
    id: webhookIdField,
    unset: z
      .array(settingName)
      .default([])
      .describe('keys that are to be as if they were not said'),
  }),
  nulls: 'unset',
  output: webhookShape.extend({ changed: z.boolean(), directive_id: directiveId }),
  errors: [...commonErrors, ...targetErrors, 'WEBHOOK_NOT_FOUND', 'WEBHOOK_PROVIDED'],
  http: { method: 'PATCH', path: '/webhooks/:id' },
  cli: {
    positionals: ['id'],
    flags: { enabled: '--enabled <bool>' },
    examples: [
      'ductile webhook edit deploys --enabled=false',
      'ductile webhook edit deploys --pipeline deploy --unset plugin',
    ],
  },
  async run(context, input) {
    const { ledger } = context.engine;
    const { id } = await direct(context, 'webhook.update', toUpdate(input));
    const row = await ledger.webhooks.find(input.id);
    if (row === undefined) throw await describeMissingWebhook(input.id, ledger);
    const outcome = (await findLastOutcomes(ledger, [row])).get(row.id);
    return { ...showWebhook(row, outcome), changed: true, directive_id: id };
  },
  plan: (context, input) => planDirective(context, 'webhook.update', toUpdate(input)),
});

export const listWebhooksOperation = defineOperation({
  name: 'webhook.list',
  summary: 'List the webhooks, without their secrets.',
  effect: 'read',
  scope: 'webhooks:ro',
  needs: 'ledger',
  input: z.strictObject(pageFields),
  output: z.object({ webhooks: z.array(webhookShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/webhooks' },
  cli: {
    examples: ['ductile webhook list'],
    isDefault: true,
    table: {
      rows: 'webhooks',
      columns: [
        ['ID', 'id'],
        ['TITLE', 'title'],
        ['ENABLED', 'enabled'],
        ['AUTH', 'auth_mode'],
        ['COUNT', 'trigger_count'],
        ['LAST', 'last_triggered_at'],
        ['STATUS', 'last_status'],
        ['ERROR', 'last_error'],
        ['PATH', 'path', 'detail'],
      ],
      empty: 'There are no webhooks.',
    },
  },
  async run({ engine: { ledger } }, request) {
    const { page, next } = cutPage(await ledger.webhooks.list(), (row) => row.id, request);
    const outcomes = await findLastOutcomes(ledger, page);
    return {
      webhooks: page.map((row) => showWebhook(row, outcomes.get(row.id))),
      next_cursor: next,
    };
  },
});

export const showWebhookOperation = defineOperation({
  name: 'webhook.show',
  summary: 'Show one webhook; its secret is shown to nobody.',
  effect: 'read',
  scope: 'webhooks:ro',
  input: z.strictObject({ id: webhookIdField }),
  output: webhookShape.extend({
    credentials: z
      .array(z.string())
      .describe('those that are its secret; empty for one of its own'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'WEBHOOK_NOT_FOUND'],
  http: { method: 'GET', path: '/webhooks/:id' },
  cli: { positionals: ['id'], examples: ['ductile webhook show deploys'] },
  async run({ engine: { ledger, webhookIntake } }, { id }) {
    const found = await ledger.webhooks.find(id);
    if (found !== undefined) {
      const outcome = (await findLastOutcomes(ledger, [found])).get(id);
      const credentials = (await webhookIntake.store.references()).get(id) ?? [];
      return { ...showWebhook(found, outcome), credentials: [...credentials] };
    }
    throw await describeMissingWebhook(id, ledger);
  },
});

export const removeWebhook = defineOperation({
  name: 'webhook.remove',
  summary: 'Close a webhook; what is delivered to it from then on is not found.',
  effect: 'destroy',
  scope: 'webhooks:rw',
  input: z.strictObject({ id: webhookIdField }),
  output: z.object({ id: z.string(), removed: z.boolean(), directive_id: directiveId }),
  errors: [...commonErrors, 'WEBHOOK_NOT_FOUND', 'WEBHOOK_PROVIDED'],
  http: { method: 'DELETE', path: '/webhooks/:id' },
  cli: { positionals: ['id'], examples: ['ductile webhook remove deploys'] },
  async run(context, input) {
    const { id } = await direct(context, 'webhook.delete', input);
    return { id: input.id, removed: true, directive_id: id };
  },
  plan: (context, input) => planDirective(context, 'webhook.delete', input),
});

export const rotateWebhook = defineOperation({
  name: 'webhook.rotate',
  summary: 'Put another secret in the place of the one that a webhook has.',
  effect: 'write',
  scope: 'webhooks:rw',
  input: z.strictObject({
    id: webhookIdField,
    credential,
    ...secretFields,
    keep_old: duration({ minMs: 1000, maxMs: limits.webhookOldSecretMsMax })
      .optional()
      .describe('how long the secret of now stays good; not at all unless told'),
  }),
  secrets: secretNames,
  output: z.object({ id: z.string(), url: webhookUrlField, secret, directive_id: directiveId }),
  errors: [
    ...commonErrors,
    ...keyErrors,
    ...targetErrors,
    'CREDENTIAL_NOT_FOUND',
    'WEBHOOK_NOT_FOUND',
  ],
  http: { method: 'POST', path: '/webhooks/:id/rotate', isSecret: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile webhook rotate deploys --keep-old 1d'],
  },
  async run(context, input) {
    const params = toRotate(input);
    const secretInput = readSecret(input, await readAuthMode(context, input.id));
    const { id, result } = await direct(context, 'webhook.rotate', params, secretInput);
    const made = textOrNull(result['secret']);
    const url = formatWebhookUrl(context.engine, input.id);
    return { id: input.id, url, secret: made, directive_id: id };
  },
  async plan(context, input) {
    const secretInput = readSecret(input, await readAuthMode(context, input.id));
    return plan(context, 'webhook.rotate', toRotate(input), secretInput);
  },
});

interface WebhookInput extends Readonly<Record<string, unknown>> {
  readonly id?: string | undefined;
  readonly credential?: string | undefined;
  readonly secret?: string | undefined;
  readonly token?: string | undefined;
  readonly hmac_secret?: string | undefined;
}

interface SecretInput {
  readonly secret?: string;
}

/** Reads the secret, which is passed beside the params because params are recorded. */
function readSecret(input: WebhookInput, mode: AuthMode = 'bearer'): SecretInput {
  const [first, second] = secretNames.filter((name) => input[name] !== undefined);
  if (first === undefined) return {};
  if (second !== undefined) throw refuseSecret(second, `and ${first} exclude each other`);
  const expected = secretKeyOf(mode);
  if (first !== 'secret' && first !== expected) {
    throw refuseSecret(first, `is not for auth_mode ${mode}`, `Write it as ${expected}.`);
  }
  const value = input.secret ?? input.token ?? input.hmac_secret ?? '';
  if (first !== 'secret' && value.length < limits.webhookSecretCharsMin) {
    throw refuseSecret(first, `has fewer than ${limits.webhookSecretCharsMin} characters`);
  }
  return { secret: value };
}

function refuseSecret(place: string, message: string, hint?: string): DuctileError {
  const more = compact({ hint });
  return new DuctileError('INPUT_INVALID', `${place} ${message}`, { place, ...more });
}

async function readAuthMode(
  { engine: { ledger } }: Context,
  id: string,
): Promise<AuthMode | undefined> {
  const row = await ledger.webhooks.find(id);
  const settings = row === undefined ? {} : (parseJson(row.settings) as JsonObject);
  return authModes.find((mode) => mode === settings['auth_mode']);
}

async function plan(context: Context, type: string, params: object, secretInput: SecretInput) {
  const request = { type, params, dryRun: true, ...secretInput };
  return [...(await requestDirective(context, request)).plan];
}

function toCreate(input: WebhookInput): object {
  const { id, credential: name, secret: _, token: __, hmac_secret: ___, ...settings } = input;
  return {
    settings: omitUndefined(settings),
    ...compact({ id, credential: name }),
  };
}

function toUpdate({
  id,
  unset,
  ...settings
}: WebhookInput & { readonly unset: readonly string[] }): object {
  const removed = Object.fromEntries(unset.map((key) => [key, null]));
  return { id, changes: { ...removed, ...omitUndefined(settings) } };
}

function toRotate({ id, credential: name, keep_old: keepMs }: WebhookInput): object {
  return {
    id,
    ...compact({ credential: name, keep_old_ms: keepMs }),
  };
}

function omitUndefined(settings: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
