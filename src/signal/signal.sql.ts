import {
  PLAIN_METADATA,
  signalTable,
  type Signal,
  type SignalDraft,
  type SignalFilter,
  type SignalGroup,
  type SignalPageFilter,
} from './signal.ts';
import {
  defineRows,
  type Dialect,
  type RowsWriter,
  type Session,
  type Transaction,
  type Value,
} from '../ledger/dialect.ts';
import { insertSignalDirectives } from '../directive/handler.sql.ts';
import { insertSealedPayloads } from '../access/credential.sql.ts';
import { defineInsert } from '../ledger/insert.ts';
import { int, text, filterWritten } from '../ledger/row.ts';
import { FROM_RUN_START_AGAIN } from '../pipeline/run/run.ts';
import { formatOrder, WhereClause } from '../ledger/where.ts';
import { limits } from '../base/limits.ts';
import { type ListPage, rangeAfter, readWalk, type WalkStream } from '../ledger/walk.ts';

/** Inserts signals and wakes the branches that wait for them. */
export function insertSignals(tx: Transaction, signals: readonly SignalDraft[]): void {
  tx.send(insert, signals.map(toRow));
  insertSealedPayloads(tx, signals);
  tx.send(wake, firstOfEach(signals));
  insertRequests(tx, signals);
}

/** Inserts signals like `insertSignals`. Returns whether a branch waits for one of them. */
export async function insertAndWake(
  tx: Transaction,
  signals: readonly SignalDraft[],
): Promise<boolean> {
  tx.send(insert, signals.map(toRow));
  insertSealedPayloads(tx, signals);
  const woken = tx.each(wakeReturning, firstOfEach(signals));
  insertRequests(tx, signals);
  return (await woken).length > 0;
}

/** Inserts signals with a new dedupe key and source id. Returns them, and whether a branch waits for one. */
export async function insertNewSignals(
  tx: Transaction,
  signals: readonly SignalDraft[],
): Promise<{ readonly added: readonly SignalDraft[]; readonly areAwaited: boolean }> {
  const added = filterWritten(signals, await tx.each(insertNew, signals.map(toRow)));
  insertSealedPayloads(tx, added);
  const woken = tx.each(wakeReturning, firstOfEach(added));
  insertRequests(tx, added);
  return { added, areAwaited: (await woken).length > 0 };
}

/** Records the directives that signals request. The signal of a request requests nothing itself. */
function insertRequests(tx: Transaction, signals: readonly SignalDraft[]): void {
  const { listSignalDirectives } = tx;
  if (listSignalDirectives === undefined) return;
  const requested = signals.flatMap((signal) =>
    signal.isQuiet === true ? [] : listSignalDirectives(signal),
  );
  if (requested.length === 0) return;
  insertSignalDirectives(tx, requested);
  tx.send(
    insert,
    requested.map(({ signal }) => toRow(signal)),
  );
}

/**
 * Returns the first signal of each type, in one order for all writers, so that they can't deadlock.
 */
function firstOfEach(signals: readonly SignalDraft[]): { type: string; id: string }[] {
  const first = new Map<string, string>();
  for (const { id, type } of signals) if (!first.has(type)) first.set(type, id);
  const found = [...first].map(([type, id]) => ({ type, id }));
  return found.length === 1 ? found : found.toSorted((a, b) => (a.type < b.type ? -1 : 1));
}

/**
 * Wakes the branches that wait for a signal of this type, and stores from which signal on they
 * look.
 */
const wake = defineRows({ columns: { type: 'text', id: 'text' }, sql: wakeBranches });
const wakeReturning = defineRows({
  columns: { type: 'text', id: 'text' },
  sql: (r, d) => `${wakeBranches(r, d)} returning 1 as one`,
});

function wakeBranches(r: RowsWriter, d: Dialect): string {
  return `update ${d.table('run_branches')} set
      due_at = case when run_branches.claim_token is null then ${d.now} else run_branches.due_at end,
      wake_from = (select case when run_branches.wake_from < s.seq
        or run_branches.wake_from >= ${FROM_RUN_START_AGAIN} then run_branches.wake_from
        else s.seq end from ${d.table('signals')} s where s.id = ${r('id')})
    ${r.from}
    where run_branches.waits_for = ${r('type')} and run_branches.waits_for is not null`;
}

/** The row of a signal. `inherits`: it takes the correlation of its cause. */
const definition = {
  properties: signalTable.except('seq', 'occurredAt', 'insertedAt'),
  parameters: { inherits: 'int', occurred: 'text' },
  sql: (r: RowsWriter, d: Dialect) => ({
    correlationId: `case when ${r('inherits')} = 0 then ${r('correlation_id')}
      else ${inherited(r, d)} end`,
    occurredAt: `coalesce(${r('occurred')}, ${d.now})`,
    insertedAt: d.now,
  }),
} as const;

/**
 * Writes the correlation that a signal inherits: of the signal before it, or of the one that caused
 * its first job.
 */
function inherited(r: RowsWriter, d: Dialect): string {
  const signals = d.table('signals');
  return `coalesce(
    (select c.correlation_id from ${signals} c where c.id = ${r('causation_id')}),
    ${chainOf(d, () => r('correlation_id'))})`;
}

/** Writes the name of a job's chain: the correlation of the signal that caused it, or its own id. */
export function chainOf(d: Dialect, root: () => string): string {
  return `coalesce((select c.correlation_id from ${d.table('job_queue')} j
    join ${d.table('signals')} c on c.id = j.source_event_id where j.id = ${root()}), ${root()})`;
}

/** An existing row is the same signal again, after a lost response. */
const insert = defineInsert(signalTable, { ...definition, rest: 'on conflict (id) do nothing' });

/**
 * A second writer of the same key waits for the first one, and inserts nothing if that one
 * committed.
 */
const insertNew = defineInsert(signalTable, {
  ...definition,
  rest: 'on conflict do nothing',
  returns: 'id',
});

function toRow(signal: SignalDraft) {
  const { causationId, jobId, isCorrelated, occurredAt = null } = signal;
  const hasCause = causationId !== undefined || jobId !== undefined;
  return {
    ...signal,
    metadata: signal.metadata ?? PLAIN_METADATA,
    visibility: signal.visibility ?? 'internal',
    inherits: hasCause && isCorrelated !== true ? 1 : 0,
    occurred: occurredAt,
  };
}

/** Returns whether a branch waits for one of these signals. */
export async function hasWaitingBranch(
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
  const where = whereSignals(filter);
  const order = formatOrder(filter);
  const page = `select * from ${session.dialect.table('signals')} where ${where.text}
    ${order} limit ?`;
  const values = [...where.values, filter.limit];
  const { bytesMax } = filter;
  const rows = await (bytesMax === undefined
    ? session.run(page, values)
    : session.run(
        `select * from (select page.*, sum(length(data)) over (${order}) - length(data) as before
          from (${page}) page) measured where before < ? ${order}`,
        [...values, bytesMax],
      ));
  return rows.map(toSignal);
}

/** Counts the oldest matching signals by source and type. */
export async function countSignalGroups(
  session: Session,
  filter: SignalFilter,
): Promise<SignalGroup[]> {
  const where = whereSignals(filter);
  const rows = await session.run(
    `select source, type, count(*) as n from (select source, type
        from ${session.dialect.table('signals')} where ${where.text} order by seq limit ?) found
      group by source, type order by source, type`,
    [...where.values, filter.limit],
  );
  return rows.map((row) => ({
    source: text(row, 'source'),
    type: text(row, 'type'),
    count: int(row, 'n'),
  }));
}

function whereSignals(filter: SignalFilter): WhereClause {
  const where = new WhereClause().equals({
    id: filter.id,
    type: filter.type,
    source: filter.source,
    subject_type: filter.subjectType,
    subject_id: filter.subjectId,
    correlation_id: filter.correlationId,
    causation_id: filter.causationId,
    dedupe_key: filter.dedupeKey,
    source_event_id: filter.sourceEventId,
    job_id: filter.jobId,
    visibility: filter.visibility,
  });
  if (filter.idPrefix !== undefined) {
    where.and('id >= ? and id < ?', filter.idPrefix, `${filter.idPrefix}~`);
  }
  if (filter.from !== undefined) where.and('occurred_at >= ?', filter.from);
  if (filter.to !== undefined) where.and('occurred_at < ?', filter.to);
  if (filter.upToSeq !== undefined) where.and('seq <= ?', filter.upToSeq);
  if (filter.beforeSeq !== undefined) {
    where.and(filter.order === 'oldest' ? 'seq > ?' : 'seq < ?', filter.beforeSeq);
  }
  return where;
}

export const toSignal = signalTable.decode;

/** Returns whether only administrators may see the signal that caused a job, or caused its run. */
export async function isAdminOnly(
  tx: Transaction,
  {
    sourceEventId,
    runId,
  }: { readonly sourceEventId: string | null; readonly runId: string | null },
): Promise<boolean> {
  if (sourceEventId === null && runId === null) return false;
  const { dialect } = tx;
  const rows = await tx.run(
    `select 1 as one from ${dialect.table('signals')} where visibility = 'admin_only'
      and id in (?, (select source_event_id from ${dialect.table('pipeline_runs')} where id = ?))`,
    [sourceEventId, runId],
  );
  return rows.length > 0;
}

/** The columns with an index in the order of numbers, the most selective first. */
const indexed = ['correlation_id', 'subject_id', 'type', 'source'] as const;

const indexOf = {
  correlation_id: 'signals_correlation',
  subject_id: 'signals_subject',
  type: 'signals_type',
  source: 'signals_source',
} as const;

export async function readSignalPage(
  session: Session,
  filter: SignalPageFilter,
): Promise<ListPage<Signal>> {
  const { order = 'newest', beforeSeq, visitMax = limits.listVisitMax } = filter;
  const equal: Readonly<Record<string, Value | undefined>> = {
    type: filter.type,
    source: filter.source,
    subject_type: filter.subjectType,
    subject_id: filter.subjectId,
    correlation_id: filter.correlationId,
    visibility: filter.visibility,
  };
  const streamBy = (column: (typeof indexed)[number] | undefined): WalkStream[] => {
    const { [column ?? '']: own, ...left } = equal;
    const rest = within(new WhereClause().equals(left), filter);
    if (column === undefined) return [{ index: undefined, where: new WhereClause(), rest }];
    // Repeats the condition of the index of subjects, word for word.
    const where = new WhereClause();
    if (column === 'subject_id') where.and('subject_id is not null');
    return [{ index: indexOf[column], key: [column, own ?? null], where, rest }];
  };
  const used = indexed.filter((column) => equal[column] !== undefined);
  const ways = used.map(streamBy);
  if (used.length === 0 && (filter.from ?? filter.to) !== undefined) {
    const time = await timeStream(session, filter, visitMax);
    if (time !== undefined) {
      const rest = new WhereClause().equals(equal);
      ways.push([{ index: 'signals_occurred', where: time, rest, by: 'seq + 0' }]);
    }
  }
  if (ways.length === 0) ways.push(streamBy(undefined));
  return readWalk(session, {
    table: session.dialect.table('signals'),
    columns: [...Object.keys(equal), 'occurred_at'],
    ways,
    order,
    range: rangeAfter({}, beforeSeq, order),
    limit: filter.limit,
    visitMax,
    map: toSignal,
  });
}

function within(where: WhereClause, { from, to }: SignalPageFilter): WhereClause {
  if (from !== undefined) where.and('occurred_at >= ?', from);
  if (to !== undefined) where.and('occurred_at < ?', to);
  return where;
}

/** A period with few signals is sorted. One with many is walked through by number instead. */
async function timeStream(
  session: Session,
  filter: SignalPageFilter,
  visitMax: number,
): Promise<WhereClause | undefined> {
  const time = within(new WhereClause(), filter);
  const [row = {}] = await session.run(
    `select count(*) as n from (select 1 as one from ${session.dialect.table('signals')}
      where ${time.text} order by occurred_at limit ?) t`,
    [...time.values, visitMax + 1],
  );
  return int(row, 'n') <= visitMax ? time : undefined;
}
