import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../base/text.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import {
  authModeOf,
  findWebhookCommands,
  refuseProvided,
  requireBearer,
  requireWebhookRow,
  listCurrentSecrets,
} from './change.service.ts';
import {
  changesAuth,
  changesTarget,
  checkTemplate,
  checkWebhookSecret,
  checkWebhookTarget,
  parseWebhookEntry,
} from './check-entry.service.ts';
import { findLastOutcomes } from './outcomes.service.ts';
import {
  settingName,
  settingsFields,
  showWebhook,
  webhookIdField,
  webhookShape,
} from './shapes.operations.ts';
import { describeMissingWebhook, isValidSecret, toPlaceholders } from './store.service.ts';
import type { WebhookChange } from './types.ts';
import { changeWebhook } from './webhook.sql.ts';
import { webhookFields } from './webhook.ts';
import {
  omitUndefined,
  settingsParam,
  webhookIdParam,
  webhookTargetErrors,
} from './webhook.directives.ts';

const editParams = z.strictObject({ id: webhookIdParam, changes: settingsParam });

type WebhookEdit = z.output<typeof editParams>;

export const updateWebhookDirective = defineDirective({
  type: 'webhook.update',
  summary: 'Change what a webhook does, or how its deliveries are verified.',
  scope: 'webhooks:rw',
  role: 'admin',
  params: editParams,
  sameness: () => 'each',
  target: ({ id }) => id,
  findStarted: (context, { id, changes }) => findWebhookCommands(context, id, changes),
  async plan(context, edit) {
    await planEdit(context, edit);
    return describeEdit(edit);
  },
  async prepare(context, edit) {
    const change = await planEdit(context, edit);
    return { work: (tx, actor) => changeWebhook(tx, change, actor) };
  },
  after: ({ services: { webhookIntake } }) => webhookIntake.store.refresh(),
  operation: {
    name: 'webhook.edit',
    effect: 'write',
    input: z.strictObject({
      ...settingsFields,
      id: webhookIdField,
      unset: z.array(settingName).default([]).describe('settings to reset to their default'),
    }),
    nulls: 'unset',
    output: webhookShape.extend({ changed: z.boolean(), directive_id: directiveIdField }),
    errors: [
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      ...webhookTargetErrors,
      'WEBHOOK_NOT_FOUND',
      'WEBHOOK_PROVIDED',
    ],
    http: { method: 'PATCH', path: '/webhooks/:id' },
    cli: {
      positionals: ['id'],
      flags: { enabled: '--enabled <bool>' },
      examples: [
        'ductile webhook edit deploys --enabled=false',
        'ductile webhook edit deploys --pipeline deploy --unset plugin',
      ],
    },
    toParams(_context, { id, unset, ...given }) {
      const removed = Object.fromEntries(unset.map((key) => [key, null]));
      return { id, changes: { ...removed, ...omitUndefined(given) } };
    },
    async toOutput({ engine: { ledger } }, { input: { id } }) {
      const row = await ledger.webhooks.find(id);
      if (row === undefined) throw await describeMissingWebhook(id, ledger);
      const outcome = (await findLastOutcomes(ledger, [row])).get(id);
      return { ...showWebhook(row, outcome), changed: true };
    },
  },
});

async function planEdit(
  context: DirectiveContext,
  { id, changes }: WebhookEdit,
): Promise<WebhookChange> {
  const { ledger, vault, services } = context;
  const { webhookIntake: intake } = services;
  checkChanges(changes);
  const row = await requireWebhookRow(id, ledger);
  refuseProvided(row);
  const before = parseJson(row.settings) as JsonObject;
  const merged = { ...before, ...changes };
  const settings = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null));
  const webhook = parseWebhookEntry(id, settings, toPlaceholders(listCurrentSecrets(row, vault)));
  if (row.sealed === null) requireBearer(id, authModeOf(settings));
  if (changesTarget(before, settings)) checkWebhookTarget(webhook, context.generation);
  if (changes['prompt_template'] !== undefined) checkTemplate(webhook.target);
  const secrets = changesAuth(before, settings)
    ? listCurrentSecrets(row, vault).filter(isValidSecret)
    : [];
  for (const secret of secrets) await checkWebhookSecret({ id, settings }, secret, intake.store);
  return { id, seenAt: row.updatedAt, settings: JSON.stringify(settings) };
}

function describeEdit({ id, changes: { enabled, ...others } }: WebhookEdit): string[] {
  const keys = Object.keys(others);
  const named = [keys.slice(0, -1).join(', '), keys.at(-1)].filter(Boolean).join(' and ');
  return [
    ...(enabled === undefined
      ? []
      : [`Webhook ${id} will be ${enabled === false ? 'disabled' : 'enabled'}.`]),
    ...(keys.length === 0
      ? []
      : [`${named} of webhook ${id} will be changed for later deliveries.`]),
  ];
}

/** Refuses unknown keys here, because removing one with null would change nothing. */
function checkChanges(changes: Readonly<JsonObject>): void {
  const keys = Object.keys(changes);
  if (keys.length === 0) {
    const hint = 'Pass at least one setting of the webhook, or one to unset.';
    throw new DuctileError('INPUT_INVALID', 'there is nothing to change', { hint });
  }
  const unknown = keys.find((key) => !settingKeys.includes(key));
  if (unknown === undefined) return;
  throw new DuctileError('INPUT_INVALID', `${unknown} is not a setting of a webhook`, {
    place: unknown,
    hint: suggest(unknown, settingKeys, 'settings'),
  });
}

/** The id can't change, and secrets are changed by a rotation. */
const fixedKeys = ['id', 'token', 'hmac_secret'];
const settingKeys = Object.keys(webhookFields).filter((key) => !fixedKeys.includes(key));
