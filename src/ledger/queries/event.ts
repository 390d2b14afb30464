import { makeToken } from '../../base/ids.ts';
import { together, type Row, type Session, type Transaction } from '../dialect.ts';
import type {
  AttemptEvent,
  EventLimit,
  EventList,
  EventPlace,
  EventRows,
  JobEvent,
  Position,
  SignalEvent,
} from '../ledger.ts';
import type { Sight } from './event-horizon.ts';
import { writeMeta } from './meta.ts';
import { int, text, textOrNull, toAttempt } from './row.ts';
import { toSignal } from './signal.ts';

/**
 * What was recorded after a place, in an order that later commits only ever add to. Rows of a
 * transaction that is not over, or that began before one that is not, come later.
 */
export async function listEvents(
  session: Session,
  after: EventPlace,
  limit: EventLimit,
  sight: Sight,
): Promise<EventRows> {
  const txBelow = sight.reach?.txBelow ?? sight.settledBelow;
  const [jobs, [signals, attempts]] = await together(
    listJobs(session, after.jobs, limit.rows, sight),
    together(
      listAfter(session, signalSource, after.signals, limit, txBelow),
      listAfter(session, attemptSource, after.attempts, limit, txBelow),
    ),
  );
  return { jobs, signals, attempts, isPending: sight.isPending };
}

/** The place behind everything that was recorded so far. */
export async function endOfEvents(session: Session, sight: Sight): Promise<EventPlace> {
  const [jobs, [signals, attempts]] = await together(
    endOfJobs(session, sight),
    together(endOf(session, 'signals', sight), endOf(session, 'job_log', sight)),
  );
  return { jobs, signals, attempts };
}

/**
 * A schema that was brought here from another PostgreSQL has rows of transactions that this one has
 * not had yet: they would wait for them, and new rows would sort before old ones. Their order is begun
 * anew, and with a new epoch so is every place in it.
 */
export async function adoptEvents(tx: Transaction): Promise<void> {
  const { dialect } = tx;
  if (dialect.unbegun === undefined) return;
  const tables = [dialect.table('signals'), dialect.table('job_log')];
  const foreign = tables.map(
    (table) => `select 1 as one from ${table} where tx >= ${dialect.unbegun}`,
  );
  const found = await tx.run(`${foreign.join(' union all ')} limit 1`);
  if (found.length === 0) return;
  for (const table of tables) await tx.run(`update ${table} set tx = 0 where tx > 0`);
  await writeMeta(tx, 'epoch', makeToken());
}

interface Source<T> {
  readonly table: 'job_log' | 'signals';
  readonly columns: string;
  /** The part of a row that may be large. */
  readonly bytes: string;
  readonly toEvent: (row: Row) => T;
}

const signalSource: Source<SignalEvent> = {
  table: 'signals',
  columns: '*',
  bytes: 'octet_length(data) + octet_length(metadata)',
  toEvent: (row) => ({ ...toSignal(row), position: toPosition(row) }),
};

/** What an attempt said may be large, and is for those who ask for it. */
const attemptSource: Source<AttemptEvent> = {
  table: 'job_log',
  columns: `seq, tx, id, job_id, plugin, command, status, cause, attempt, submitted_by,
    created_at, started_at, completed_at, last_error, stderr_truncated, exit_code, signal, pid,
    queue_ms, spawn_ms, run_ms, settle_ms, process_id, claim_token, parent_job_id, source_event_id`,
  bytes: `coalesce(octet_length(last_error), 0)`,
  toEvent: (row) => ({ ...toAttempt(row), position: toPosition(row) }),
};

/** How large the rows are is asked first, so that no more of them are read than fit. */
async function listAfter<T>(
  session: Session,
  { table, columns, bytes, toEvent }: Source<T>,
  after: Position,
  limit: EventLimit,
  txBelow: number,
): Promise<EventList<T>> {
  const name = session.dialect.table(table);
  const isAfter = comparer(session, '>');
  const isUpTo = comparer(session, '<=');
  const isAlone = session.dialect.settledBelow === undefined;
  const sizes = await session.run(
    `select tx, seq, ${bytes} as bytes from ${name}
      where ${isAfter.text} ${isAlone ? '' : 'and tx < ?'} order by ${isAfter.order} limit ?`,
    [...isAfter.values(after), ...(isAlone ? [] : [txBelow]), limit.rows],
  );
  const fitting = takeFitting(sizes, limit.bytes);
  const last = fitting.at(-1);
  if (last === undefined) return { rows: [], isCut: false, end: after };
  const end = toPosition(last);
  const rows = await session.run(
    `select ${columns} from ${name} where ${isAfter.text} and ${isUpTo.text}
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

const jobEventColumns = `tx, seq, id, plugin, command, max_attempts, submitted_by, actor, dedupe_key,
  created_at, parent_job_id, source_event_id, root_job_id, retry_of, schedule_id`;

/** Of jobs only what is short is read, so that the number of rows bounds them. */
async function listJobs(
  session: Session,
  after: Position,
  limit: number,
  { reach }: Sight,
): Promise<EventList<JobEvent>> {
  const { dialect } = session;
  const isAlone = dialect.settledBelow === undefined;
  const upTo = isAlone ? Number.MAX_SAFE_INTEGER : (reach?.jobsUpTo ?? 0);
  if (upTo <= after.seq) return { rows: [], isCut: false, end: after };
  const found = await session.run(
    `select ${jobEventColumns} from ${dialect.table('job_queue')}
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
    id: text(row, 'id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    maxAttempts: int(row, 'max_attempts'),
    submittedBy: text(row, 'submitted_by'),
    actor: text(row, 'actor'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    createdAt: text(row, 'created_at'),
    parentJobId: textOrNull(row, 'parent_job_id'),
    sourceEventId: textOrNull(row, 'source_event_id'),
    rootJobId: text(row, 'root_job_id'),
    retryOf: textOrNull(row, 'retry_of'),
    scheduleId: textOrNull(row, 'schedule_id'),
    position: toPosition(row),
  };
}

/** The last row that can be seen, and not a moment: readers that begin at the same row are together. */
async function endOf(
  session: Session,
  table: 'job_log' | 'signals',
  { settledBelow }: Sight,
): Promise<Position> {
  const { dialect } = session;
  const isAlone = dialect.settledBelow === undefined;
  const [row] = await session.run(
    `select tx, seq from ${dialect.table(table)}
      ${isAlone ? 'order by seq desc' : 'where tx < ? order by tx desc, seq desc'} limit 1`,
    isAlone ? [] : [settledBelow],
  );
  return row === undefined ? { tx: 0, seq: 0 } : toPosition(row);
}

/**
 * Where many write, jobs that are not committed yet may have lower numbers than some that are: while
 * there are such, the place also says from which transaction on they are wanted.
 */
async function endOfJobs(session: Session, sight: Sight): Promise<Position> {
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

function comparer({ dialect }: Session, sign: '>' | '<='): Comparer {
  if (dialect.settledBelow === undefined) {
    return { text: `seq ${sign} ?`, order: 'seq', values: ({ seq }) => [seq] };
  }
  return {
    text: `(tx, seq) ${sign} (?, ?)`,
    order: 'tx, seq',
    values: ({ tx, seq }) => [tx, seq],
  };
}

function toPosition(row: Row): Position {
  return { tx: int(row, 'tx'), seq: int(row, 'seq') };
}
