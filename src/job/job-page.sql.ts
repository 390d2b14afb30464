import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { Session } from '../ledger/dialect.ts';
import type { BoundedCount, JobPage, JobPageFilter } from './page-types.ts';
import { findJobStreams } from './job-streams.sql.ts';
import { int } from '../ledger/row.ts';
import { jobColumns, toJob } from './job-row.sql.ts';
import {
  countWalk,
  rangeAfter,
  readWalk,
  type NumberRange,
  type WalkRequest,
  type WalkStream,
} from '../ledger/walk.ts';

/** Reads a page of jobs. It looks at a bounded number of rows, whatever the filter and the table. */
export async function readJobPage(session: Session, filter: JobPageFilter): Promise<JobPage> {
  const numbers = await findNumbers(session, filter);
  const request = requestOf(session, filter, numbers);
  const ways = await findWays(session, filter);
  const { rows, next } = await readWalk(session, {
    ...request,
    range: rangeAfter(numbers, filter.beforeSeq, request.order),
    ways,
    select: jobColumns,
    map: toJob,
  });
  return { jobs: rows, next };
}

/** Counts the jobs of a list, of all its pages, as far as a bounded number of rows tells. */
export async function countJobPage(session: Session, filter: JobPageFilter): Promise<BoundedCount> {
  const numbers = await findNumbers(session, filter);
  let best: BoundedCount = { count: 0, isExact: false };
  for (const streams of await findWays(session, filter)) {
    const found = await countWalk(session, { ...requestOf(session, filter, numbers), streams });
    if (found.isExact) return found;
    if (found.count >= best.count) best = found;
  }
  return best;
}

function requestOf(session: Session, filter: JobPageFilter, range: NumberRange): WalkRequest {
  return {
    table: session.dialect.table('job_queue'),
    columns: ['plugin', 'command', 'submitted_by', 'status', 'created_at', 'last_error'],
    streams: [],
    order: filter.order ?? 'newest',
    limit: filter.limit,
    range,
    visitMax: filter.visitMax ?? limits.listVisitMax,
  };
}

function findWays(session: Session, filter: JobPageFilter): Promise<WalkStream[][]> {
  return findJobStreams(session, filter, (rest) => {
    if (filter.from !== undefined) rest.and('created_at >= ?', filter.from);
    if (filter.to !== undefined) rest.and('created_at < ?', filter.to);
    if (filter.query !== undefined) rest.contains('last_error', filter.query);
    return rest;
  });
}

/**
 * The numbers between which jobs of a time are. Numbers and times grow together, except when the
 * clock is set back: so the range is a little wider than asked for, and rows are compared as well.
 */
async function findNumbers(
  session: Session,
  { from, to }: Pick<JobPageFilter, 'from' | 'to'>,
): Promise<NumberRange> {
  return {
    from: from === undefined ? undefined : await findNumber(session, from, -limits.clockSetBackMs),
    to: to === undefined ? undefined : await findNumber(session, to, limits.clockSetBackMs),
  };
}

/** The number of the first job that was created at a time or later, by halving the range of numbers. */
async function findNumber(session: Session, at: Timestamp, shiftMs: number): Promise<number> {
  const jobs = session.dialect.table('job_queue');
  const isEarlier = `(select j.created_at from ${jobs} j where j.seq >= (half.low + half.high) / 2
    order by j.seq limit 1) < ?`;
  const time = toTimestamp(fromTimestamp(at) + shiftMs);
  const [row = {}] = await session.run(
    `with recursive half(low, high) as (
      select coalesce((select min(seq) from ${jobs}), 0),
        coalesce((select max(seq) from ${jobs}), 0) + 1
      union all
      select case when ${isEarlier} then (low + high) / 2 + 1 else low end,
        case when ${isEarlier} then high else (low + high) / 2 end
      from half where low < high
    ) select max(low) as seq from half`,
    [time, time],
  );
  return int(row, 'seq');
}
