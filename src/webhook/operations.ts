import * as z from 'zod';
import { describeMissingWebhook } from './store.service.ts';
import { defineOperation } from '../operation/define.ts';
import { findLastOutcomes } from './outcomes.service.ts';
import { webhookIdField, showWebhook, webhookShape } from './shapes.operations.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

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
