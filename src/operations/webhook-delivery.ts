import * as z from 'zod';
import { text } from '../base/fields.ts';
import { continueAfter, epochOf, writeCursor } from './cursor.ts';
import { defineOperation } from './define.ts';
import { direct, directErrors, planDirective, textIn } from './direct.ts';
import { limit } from './job.ts';
import { outcomesOf } from './webhook-outcome.ts';
import { deliveryShape, showDelivery, verdicts } from './webhook-shapes.ts';

const deliveryId = text().describe('the id of a delivery');

export const listDeliveries = defineOperation({
  name: 'webhook.deliveries',
  summary: 'List what was delivered to webhooks, the newest first, and what became of it.',
  effect: 'read',
  scope: 'webhooks:ro',
  needs: 'ledger',
  input: z.strictObject({
    id: text().optional().describe('only of this webhook'),
    verdict: z
      .enum(verdicts)
      .optional()
      .describe('failed: verified, but its target could not take it; skipped: in quiet hours'),
    cursor: text().optional().describe('goes on after a page'),
    limit,
  }),
  output: z.object({
    deliveries: z.array(deliveryShape),
    next_cursor: z.string().nullable().describe('null when this was the last page'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
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
    const epoch = await epochOf(ledger);
    const rows = await ledger.deliveries({
      ...(id === undefined ? {} : { hookId: id }),
      ...(verdict === undefined ? {} : { verdict }),
      ...(cursor === undefined ? {} : { beforeSeq: continueAfter('w', epoch, cursor) }),
      limit: rowsMax,
    });
    const last = rows.length === rowsMax ? rows.at(-1) : undefined;
    const outcomes = await outcomesOf(ledger, rows);
    return {
      deliveries: rows.map((row) => showDelivery(row, outcomes.get(row.id))),
      next_cursor: last === undefined ? null : writeCursor('w', epoch, [last.seq]),
    };
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
    const { id, result } = await direct(context, 'webhook.replay', input);
    return {
      signal_id: textIn(result, 'signal_id'),
      jobs: Number(result['jobs']),
      runs: Number(result['runs']),
      directive_id: id,
    };
  },
  plan: (context, input) => planDirective(context, 'webhook.replay', input),
});
