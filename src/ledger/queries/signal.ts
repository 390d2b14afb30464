import type { Signal, SignalDraft } from '../../signal/signal.ts';
import { defineRows, type Row, type Session, type Transaction } from '../dialect.ts';
import type { SignalFilter } from '../ledger.ts';
import { int, intOrNull, text, textOrNull } from './row.ts';
import { Where } from './where.ts';

export function insertSignals(tx: Transaction, signals: readonly SignalDraft[]): void {
  tx.send(insert, signals.map(toRow));
  const first = new Map<string, string>();
  for (const { id, type } of signals) if (!first.has(type)) first.set(type, id);
  const woken = [...first].map(([type, id]) => ({ type, id }));
  tx.send(
    wake,
    woken.toSorted((a, b) => (a.type < b.type ? -1 : 1)),
  );
}

/** Branches that wait for such a signal are looked at; from which one on, they remember. */
const wake = defineRows({
  columns: { type: 'text', id: 'text' },
  sql: (r, d) => `update ${d.table('run_branches')} set
      due_at = case when run_branches.claim_token is null then ${d.now} else run_branches.due_at end,
      wake_from = (select case when run_branches.wake_from < s.seq then run_branches.wake_from
        else s.seq end from ${d.table('signals')} s where s.id = ${r('id')})
    ${r.from}
    where run_branches.waits_for = ${r('type')} and run_branches.waits_for is not null`,
});

/** A signal that is already there is the same one, told again after a lost answer. */
const insert = defineRows({
  columns: {
    id: 'text',
    type: 'text',
    source: 'text',
    subject_type: 'text',
    subject_id: 'text',
    data: 'text',
    metadata: 'text',
    hops: 'int',
    correlation_id: 'text',
    causation_id: 'text',
    visibility: 'text',
    job_id: 'text',
    job_attempt: 'int',
    event_index: 'int',
  },
  sql: (r, d) => `insert into ${d.table('signals')}
    (id, type, source, subject_type, subject_id, data, metadata, hops, correlation_id,
      causation_id, visibility, job_id, job_attempt, event_index, occurred_at, inserted_at)
    select ${r('id')}, ${r('type')}, ${r('source')}, ${r('subject_type')}, ${r('subject_id')},
      ${r('data')}, ${r('metadata')}, ${r('hops')}, ${r('correlation_id')}, ${r('causation_id')},
      ${r('visibility')}, ${r('job_id')}, ${r('job_attempt')}, ${r('event_index')}, ${d.now}, ${d.now}
      ${r.from}
    where true on conflict (id) do nothing`,
});

function toRow(signal: SignalDraft): Row {
  return {
    id: signal.id,
    type: signal.type,
    source: signal.source,
    subject_type: signal.subjectType ?? null,
    subject_id: signal.subjectId ?? null,
    data: signal.data,
    metadata: signal.metadata ?? '{}',
    hops: signal.hops,
    correlation_id: signal.correlationId,
    causation_id: signal.causationId ?? null,
    visibility: signal.visibility ?? 'internal',
    job_id: signal.jobId ?? null,
    job_attempt: signal.jobAttempt ?? null,
    event_index: signal.eventIndex ?? null,
  };
}

/** Whether a branch waits for one of them, so that somebody should look at it soon. */
export async function areAwaited(
  tx: Transaction,
  signals: readonly SignalDraft[],
): Promise<boolean> {
  const types = [...new Set(signals.map(({ type }) => type))];
  const rows = await tx.each(
    selectAwaited,
    types.map((type) => ({ type })),
  );
  return rows.length > 0;
}

const selectAwaited = defineRows({
  columns: { type: 'text' },
  sql: (r, d) =>
    `select q.one from ${r.lateral(
      `select 1 as one from ${d.table('run_branches')} b
      where b.waits_for = ${r('type')} and b.waits_for is not null limit 1`,
    )}`,
});

export async function listSignals(session: Session, filter: SignalFilter): Promise<Signal[]> {
  const where = new Where().equals({ id: filter.id, type: filter.type, job_id: filter.jobId });
  const rows = await session.run(
    `select * from ${session.dialect.table('signals')} where ${where.text}
      order by seq desc limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map(toSignal);
}

export function toSignal(row: Row): Signal {
  return {
    seq: int(row, 'seq'),
    id: text(row, 'id'),
    type: text(row, 'type'),
    source: text(row, 'source'),
    subjectType: textOrNull(row, 'subject_type'),
    subjectId: textOrNull(row, 'subject_id'),
    data: text(row, 'data'),
    metadata: text(row, 'metadata'),
    hops: int(row, 'hops'),
    correlationId: text(row, 'correlation_id'),
    causationId: textOrNull(row, 'causation_id'),
    visibility: text(row, 'visibility'),
    jobId: textOrNull(row, 'job_id'),
    jobAttempt: intOrNull(row, 'job_attempt'),
    eventIndex: intOrNull(row, 'event_index'),
    occurredAt: text(row, 'occurred_at'),
    insertedAt: text(row, 'inserted_at'),
  };
}
