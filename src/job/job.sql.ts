import type { Dialect, Session } from '../ledger/dialect.ts';
import { int, readRows } from '../ledger/row.ts';
import { formatOrder, WhereClause } from '../ledger/where.ts';
import { jobTable, type Job } from './job.ts';
import type { JobFilter } from './types.ts';

export const jobColumns = jobTable.columns();
export const toJob = jobTable.decode;

export async function findJob(session: Session, id: string): Promise<Job | undefined> {
  const [job] = await readRows(session, jobTable, 'where id = ?', [id]);
  return job;
}

export async function listJobs(session: Session, filter: JobFilter): Promise<Job[]> {
  const where = whereJobs(filter, session.dialect);
  const rest = `where ${where.text} ${formatOrder(filter)} limit ?`;
  return await readRows(session, jobTable, rest, [...where.values, filter.limit]);
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

/**
 * Alternatives are unions of rows: with `or`, the database would search all jobs for the newest.
 */
function whereJobs(filter: JobFilter, dialect: Dialect): WhereClause {
  const jobs = dialect.table('job_queue');
  const where = new WhereClause().equals({
    plugin: filter.plugin,
    command: filter.command,
    parent_job_id: filter.parentJobId,
    submitted_by: filter.submittedBy,
    source_event_id: filter.sourceEventId,
  });
  if (filter.rootJobId !== undefined) {
    // Most jobs are their own root. The index of lineages contains only the others.
    const root = filter.rootJobId;
    where.and(
      `seq in (select seq from ${jobs} where id = ?
        union all select seq from ${jobs} where root_job_id = ? and root_job_id <> id)`,
      root,
      root,
    );
  }
  if (filter.idPrefix !== undefined) {
    // A range on the index of ids. `~` sorts after every character of an id.
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
