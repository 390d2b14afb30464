/** The documented names of columns. */
import { describe, expect, test } from 'vitest';
import { databases, openBench } from '../support/ledger/bench.ts';
import { pausing } from '../support/ledger/drafts.ts';

const signalColumns = [
  'id',
  'type',
  'source',
  'subject_type',
  'subject_id',
  'data',
  'metadata',
  'occurred_at',
  'inserted_at',
  'updated_at',
  'dedupe_key',
  'source_event_id',
];
const directiveColumns = [
  'id',
  'type',
  'status',
  'params',
  'result',
  'error_kind',
  'error_message',
  'error_details',
  'requested_at',
  'started_at',
  'completed_at',
  'actor_user_id',
  'actor_role',
  'correlation_id',
  'causation_id',
  'idempotency_key',
  'inserted_at',
  'updated_at',
];

describe.each(databases)('the columns on %s', (kind) => {
  test('signals: a fact is never updated', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.directives.create(pausing());
    const [row] = await sql(`select ${signalColumns.join(', ')} from signals`);
    expect(row?.['updated_at']).toBe(row?.['inserted_at']);
    await expect(sql(`update signals set updated_at = 'later'`)).rejects.toThrow(/updated_at/);
  });

  test('directives: actor, creation time and last change', async () => {
    const { ledger, sql } = await openBench(kind);
    const { directive } = await ledger.directives.create(pausing());
    const [row] = await sql(`select ${directiveColumns.join(', ')} from directives`);
    expect(row).toMatchObject({
      actor_user_id: directive.actor,
      inserted_at: directive.requestedAt,
      updated_at: directive.completedAt,
    });
  });
});
