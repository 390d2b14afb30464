import { fromTimestamp } from '../../base/clock.ts';
import { bareReport } from '../../job/attempt.ts';
import type { Job } from '../../job/job.ts';
import { endCancelled } from '../../job/outcome.ts';
import { isTerminal } from '../../job/state.ts';
import type { Session, Transaction, Value } from '../dialect.ts';
import type { CancelAnswer, JobFilter, Promotion, QueueCounts } from '../ledger.ts';
import { int, jobColumns, text, textOrNull, toJob } from './row.ts';
import { settle } from './settle.ts';

export async function findJob(session: Session, id: string, lock = ''): Promise<Job | undefined> {
  const [row] = await session.run(
    `select ${jobColumns} from ${session.dialect.table('job_queue')} where id = ? ${lock}`,
    [id],
  );
  return row === undefined ? undefined : toJob(row);
}

export async function listJobs(session: Session, filter: JobFilter): Promise<Job[]> {
  const conditions: string[] = ['true'];
  const values: Value[] = [];
  for (const [column, value] of [
    ['plugin', filter.plugin],
    ['command', filter.command],
    ['root_job_id', filter.rootJobId],
    ['parent_job_id', filter.parentJobId],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  if (filter.status !== undefined) {
    conditions.push(`status in (${filter.status.map(() => '?').join(', ')})`);
    values.push(...filter.status);
  }
  const oldestFirst = filter.order === 'oldest';
  if (filter.beforeSeq !== undefined) {
    conditions.push(oldestFirst ? 'seq > ?' : 'seq < ?');
    values.push(filter.beforeSeq);
  }
  const rows = await session.run(
    `select ${jobColumns} from ${session.dialect.table('job_queue')}
      where ${conditions.join(' and ')} order by seq ${oldestFirst ? 'asc' : 'desc'} limit ?`,
    [...values, filter.limit],
  );
  return rows.map(toJob);
}

export async function countQueue(session: Session): Promise<QueueCounts> {
  const jobs = session.dialect.table('job_queue');
  const [row] = await session.run(
    `select
      (select count(*) from ${jobs} where status = 'queued' and next_retry_at is null) as ready,
      (select count(*) from ${jobs} where status = 'queued' and next_retry_at is not null) as delayed,
      (select count(*) from ${jobs} where status = 'running') as running,
      (select min(ready_at) from ${jobs} where status = 'queued' and next_retry_at is null) as oldest`,
  );
  if (row === undefined) throw new Error('a count gave no row');
  return {
    ready: int(row, 'ready'),
    delayed: int(row, 'delayed'),
    running: int(row, 'running'),
    oldestReadyAt: textOrNull(row, 'oldest'),
  };
}

/** Bounded, so that a thundering herd of retries is let in over several rounds. */
const PROMOTED_ROWS_MAX = 1000;

export async function promote(tx: Transaction): Promise<Promotion> {
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

export async function cancel(tx: Transaction, jobId: string): Promise<CancelAnswer> {
  const job = await findJob(tx, jobId, tx.dialect.forUpdate);
  if (job === undefined) return 'unknown';
  if (job.status === 'cancelled') return 'cancelled';
  if (isTerminal(job.status)) return 'terminal';
  if (job.status === 'running') {
    await tx.run(
      `update ${tx.dialect.table('job_queue')} set cancel_requested_at =
        coalesce(cancel_requested_at, ${tx.dialect.now}) where id = ?`,
      [jobId],
    );
    return 'requested';
  }
  await settle(tx, [
    {
      job,
      claimToken: null,
      report: bareReport('cancelled', 'cancelled', 'cancelled before it started'),
      ending: endCancelled(job),
      signals: [],
      jobs: [],
    },
  ]);
  return 'cancelled';
}
