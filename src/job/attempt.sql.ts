import type { Attempt } from './attempt.ts';
import {
  defineRows,
  type Dialect,
  type Row,
  type Session,
  type Transaction,
} from '../ledger/dialect.ts';
import type { AttemptFilter } from './attempt-types.ts';
import type { Closing } from '../ledger/commit.ts';
import { text } from '../ledger/row.ts';
import { toAttempt } from './job-row.sql.ts';
import { Where } from '../ledger/where.ts';

/** When jobs were closed, by their ids: the time from which the wait for their next attempt counts. */
export type ClosedAt = ReadonlyMap<string, string>;

/** One row for every attempt that was started; a job closed while it was queued had none. */
export function insertAttempts(
  tx: Transaction,
  closed: readonly Closing[],
  closedAt: ClosedAt,
): void {
  const started = closed.filter(({ claimToken }) => claimToken !== null);
  tx.send(
    insert,
    started.map((closing) => toRow(closing, closedAt)),
  );
}

/**
 * Of these closings, the jobs whose attempt was closed already by this very claim and in this very
 * way. A reaper closes under the same token, but tells another end than the one who lost the claim.
 */
export async function settledBefore(
  tx: Transaction,
  closings: readonly Closing[],
): Promise<Set<string>> {
  const rows = await tx.each(
    selectSettled,
    closings.map(({ job, claimToken, report }) => ({
      id: attemptId(job.id, job.attempt),
      token: claimToken,
      status: report.status,
      cause: report.cause,
    })),
  );
  return new Set(rows.map((row) => text(row, 'job_id')));
}

export async function listAttempts(session: Session, filter: AttemptFilter): Promise<Attempt[]> {
  const { dialect: d } = session;
  const { correlationId } = filter;
  const { where, inOrder, source } = narrowAttempts(d, filter);
  const values = [...where.values, filter.limit];
  if (correlationId !== undefined) {
    const found = await session.run(
      `${withFound(d)} select id from found where ${where.text} ${inOrder} limit ?`,
      [correlationId, correlationId, ...values],
    );
    return await readInOrder(session, found);
  }
  const rows = await session.run(
    `select * from ${source} where ${where.text} ${inOrder} limit ?`,
    values,
  );
  return rows.map(toAttempt);
}

interface NarrowedAttempts {
  /** The conditions that an index answers. */
  readonly where: Where;
  readonly inOrder: string;
  /** The table to read, with its index where the database accepts a hint. */
  readonly source: string;
}

/**
 * A filter as a statement has it. SQLite would rather sort all of an index that has every column it is
 * asked for, so the statement names the index. PostgreSQL accepts no hint, and would rather walk by
 * time through the attempts of all plugins: so times are compared together with what is before them in the index.
 */
export function narrowAttempts(d: Dialect, filter: AttemptFilter): NarrowedAttempts {
  const { correlationId, jobId, plugin, status, since, from, to, after, before } = filter;
  const isChain = correlationId !== undefined;
  const where = new Where().equals({ plugin, job_id: jobId });
  // Written out, with the condition of the index of attempts that didn't succeed.
  if (status === 'succeeded') where.and(`status = 'succeeded'`);
  else if (status !== undefined) where.and(`status = '${status}' and status <> 'succeeded'`);
  if (jobId !== undefined) {
    where.and(isAmongIdsOf(isChain ? 'found' : 'job_log', '?'), jobId, jobId);
  }
  if (filter.parentJobIds !== undefined) {
    const marks = filter.parentJobIds.map(() => '?').join(', ');
    where.and(`parent_job_id in (${marks})`, ...filter.parentJobIds);
  }
  const index = findAttemptIndex(filter);
  const compare = comparerOf(d, filter, index);
  if (since !== undefined) compare(where, '>=', since);
  if (from !== undefined) compare(where, '>=', from);
  if (to !== undefined) compare(where, '<', to);
  if (after !== undefined) {
    const { completedAt, logId } = after;
    compare(where, '>=', completedAt);
    where.and('(completed_at > ? or id > ?)', completedAt, logId);
  }
  if (before !== undefined) {
    const { completedAt, logId } = before;
    compare(where, '<=', completedAt);
    where.and('(completed_at < ? or id < ?)', completedAt, logId);
  }
  const isOldestFirst = before === undefined && (since ?? after) !== undefined;
  const order = isOldestFirst ? 'asc' : 'desc';
  const isHinted = d.name === 'sqlite' && index !== undefined;
  const table = d.table('job_log');
  return {
    where,
    inOrder: `order by completed_at ${order}, id ${order}`,
    source: isHinted ? `${table} indexed by ${index.name}` : table,
  };
}

interface AttemptIndex {
  readonly name: string;
  /** Its columns before the time. */
  readonly columns: readonly ('plugin' | 'status')[];
}

/** The index that has the rows of a filter in the order of time; undefined where ids find them. */
function findAttemptIndex(filter: AttemptFilter): AttemptIndex | undefined {
  const { plugin, status, jobId, correlationId, parentJobIds } = filter;
  if ((jobId ?? correlationId ?? parentJobIds) !== undefined) return undefined;
  const isRare = status !== undefined && status !== 'succeeded';
  if (plugin !== undefined) {
    return isRare
      ? { name: 'job_log_rare_of', columns: ['plugin', 'status'] }
      : { name: 'job_log_plugin', columns: ['plugin'] };
  }
  if (isRare) return { name: 'job_log_rare', columns: ['status'] };
  return { name: 'job_log_completed', columns: [] };
}

/** Adds a bound on the time of the end. */
function comparerOf(d: Dialect, filter: AttemptFilter, index: AttemptIndex | undefined) {
  const { jobId } = filter;
  const columns = d.name === 'postgres' ? (index?.columns ?? []) : [];
  const values = columns.map((column) => filter[column] ?? null);
  const marks = [...columns, 'completed_at'].map(() => '?').join(', ');
  // The few attempts of a job are found by their ids, never by when they ended.
  const ended = jobId === undefined ? 'completed_at' : "completed_at || ''";
  return (where: Where, sign: '>=' | '<' | '<=', moment: string): void => {
    if (columns.length === 0) where.and(`${ended} ${sign} ?`, moment);
    else where.and(`(${columns.join(', ')}, completed_at) ${sign} (${marks})`, ...values, moment);
  };
}

/** Each by its own id: asked for together and in order, PostgreSQL would walk through all of them again. */
export async function readInOrder(session: Session, found: readonly Row[]): Promise<Attempt[]> {
  if (found.length === 0) return [];
  const rows = await session.each(
    selectById,
    found.map((row) => ({ id: text(row, 'id') })),
  );
  const byId = new Map(rows.map((row) => [text(row, 'id'), row]));
  return found.flatMap((row) => {
    const whole = byId.get(text(row, 'id'));
    return whole === undefined ? [] : [toAttempt(whole)];
  });
}

/**
 * A table `found` of the attempts of a lineage that has this name, and of those that signals of this
 * correlation began. They are found before anything else is asked of them: PostgreSQL would rather walk
 * through the attempts of all chains by the time they ended.
 */
export function withFound(d: Dialect): string {
  const jobs = d.table('job_queue');
  // In this order: from the few that are named to their rows, by the indexes of just those.
  return `with roots(id) as (
      select id from ${jobs} where id = ?
      union select j.root_job_id from ${d.table('signals')} s cross join ${jobs} j
        where s.correlation_id = ? and j.source_event_id = s.id
    ), chain(id) as (
      select id from roots union select j.id from roots r cross join ${jobs} j
        where j.root_job_id = r.id and j.root_job_id <> j.id
    ), found as materialized (
      select l.id, l.job_id, l.plugin, l.status, l.parent_job_id, l.completed_at
        from chain c cross join ${d.table('job_log')} l where ${isAmongIdsOf('l', 'c.id')})`;
}

export async function attemptsOf(session: Session, jobIds: readonly string[]): Promise<Attempt[]> {
  const rows = await session.each(
    selectOfJob,
    jobIds.map((id) => ({ job_id: id })),
  );
  return rows
    .map(toAttempt)
    .sort((a, b) => (a.jobId === b.jobId ? a.attempt - b.attempt : a.jobId < b.jobId ? -1 : 1));
}

function attemptId(jobId: string, attempt: number): string {
  return `${jobId}-${attempt}`;
}

/** The same in SQL; nothing else has an index that finds the attempt of a job. */
export function attemptIdIn(jobId: string, attempt: string): string {
  return `${jobId} || '-' || ${attempt}`;
}

/** The ids of a job's attempts are neighbours, so their own index finds them; '.' follows '-'. */
function isAmongIdsOf(log: string, jobId: string): string {
  return `${log}.id > ${jobId} || '-' and ${log}.id < ${jobId} || '.'`;
}

/** What only the closing knows; the rest of the row is the job's own. */
const told = {
  status: 'text',
  cause: 'text',
  result: 'text',
  attempt: 'int',
  last_error: 'text',
  stderr: 'text',
  stderr_truncated: 'int',
  exit_code: 'int',
  signal: 'text',
  pid: 'int',
  queue_ms: 'int',
  spawn_ms: 'int',
  run_ms: 'int',
  cpu_ms: 'int',
  memory_peak_bytes: 'int',
  settle_ms: 'int',
  process_id: 'text',
  claim_token: 'text',
  completed_at: 'text',
} as const;

const copied = [
  'plugin',
  'command',
  'submitted_by',
  'created_at',
  'started_at',
  'parent_job_id',
  'source_event_id',
  'config_snapshot_id',
];

const insert = defineRows({
  columns: { seq: 'int', ...told },
  key: 'seq',
  sql: (r, d) => {
    const names = Object.keys(told);
    return `insert into ${d.table('job_log')}
      (id, job_id, ${copied.join(', ')}, ${names.join(', ')})
      select q.id || '-' || cast(${r('attempt')} as ${d.types.int}), q.id,
        ${copied.map((name) => `q.${name}`).join(', ')}, ${names.map((name) => r(name)).join(', ')}
      from ${r.lateral(
        `select j.id, ${copied.map((name) => `j.${name}`).join(', ')}
        from ${d.table('job_queue')} j where j.seq ${r.isKey()}`,
      )}`;
  },
});

function toRow({ job, claimToken, report }: Closing, closedAt: ClosedAt): Row {
  return {
    seq: job.seq,
    status: report.status,
    cause: report.cause,
    result: report.result,
    attempt: job.attempt,
    last_error: report.error,
    stderr: report.stderr,
    stderr_truncated: report.stderrTruncated ? 1 : 0,
    exit_code: report.exitCode,
    signal: report.signal,
    pid: report.pid,
    queue_ms: report.queueMs,
    spawn_ms: report.spawnMs,
    run_ms: report.runMs,
    cpu_ms: report.cpuMs,
    memory_peak_bytes: report.memoryPeakBytes,
    settle_ms: report.settleMs,
    process_id: job.claimedBy,
    claim_token: claimToken,
    completed_at: closedAt.get(job.id) ?? null,
  };
}

const selectSettled = defineRows({
  columns: { id: 'text', token: 'text', status: 'text', cause: 'text' },
  sql: (r, d) =>
    `select q.job_id from ${r.lateral(
      `select l.job_id from ${d.table('job_log')} l
      where l.id = ${r('id')} and l.claim_token = ${r('token')}
        and l.status = ${r('status')} and l.cause = ${r('cause')}`,
    )}`,
});

const selectById = defineRows({
  columns: { id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(`select * from ${d.table('job_log')} l where l.id = ${r('id')}`)}`,
});

const selectOfJob = defineRows({
  columns: { job_id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select l.* from ${d.table('job_log')} l
      where l.job_id = ${r('job_id')} and ${isAmongIdsOf('l', r('job_id'))}`,
    )}`,
});
