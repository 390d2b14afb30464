import type { Transaction } from '../ledger/dialect.ts';
import { defineInsert } from '../ledger/insert.ts';
import type { SignalDirective } from '../signal/signal.ts';
import { propertiesOf } from '../ledger/table.ts';
import { directiveDraftColumns, directiveTable } from './directive.ts';

/**
 * Inserts directives that handlers of signals request: due at once, each key once. The insert of signals
 * calls it, so this file can't import `directive.sql.ts`, which inserts signals.
 */
export function insertSignalDirectives(
  tx: Transaction,
  requested: readonly SignalDirective[],
): void {
  tx.send(insert, requested.map(toRow));
}

const insert = defineInsert(directiveTable, {
  properties: [...propertiesOf(directiveDraftColumns), 'idempotencyKey', 'awaitingApproval'],
  sql: (_, d) => ({
    status: `'requested'`,
    attempt: '0',
    processId: `''`,
    requestedAt: d.now,
    runAt: d.now,
  }),
  rest: 'on conflict (idempotency_key) do nothing',
});

function toRow({ draft, forApproval }: SignalDirective) {
  const { id, sameness } = draft;
  const idempotencyKey = typeof sameness === 'string' ? id : sameness.key;
  return { ...draft, idempotencyKey, awaitingApproval: forApproval };
}
