import type { Timestamp } from '../base/clock.ts';
import { makeToken } from '../base/ids.ts';
import type { Run, RunStatus } from '../pipeline/run/run.ts';
import {
  awaitBoth,
  type Dialect,
  type Row,
  type Session,
  type Transaction,
} from '../ledger/dialect.ts';
import { attemptTable, type Attempt } from '../job/attempt.ts';
import { jobTable } from '../job/job.ts';
import type { RowOf } from '../ledger/table.ts';
import type { Signal } from './signal.ts';
import type { HorizonState } from './event-horizon.sql.ts';
import { writeMeta } from '../ledger/meta.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { chainOf, toSignal } from './signal.sql.ts';

/** A reader's position in an append-only table. */
export interface Position {
  readonly tx: number;
  readonly seq: number;
}

export interface EventCursor {
  readonly jobs: Position;
  readonly signals: Position;
  readonly attempts: Position;
  readonly runs: Position;
}

/** The limits per kind of row. One row is returned even if it is larger. */
export interface EventLimit {
  readonly rows: number;
  readonly bytes: number;
}

interface InChain {
  readonly correlationId: string;
}

/** A job as it was accepted, without the fields that change later. */
export type JobEvent = RowOf<typeof acceptedJobs> & InChain & { readonly position: Position };
export type SignalEvent = Signal & { readonly position: Position };
/** An attempt without its output. */
export type AttemptEvent = Attempt & InChain & { readonly position: Position };

/** The end of a run that did not halt. A run that halts has a signal of its own. */
export type RunEvent = Pick<
  Run,
  | 'id'
  | 'pipeline'
  | 'status'
  | 'submittedBy'
  | 'actor'
  | 'sourceEventId'
  | 'parentJobId'
  | 'rootJobId'
  | 'revivedFrom'
  | 'createdAt'
  | 'startedAt'
> &
  InChain & { readonly completedAt: Timestamp; readonly position: Position };

export interface EventRows {
  readonly jobs: EventList<JobEvent>;
  readonly signals: EventList<SignalEvent>;
  readonly attempts: EventList<AttemptEvent>;
  readonly runs: EventList<RunEvent>;
  /** Other transactions are still writing the next rows. */
  readonly isPending: boolean;
}

export interface EventList<T> {
  readonly rows: readonly T[];
  /** More rows can be read at once. */
  readonly isCut: boolean;
  /** The position after all rows so far. */
  readonly end: Position;
}

/**
 * Lists what was recorded after a cursor, in an order to which later commits only append. Rows of
 * an open transaction, or of one that started after an open one, come later.
 */
export async function listEvents(
  session: Session,
  after: EventCursor,
  limit: EventLimit,
  sight: HorizonState,
): Promise<EventRows> {
  const txBelow = sight.reach?.txBelow ?? sight.settledBelow;
  const [[jobs, runs], [signals, attempts]] = await awaitBoth(
    awaitBoth(
      listJobs(session, after.jobs, limit.rows, sight),
      listAfter(session, runSource, after.runs, limit, txBelow),
    ),
    awaitBoth(
      listAfter(session, signalSource, after.signals, limit, txBelow),
      listAfter(session, attemptSource, after.attempts, limit, txBelow),
    ),
  );
  return { jobs, signals, attempts, runs, isPending: sight.isPending };
}

/** Returns the cursor after everything that was recorded so far. */
export async function readEventEnd(session: Session, sight: HorizonState): Promise<EventCursor> {
  const [[jobs, runs], [signals, attempts]] = await awaitBoth(
    awaitBoth(endOfJobs(session, sight), endOf(session, runSource, sight)),
    awaitBoth(endOf(session, signalSource, sight), endOf(session, attemptSource, sight)),
  );
  return { jobs, signals, attempts, runs };
}

/**
 * Adopts a schema that was copied from another PostgreSQL server. It has rows of transaction
 * numbers that this server hasn't reached: readers would wait for them, and new rows would sort
 * before old ones. Their order restarts, and a new epoch resets every cursor.
 */
export async function adoptEvents(tx: Transaction): Promise<void> {
  const { dialect } = tx;
  if (dialect.nextTransaction === undefined) return;
  const sources = [signalSource, attemptSource, runSource].map(({ table, tx: column }) => {
    return { table: dialect.table(table), column };
  });
  const foreign = sources.map(
    ({ table, column }) =>
      `select 1 as one from ${table} where ${column} >= ${dialect.nextTransaction}`,
  );
  const found = await tx.run(`${foreign.join(' union all ')} limit 1`);
  if (found.length === 0) return;
  for (const { table, column } of sources) {
    await tx.run(`update ${table} set ${column} = 0 where ${column} > 0`);
  }
  await writeMeta(tx, 'epoch', makeToken());
}

interface Source<T> {
  readonly table: 'job_log' | 'signals' | 'pipeline_runs';
  /** The column of the transaction number. */
  readonly tx: 'tx' | 'end_tx';
  /**
   * True if the column orders the rows even with a single writer, who doesn't append in this order.
   */
  readonly isOrdered: boolean;
  /** The columns of the table, which has the alias `e`. */
  readonly columns: (d: Dialect) => string;
  /** The size of the part of a row that can be large. */
  readonly bytes: string;
  readonly toEvent: (row: Row) => T;
}

const signalSource: Source<SignalEvent> = {
  table: 'signals',
  tx: 'tx',
  isOrdered: false,
  columns: () => '*',
  bytes: 'octet_length(data) + octet_length(metadata)',
  toEvent: (row) => ({ ...toSignal(row), position: toPosition(row) }),
};

const smallColumns = attemptTable
  .pick(...attemptTable.except('result', 'stderr', 'configSnapshotId'))
  .columns('e');

/** Without the output, which can be large. */
const attemptSource: Source<AttemptEvent> = {
  table: 'job_log',
  tx: 'tx',
  isOrdered: false,
  columns: (d) => `seq, tx, ${smallColumns},
    coalesce(${chainOf(d, () => rootOf(d, 'e.job_id'))}, e.job_id) as correlation_id`,
  bytes: `coalesce(octet_length(last_error), 0)`,
  toEvent: (row) => ({
    ...attemptTable.decode(row),
    correlationId: text(row, 'correlation_id'),
    position: toPosition(row),
  }),
};

function rootOf(d: Dialect, jobId: string): string {
  return `(select own.root_job_id from ${d.table('job_queue')} own where own.id = ${jobId})`;
}

/** Without payload and result, which can be large. */
const runSource: Source<RunEvent> = {
  table: 'pipeline_runs',
  tx: 'end_tx',
  isOrdered: true,
  columns: (d) => `seq, end_tx as tx, id, pipeline, status, submitted_by, actor, source_event_id,
    parent_job_id, root_job_id, revived_from, created_at, started_at, completed_at,
    ${chainOf(d, () => 'e.root_job_id')} as correlation_id`,
  bytes: '0',
  toEvent: (row) => ({
    id: text(row, 'id'),
    pipeline: text(row, 'pipeline'),
    status: text(row, 'status') as RunStatus,
    submittedBy: text(row, 'submitted_by'),
    actor: text(row, 'actor'),
    sourceEventId: textOrNull(row, 'source_event_id'),
    parentJobId: textOrNull(row, 'parent_job_id'),
    rootJobId: text(row, 'root_job_id'),
    revivedFrom: textOrNull(row, 'revived_from'),
    createdAt: text(row, 'created_at'),
    startedAt: textOrNull(row, 'started_at'),
    completedAt: text(row, 'completed_at'),
    correlationId: text(row, 'correlation_id'),
    position: toPosition(row),
  }),
};

/** Reads the sizes first, so that no more rows are read than fit. */
async function listAfter<T>(
  session: Session,
  source: Source<T>,
  after: Position,
  limit: EventLimit,
  txBelow: number,
): Promise<EventList<T>> {
  const { table, tx, columns, bytes, toEvent } = source;
  const name = session.dialect.table(table);
  const isAfter = comparer(session, source, '>');
  const isUpTo = comparer(session, source, '<=');
  const isAlone = session.dialect.settledBelow === undefined;
  const sizes = await session.run(
    `select ${tx} as tx, seq, ${bytes} as bytes from ${name}
      where ${isAfter.text} ${isAlone ? '' : `and ${tx} < ?`} order by ${isAfter.order} limit ?`,
    [...isAfter.values(after), ...(isAlone ? [] : [txBelow]), limit.rows],
  );
  const fitting = takeFitting(sizes, limit.bytes);
  const last = fitting.at(-1);
  if (last === undefined) return { rows: [], isCut: false, end: after };
  const end = toPosition(last);
  const rows = await session.run(
    `select ${columns(session.dialect)} from ${name} e where ${isAfter.text} and ${isUpTo.text}
      order by ${isAfter.order}`,
    [...isAfter.values(after), ...isUpTo.values(end)],
  );
  const isCut = fitting.length < sizes.length || sizes.length === limit.rows;
  return { rows: rows.map(toEvent), isCut, end };
}

function takeFitting(sizes: readonly Row[], bytesMax: number): readonly Row[] {
  let bytes = 0;
  const over = sizes.findIndex((row, at) => (bytes += int(row, 'bytes')) > bytesMax && at > 0);
  return over === -1 ? sizes : sizes.slice(0, over);
}

const acceptedJobs = jobTable.pick(
  'id',
  'plugin',
  'command',
  'maxAttempts',
  'submittedBy',
  'actor',
  'dedupeKey',
  'createdAt',
  'parentJobId',
  'sourceEventId',
  'rootJobId',
  'retryOf',
  'scheduleId',
);

const jobEventColumns = (d: Dialect): string =>
  `tx, seq, ${acceptedJobs.columns('e')}, ${chainOf(d, () => 'e.root_job_id')} as correlation_id`;

/** Job events have no large columns, so the number of rows bounds the size. */
async function listJobs(
  session: Session,
  after: Position,
  limit: number,
  { reach }: HorizonState,
): Promise<EventList<JobEvent>> {
  const { dialect } = session;
  const isAlone = dialect.settledBelow === undefined;
  const upTo = isAlone ? Number.MAX_SAFE_INTEGER : (reach?.jobsUpTo ?? 0);
  if (upTo <= after.seq) return { rows: [], isCut: false, end: after };
  const found = await session.run(
    `select ${jobEventColumns(dialect)} from ${dialect.table('job_queue')} e
      where seq > ? and seq <= ? and tx >= ? order by seq limit ?`,
    [after.seq, upTo, after.tx, limit],
  );
  const rows = found.map(toJobEvent);
  const last = rows.at(-1)?.position ?? after;
  if (rows.length === limit) return { rows, isCut: true, end: { ...last, tx: after.tx } };
  return { rows, isCut: false, end: isAlone ? last : { tx: 0, seq: upTo } };
}

function toJobEvent(row: Row): JobEvent {
  return {
    ...acceptedJobs.decode(row),
    correlationId: text(row, 'correlation_id'),
    position: toPosition(row),
  };
}

/**
 * Returns the position of the last visible row. Readers that start at the same row share their
 * reads.
 */
async function endOf(
  session: Session,
  { table, tx, isOrdered }: Pick<Source<unknown>, 'table' | 'tx' | 'isOrdered'>,
  { settledBelow }: HorizonState,
): Promise<Position> {
  const { dialect } = session;
  const isAlone = dialect.settledBelow === undefined;
  const isByNumber = isAlone && !isOrdered;
  const isRecorded = isByNumber ? 'true' : `${tx} is not null`;
  const isSeen = isAlone ? isRecorded : `${tx} < ?`;
  const order = isByNumber ? 'seq desc' : `${tx} desc, seq desc`;
  const [row] = await session.run(
    `select ${tx} as tx, seq from ${dialect.table(table)} where ${isSeen} order by ${order} limit 1`,
    isAlone ? [] : [settledBelow],
  );
  return row === undefined ? { tx: 0, seq: 0 } : toPosition(row);
}

/**
 * With several writers, uncommitted jobs can have lower numbers than committed ones. While that is
 * so, the position also says from which transaction on jobs are wanted.
 */
async function endOfJobs(session: Session, sight: HorizonState): Promise<Position> {
  const { dialect } = session;
  if (dialect.settledBelow === undefined) {
    const [row = {}] = await session.run(
      `select coalesce(max(seq), 0) as seq from ${dialect.table('job_queue')}`,
    );
    return { tx: 0, seq: int(row, 'seq') };
  }
  const { reach, settledBelow, isPending } = sight;
  return { tx: isPending ? settledBelow : 0, seq: reach?.jobsUpTo ?? 0 };
}

interface Comparer {
  readonly text: string;
  readonly order: string;
  readonly values: (position: Position) => number[];
}

function comparer(
  { dialect }: Session,
  { tx: column, isOrdered }: Pick<Source<unknown>, 'tx' | 'isOrdered'>,
  sign: '>' | '<=',
): Comparer {
  if (dialect.settledBelow === undefined && !isOrdered) {
    return { text: `seq ${sign} ?`, order: 'seq', values: ({ seq }) => [seq] };
  }
  return {
    // The null check is needed: SQLite doesn't derive it from the comparison, and its partial index
    // requires it.
    text: `${column} is not null and (${column}, seq) ${sign} (?, ?)`,
    order: `${column}, seq`,
    values: ({ tx, seq }) => [tx, seq],
  };
}

function toPosition(row: Row): Position {
  return { tx: int(row, 'tx'), seq: int(row, 'seq') };
}
