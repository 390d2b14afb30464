import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import type { Job } from './job.ts';
import type { Dialect, Session, Transaction } from '../ledger/dialect.ts';
import type { JobFilter } from './page-types.ts';
import type { Promotion, QueueCounts } from './types.ts';
import { hasNoKey, linesOf } from './dependency.sql.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { jobColumns, toJob } from './job-row.sql.ts';
import { isReady, withWaiting } from './waiting.sql.ts';
import { orderOf, Where } from '../ledger/where.ts';

export async function findJob(session: Session, id: string, lock = ''): Promise<Job | undefined> {
  const [row] = await session.run(
    `select ${jobColumns} from ${session.dialect.table('job_queue')} where id = ? ${lock}`,
    [id],
  );
  return row === undefined ? undefined : toJob(row);
}

export async function listJobs(session: Session, filter: JobFilter): Promise<Job[]> {
  const where = whereJobs(filter, session.dialect);
  const rows = await session.run(
    `select ${jobColumns} from ${session.dialect.table('job_queue')}
      where ${where.text} ${orderOf(filter)} limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map(toJob);
}

export async function countJobs(session: Session, filter: JobFilter): Promise<number> {
  const where = whereJobs(filter, session.dialect);
  const [row] = await session.run(
    `select count(*) as n from (select 1 as one from ${session.dialect.table('job_queue')}
      where ${where.text} limit ?) found`,
    [...where.values, filter.limit],
  );
  return int(row ?? {}, 'n');
}

/** Alternatives are lists of rows: with `or`, the newest would be looked for among all jobs. */
function whereJobs(filter: JobFilter, dialect: Dialect): Where {
  const jobs = dialect.table('job_queue');
  const where = new Where().equals({
    plugin: filter.plugin,
    command: filter.command,
    parent_job_id: filter.parentJobId,
    submitted_by: filter.submittedBy,
    source_event_id: filter.sourceEventId,
  });
  if (filter.rootJobId !== undefined) {
    // Most jobs are their own root; the index of lineages has only the others.
    const root = filter.rootJobId;
    where.and(
      `seq in (select seq from ${jobs} where id = ?
        union all select seq from ${jobs} where root_job_id = ? and root_job_id <> id)`,
      root,
      root,
    );
  }
  if (filter.idPrefix !== undefined) {
    // A range that the index of ids can walk; `~` sorts behind everything in an id.
    where.and('id >= ? and id < ?', filter.idPrefix, `${filter.idPrefix}~`);
  }
  if (filter.status !== undefined) {
    where.and(`status in (${filter.status.map(() => '?').join(', ')})`, ...filter.status);
  }
  if (filter.causedBy !== undefined) {
    const marks = filter.causedBy.map(() => '?').join(', ');
    where.and(
      `seq in (select seq from ${jobs} where parent_job_id in (${marks})
        union all select seq from ${jobs} where retry_of in (${marks}))`,
      ...filter.causedBy,
      ...filter.causedBy,
    );
  }
  if (filter.retryOf !== undefined) {
    const marks = filter.retryOf.map(() => '?').join(', ');
    where.and(`seq in (select seq from ${jobs} where retry_of in (${marks}))`, ...filter.retryOf);
  }
  if (filter.from !== undefined) where.and('created_at >= ?', filter.from);
  if (filter.to !== undefined) where.and('created_at < ?', filter.to);
  if (filter.olderThanMs !== undefined) {
    where.and(`created_at <= (select ${dialect.nowPlus('?')})`, -filter.olderThanMs);
  }
  if (filter.query !== undefined) where.contains('last_error', filter.query);
  if (filter.notRetried === true) {
    where.and(`not exists (select 1 from ${jobs} r where r.retry_of = job_queue.id)`);
  }
  if (filter.upToSeq !== undefined) where.and('seq <= ?', filter.upToSeq);
  if (filter.beforeSeq !== undefined) {
    where.and(filter.order === 'oldest' ? 'seq > ?' : 'seq < ?', filter.beforeSeq);
  }
  return where;
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

/** The oldest is looked for among the next in line of each plugin and key, not in the whole queue. */
export async function readOldestReady(session: Session): Promise<Timestamp | null> {
  const { dialect: d } = session;
  const jobs = d.table('job_queue');
  const [row = {}] = await session.run(
    `${withWaiting(d)}, ${linesOf(d)} select min(ready_at) as oldest from (
        select (select j.ready_at from ${jobs} j where j.plugin = waiting.plugin
          and j.status = 'queued' and j.next_retry_at is null and ${hasNoKey('j')}
          order by j.seq limit 1) as ready_at from waiting
        union all select j.ready_at from lines join ${jobs} j on j.seq = lines.first) heads`,
  );
  return textOrNull(row, 'oldest');
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
