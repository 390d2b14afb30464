import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { awaitBoth, type Dialect, type Session, type Transaction } from '../ledger/dialect.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { hasNoKey, writeKeyHeads } from './dependency.sql.ts';
import { jobTable, type Job } from './job.ts';
import type { PromotionResult, QueueCounts, QueueLimit, QueuePosition } from './types.ts';

/** Selects ready jobs. It repeats the condition of their index word for word, so that it is used. */
export const isReady = `status = 'queued' and next_retry_at is null`;

/**
 * Writes a table `waiting` of the plugins that have ready jobs, for use before a select. It hops
 * from one plugin to the next in the index, so the length of the queue doesn't matter.
 */
export function withWaiting(d: Dialect): string {
  const jobs = d.table('job_queue');
  return `with recursive hops(plugin) as (
      select min(plugin) from ${jobs} where ${isReady}
      union all
      select (select min(plugin) from ${jobs} where ${isReady} and plugin > hops.plugin)
        from hops where hops.plugin is not null
    ), waiting(plugin) as (select plugin from hops where plugin is not null)`;
}

export async function countQueue(session: Session): Promise<QueueCounts> {
  const jobs = session.dialect.table('job_queue');
  const [row] = await session.run(
    `select
      (select count(*) from ${jobs} where ${isReady}) as ready,
      (select count(*) from ${jobs} where status = 'queued' and next_retry_at is not null) as delayed,
      (select count(*) from ${jobs} where status = 'running') as running`,
  );
  if (row === undefined) throw new Error('a count gave no row');
  return {
    ready: int(row, 'ready'),
    delayed: int(row, 'delayed'),
    running: int(row, 'running'),
    oldestReadyAt: await readOldestReady(session),
  };
}

/** Reads only the first job of each plugin and dependency key, not the whole queue. */
export async function readOldestReady(session: Session): Promise<Timestamp | null> {
  const { dialect: d } = session;
  const jobs = d.table('job_queue');
  const [row = {}] = await session.run(
    `${withWaiting(d)}, ${writeKeyHeads(d)} select min(ready_at) as oldest from (
        select (select j.ready_at from ${jobs} j where j.plugin = waiting.plugin
          and j.status = 'queued' and j.next_retry_at is null and ${hasNoKey('j')}
          order by j.seq limit 1) as ready_at from waiting
        union all select j.ready_at from key_heads join ${jobs} j on j.seq = key_heads.first) heads`,
  );
  return textOrNull(row, 'oldest');
}

/** Many retries that are due at once become ready over several rounds. */
const PROMOTED_ROWS_MAX = 1000;

/** Makes delayed jobs ready that are due. */
export async function promoteDueJobs(tx: Transaction): Promise<PromotionResult> {
  const { dialect } = tx;
  const jobs = dialect.table('job_queue');
  const promoted = await tx.run(
    `update ${jobs} set next_retry_at = null where seq in (
      select seq from ${jobs} where status = 'queued' and next_retry_at is not null
        and next_retry_at <= (select ${dialect.now}) order by next_retry_at
        limit ${PROMOTED_ROWS_MAX} ${dialect.skipLocked}) returning seq`,
  );
  const [next] = await tx.run(
    `select min(next_retry_at) as due, ${dialect.now} as now from ${jobs}
      where status = 'queued' and next_retry_at is not null`,
  );
  const due = next === undefined ? null : textOrNull(next, 'due');
  if (next === undefined || due === null) {
    return { promoted: promoted.length, nextInMs: undefined };
  }
  const nextInMs = Math.max(0, fromTimestamp(due) - fromTimestamp(text(next, 'now')));
  return { promoted: promoted.length, nextInMs };
}

/**
 * Throws TENANT_LIMIT if the jobs don't fit. It counts no further than the limit. Only one
 * transaction at a time does so over all hosts.
 */
export async function requireQueueRoom(
  tx: Transaction,
  { most, tenant }: QueueLimit,
  jobs: number,
): Promise<void> {
  // An earlier try found room and may be committed: its own jobs must not count.
  if (jobs === 0 || tx.isRetry) return;
  const { lockQueue } = tx.dialect;
  // A separate statement: the count must take its snapshot after the lock is held.
  const [, queued] = await awaitBoth(
    lockQueue === undefined ? Promise.resolve([]) : tx.run(lockQueue),
    countQueued(tx, most),
  );
  if (queued + jobs <= most) return;
  const limit = 'queue_length';
  const message = `the tenant ${tenant} has reached its limit ${limit}, which is ${most}`;
  throw new DuctileError('TENANT_LIMIT', message, { place: limit, details: { limit, most } });
}

/** Counts ready and delayed jobs separately, because each has its own index. */
async function countQueued(session: Session, upTo: number): Promise<number> {
  const { dialect: d } = session;
  const [row = {}] = await session.run(
    `select (select count(*) from (select 1 as one from ${d.table('job_queue')}
        where ${isReady} limit ?) r) + (select count(*) from (select 1 as one
        from ${d.table('job_queue')} where status = 'queued' and next_retry_at is not null
        limit ?) l) as queued`,
    [upTo, upTo],
  );
  return int(row, 'queued');
}

/** The most rows that a queue position is computed from. */
const RUNNING_ROWS_MAX = 500;
const AHEAD_MAX = 1000;

/**
 * Reads the running jobs, and how many jobs of the plugin are before this one. Each statement has its
 * own index.
 */
export async function readQueuePosition(
  session: Session,
  { plugin, seq }: Pick<Job, 'plugin' | 'seq'>,
): Promise<QueuePosition> {
  const jobs = session.dialect.table('job_queue');
  const running = await session.run(
    `select ${runningJobs.columns()} from ${jobs} where status = 'running' order by plugin limit ?`,
    [RUNNING_ROWS_MAX],
  );
  const [before] = await session.run(
    `select count(*) as n from (select 1 as one from ${jobs}
      where ${isReady} and ${hasNoKey('job_queue')} and plugin = ? and seq < ? limit ?) found`,
    [plugin, seq, AHEAD_MAX],
  );
  return { running: running.map(runningJobs.decode), ahead: int(before ?? {}, 'n') };
}

/**
 * Reads the durations of recent successful attempts by the index of a plugin's attempts. If the
 * plugin has many commands, only its latest attempts count.
 */
export async function listRunDurations(
  session: Session,
  { plugin, command }: Pick<Job, 'plugin' | 'command'>,
): Promise<number[]> {
  const rows = await session.run(
    `select run_ms from (select command, status, run_ms, completed_at, id
        from ${session.dialect.table('job_log')} where plugin = ?
        order by completed_at desc, id desc limit ?) last
      where command = ? and status = 'succeeded' and run_ms is not null
      order by completed_at desc, id desc`,
    [plugin, limits.checks.usualAttemptsRead, command],
  );
  return rows.map((row) => int(row, 'run_ms'));
}

const runningJobs = jobTable.pick(
  'id',
  'plugin',
  'command',
  'startedAt',
  'claimExpiresAt',
  'claimedBy',
  'dedupeKey',
  'dependencyKey',
  'suspect',
);
