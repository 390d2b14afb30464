import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import type { DeliveryChoice } from './change-directives.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { DeliveryRow } from './types.ts';
import type { Context } from '../operation/context.ts';
import { limitField, readSeqCursor, readEpoch, writeCursor } from '../operation/page.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../operation/request-directive.ts';
import { findById } from '../operation/find-by-id.ts';
import { findOutcomes } from './outcomes.service.ts';
import {
  deliveryShape,
  showDelivery,
  showDeliveryWork,
  deliveryWorkShape,
  verdicts,
  webhookIdField,
  type DeliveryWork,
} from './shapes.operations.ts';
import { compact, isObject } from '../base/json.ts';
import { BY_JOB, IN_PROCESS } from './delivery.service.ts';

/** A delivery's id, or the beginning of one. */
const deliveryId = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f-]{4,36}$/, 'must be the id of a delivery, or at least its first 4 characters')
  .describe('the id of a delivery, or its beginning when that fits only one recent delivery');

export const listDeliveriesOperation = defineOperation({
  name: 'webhook.deliveries',
  summary: 'List what was delivered to webhooks, the newest first, and what became of it.',
  effect: 'read',
  scope: 'webhooks:ro',
  needs: 'ledger',
  input: z.strictObject({
    id: nonBlankText().optional().describe('only of this webhook'),
    verdict: z
      .enum(verdicts)
      .optional()
      .describe('failed: verified, but its target could not take it; skipped: in quiet hours'),
    cursor: nonBlankText().optional().describe('goes on after a page'),
    limit: limitField,
  }),
  output: z.object({
    deliveries: z.array(deliveryShape),
    next_cursor: z.string().nullable().describe('null when this was the last page'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'WEBHOOK_NOT_FOUND'],
  http: { method: 'GET', path: '/webhooks/deliveries' },
  cli: {
    positionals: ['id'],
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile webhook deliveries deploys --verdict refused'],
    table: {
      rows: 'deliveries',
      columns: [
        ['ID', 'delivery_id'],
        ['WEBHOOK', 'hook_id'],
        ['VERDICT', 'verdict'],
        ['STATUS', 'status'],
        ['REASON', 'reason'],
        ['SOURCE', 'source'],
        ['BYTES', 'body_bytes'],
        ['SIGNAL', 'signal_id'],
        ['AGAIN', 'duplicates', 'detail'],
        ['RECEIVED', 'received_at'],
      ],
      empty: 'Nothing was delivered.',
    },
  },
  async run({ engine: { ledger } }, { id, verdict, cursor, limit: rowsMax }) {
    const epoch = await readEpoch(ledger);
    const { rows, next } = await ledger.deliveries.page({
      ...compact({ webhookId: id, verdict }),
      ...(cursor === undefined ? {} : { beforeSeq: readSeqCursor('w', epoch, cursor) }),
      limit: rowsMax,
    });
    if (rows.length === 0 && id !== undefined) await requireWebhook(ledger, id);
    const outcomes = await findOutcomes(ledger, rows);
    return {
      deliveries: rows.map((row) => showDelivery(row, outcomes.get(row.id))),
      next_cursor: next === undefined ? null : writeCursor('w', epoch, [next]),
    };
  },
});

export const showDeliveryOperation = defineOperation({
  name: 'webhook.delivery',
  summary: 'Show one delivery, what was said of it, and what it started.',
  effect: 'read',
  scope: 'webhooks:ro',
  needs: 'ledger',
  input: z.strictObject({ delivery_id: deliveryId }),
  output: deliveryShape.extend(deliveryWorkShape),
  errors: ['DELIVERY_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/webhooks/deliveries/:delivery_id' },
  cli: { positionals: ['delivery_id'], examples: ['ductile webhook delivery 0199a1b2'] },
  async run(context, { delivery_id: id }) {
    const { ledger } = context.engine;
    const delivery = await findDelivery(context, id);
    const [outcomes, started] = await Promise.all([
      findOutcomes(ledger, [delivery]),
      listDeliveryWork(ledger, delivery),
    ]);
    return { ...showDelivery(delivery, outcomes.get(delivery.id)), ...showDeliveryWork(started) };
  },
});

export const replayDelivery = defineOperation({
  name: 'webhook.replay',
  summary: 'Let a delivery be handled once more, by what its webhook starts now.',
  effect: 'write',
  scope: 'webhooks:rw',
  input: z.strictObject({ delivery_id: deliveryId }),
  output: z.object({
    signal_id: z.string(),
    jobs: z.int(),
    runs: z.int(),
    directive_id: z.string(),
  }),
  errors: [
    ...directErrors,
    'AGENT_UNAVAILABLE',
    'COMMAND_NOT_FOUND',
    'DELIVERY_NOT_FOUND',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'PAYLOAD_TOO_LARGE',
    'PIPELINE_NOT_FOUND',
    'PLUGIN_NOT_FOUND',
    'SIGNAL_MASKED',
    'SIGNAL_NOT_FOUND',
    'WEBHOOK_NOT_FOUND',
  ],
  http: { method: 'POST', path: '/webhooks/deliveries/:delivery_id/replay' },
  cli: { positionals: ['delivery_id'], examples: ['ductile webhook replay 0199a1b2'] },
  async run(context, input) {
    const { id, result } = await direct(context, 'webhook.replay', await toChoice(context, input));
    return {
      signal_id: textIn(result, 'signal_id'),
      jobs: Number(result['jobs']),
      runs: Number(result['runs']),
      directive_id: id,
    };
  },
  async plan(context, input) {
    return planDirective(context, 'webhook.replay', await toChoice(context, input));
  },
});

async function toChoice(
  context: Context,
  { delivery_id: id }: DeliveryChoice,
): Promise<DeliveryChoice> {
  return { delivery_id: (await findDelivery(context, id)).id };
}

/** Finds a delivery by its id or a unique prefix, or throws. */
function findDelivery(
  { engine: { ledger } }: Pick<Context, 'engine'>,
  id: string,
): Promise<DeliveryRow> {
  return findById(id, {
    noun: 'delivery',
    nouns: 'deliveries',
    errorCode: 'DELIVERY_NOT_FOUND',
    findExact: async () => (await ledger.deliveries.list({ id, limit: 1 }))[0],
    listByPrefix: (page) => ledger.deliveries.list(page),
  });
}

/** Lists the jobs and runs that a delivery's signal started. A delivery without a signal has none. */
export async function listDeliveryWork(
  ledger: LedgerSubset<'jobs.list' | 'runs.list'>,
  { signalId }: DeliveryRow,
): Promise<DeliveryWork> {
  if (signalId === null) return { jobs: [], runs: [] };
  const page = { sourceEventId: signalId, limit: limits.pageRowsMax };
  const [jobs, runs] = await Promise.all([
    ledger.jobs.list({ ...page, order: 'oldest' }),
    ledger.runs.list(page),
  ]);
  return { jobs, runs };
}

/** Throws if there is no such webhook. A deleted one with deliveries, or an endpoint, is accepted. */
async function requireWebhook(
  ledger: LedgerSubset<'webhooks.find' | 'deliveries.list'>,
  id: string,
): Promise<void> {
  if (id.startsWith('/') || (await ledger.webhooks.find(id)) !== undefined) return;
  const [earlier] = await ledger.deliveries.list({ webhookId: id, limit: 1 });
  if (earlier !== undefined) return;
  const message = `there is no webhook ${id}, and nothing was delivered to one of that name`;
  throw new DuctileError('WEBHOOK_NOT_FOUND', message, { place: 'id' });
}

export const testWebhook = defineOperation({
  name: 'webhook.test',
  summary: 'Deliver a test to a webhook, signed as its sender would sign it.',
  effect: 'write',
  scope: 'webhooks:rw',
  input: z.strictObject({
    id: webhookIdField,
    payload: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('what is delivered, as JSON (default: a payload that never came before)'),
  }),
  output: z.object({
    status: z.int().describe('the status that the sender would get'),
    answer: z.record(z.string(), z.unknown()),
    via: z
      .string()
      .describe(
        `the address that it was posted to; \`${IN_PROCESS}\` where no server listens, \`${BY_JOB}\` for a running job`,
      ),
    directive_id: z.string().describe('the record of this test'),
  }),
  errors: [
    ...directErrors,
    'CREDENTIAL_KEY_INVALID',
    'CREDENTIAL_KEY_MISSING',
    'FORBIDDEN',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'SERVER_UNREACHABLE',
    'WEBHOOK_NOT_FOUND',
  ],
  // The webhook's response isn't stored: it may hold the result of a job.
  http: { method: 'POST', path: '/webhooks/:id/test', isSecret: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile webhook test deploys', `ductile webhook test deploys --payload '{"n":1}'`],
    exitCode: ({ status }) => (Number(status) < 300 ? 0 : 1),
  },
  async run(context, { id, payload }) {
    const more = payload === undefined ? {} : { secret: JSON.stringify(payload) };
    const { id: directiveId, result } = await direct(context, 'webhook.test', { id }, more);
    const { answer } = result;
    return {
      status: Number(result['status']),
      answer: isObject(answer) ? answer : {},
      via: textIn(result, 'via'),
      directive_id: directiveId,
    };
  },
  plan: (context, { id }) => planDirective(context, 'webhook.test', { id }),
});
