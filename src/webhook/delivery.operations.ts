import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { DeliveryRow } from './types.ts';
import type { Context } from '../operation/context.ts';
import { limitField, readSeqCursor, readEpoch, writeCursor } from '../operation/page.ts';
import { defineOperation } from '../operation/define.ts';
import { findById } from '../operation/find-by-id.ts';
import { findOutcomes } from './outcomes.service.ts';
import {
  deliveryShape,
  showDelivery,
  showDeliveryWork,
  deliveryWorkShape,
  verdicts,
  type DeliveryWork,
} from './shapes.operations.ts';
import { compact } from '../base/json.ts';

/** A delivery's id, or the beginning of one. */
export const deliveryIdField = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f-]{4,36}$/, 'must be the id of a delivery, or at least its first 4 characters')
  .describe('id of a delivery, or its first characters if only one recent delivery has them');

export const listDeliveriesOperation = defineOperation({
  name: 'webhook.deliveries',
  summary: 'List webhook deliveries, newest first, with their outcome.',
  effect: 'read',
  scope: 'webhooks:ro',
  needs: 'ledger',
  input: z.strictObject({
    id: nonBlankText().optional().describe('only deliveries to this webhook'),
    verdict: z
      .enum(verdicts)
      .optional()
      .describe('failed: verified, but the target could not accept it; skipped: in quiet hours'),
    cursor: nonBlankText().optional().describe('next_cursor of the previous page'),
    limit: limitField,
  }),
  output: z.object({
    deliveries: z.array(deliveryShape),
    next_cursor: z.string().nullable().describe('null on the last page'),
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
      empty: 'No deliveries. Send one with `ductile webhook test <id>`.',
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
  summary: 'Show one delivery, its verdict and what it started.',
  effect: 'read',
  scope: 'webhooks:ro',
  needs: 'ledger',
  input: z.strictObject({ delivery_id: deliveryIdField }),
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

/** Finds a delivery by its id or a unique prefix, or throws. */
export function findDelivery(
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
  const message = `there is no webhook ${id}, and there are no deliveries to one of that name`;
  throw new DuctileError('WEBHOOK_NOT_FOUND', message, { place: 'id' });
}
