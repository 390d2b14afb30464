import * as z from 'zod';
import { describeMissingWebhook } from './store.service.ts';
import { defineOperation } from '../operation/define.ts';
import { findLastOutcomes, findOutcomes } from './outcomes.service.ts';
import { webhookIdField, showWebhook, webhookShape, webhookUrlField } from './shapes.operations.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';
import { formatDuration } from '../base/quantity.ts';
import type { EndpointConfig } from '../config/config.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { webhookResponses } from './webhook.ts';
import type { Context } from '../operation/context.ts';

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
      empty: 'No webhooks. Create one with `ductile webhook create`.',
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
  summary: 'Show one webhook, without its secret.',
  effect: 'read',
  scope: 'webhooks:ro',
  input: z.strictObject({ id: webhookIdField }),
  output: webhookShape.extend({
    credentials: z
      .array(z.string())
      .describe('credentials that hold its secret; empty if it has its own secret'),
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

const endpointShape = z.object({
  path: z.string().describe('path on the webhook listener, and the webhook_id of its deliveries'),
  url: webhookUrlField,
  plugin: z.string(),
  command: z.string(),
  signature_header: z.string(),
  secret_ref: z.string().describe('entry of tokens.yaml, or credential, that holds its secret'),
  max_body_bytes: z.int(),
  respond: z.enum(webhookResponses),
  respond_within: z.string().nullable(),
  last_triggered_at: z.string().nullable().describe('UTC, ISO 8601 with milliseconds'),
  last_status: z.string().nullable().describe('status of the job of the last accepted delivery'),
});

export const listEndpoints = defineOperation({
  name: 'webhook.endpoints',
  summary: 'List the webhook endpoints of the configuration.',
  effect: 'read',
  scope: 'webhooks:ro',
  input: z.strictObject(pageFields),
  output: z.object({ endpoints: z.array(endpointShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/webhooks/endpoints' },
  cli: {
    examples: ['ductile webhook endpoints'],
    table: {
      rows: 'endpoints',
      columns: [
        ['PATH', 'path'],
        ['PLUGIN', 'plugin'],
        ['COMMAND', 'command'],
        ['HEADER', 'signature_header'],
        ['LAST', 'last_triggered_at'],
        ['STATUS', 'last_status'],
        ['URL', 'url', 'detail'],
        ['SECRET', 'secret_ref', 'detail'],
      ],
      empty: 'No webhook endpoints. Add them to `webhooks.endpoints` in the configuration.',
    },
  },
  async run({ engine }, page) {
    // Endpoints belong to the root ledger. Tenants share its configuration.
    const endpoints = engine.tenant === undefined ? engine.config.webhooks.endpoints : [];
    const { page: shown, next } = cutPage(endpoints, ({ path }) => path, page);
    return {
      endpoints: await Promise.all(shown.map((endpoint) => showEndpoint(endpoint, engine))),
      next_cursor: next,
    };
  },
});

async function showEndpoint(
  endpoint: EndpointConfig,
  { config, reach, ledger }: Context['engine'],
): Promise<z.output<typeof endpointShape>> {
  const { path, plugin, command, secretRef, auth, maxBodyBytes, waitMs } = endpoint;
  const base = config.webhooks.publicUrl ?? reach.webhooks;
  return {
    path,
    url: base === undefined ? null : `${base}${path}`,
    plugin,
    command,
    signature_header: auth.header,
    secret_ref: secretRef,
    max_body_bytes: maxBodyBytes,
    respond: waitMs > 0 ? 'result' : 'accepted',
    respond_within: waitMs > 0 ? formatDuration(waitMs) : null,
    ...(await readLast(path, ledger)),
  };
}

async function readLast(path: string, ledger: Ledger) {
  const [last] = await ledger.deliveries.list({ webhookId: path, verdict: 'accepted', limit: 1 });
  const outcome = last && (await findOutcomes(ledger, [last])).get(last.id);
  return { last_triggered_at: last?.receivedAt ?? null, last_status: outcome?.status ?? null };
}
