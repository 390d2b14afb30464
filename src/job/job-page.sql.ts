import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { Session } from '../ledger/dialect.ts';
import { RARE_STATUSES } from '../ledger/migrations/0014-lists.ts';
import { int, text } from '../ledger/row.ts';
import {
  countWalk,
  rangeAfter,
  readWalk,
  type NumberRange,
  type WalkRequest,
  type WalkStream,
} from '../ledger/walk.ts';
import { WhereClause } from '../ledger/where.ts';
import { jobColumns, toJob } from './job.sql.ts';
import type { JobStatus } from './job.ts';
import { withWaiting } from './queue.sql.ts';
import type { BoundedCount, JobPage, JobPageFilter } from './types.ts';

/**
 * Reads a page of jobs. It reads a bounded number of rows, whatever the filter and the size of the
 * table.
 */
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

/** Counts the jobs of all pages, as far as a bounded number of rows allows. */
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
 * Finds the range of numbers of jobs that were created in a period. Numbers and times grow
 * together, except if the clock is set back. So the range is slightly wider, and the rows are
 * compared, too.
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

/** Finds the number of the first job that was created at this time or later, by binary search. */
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

/** The filters that decide which index is used. */
type JobKind = Pick<JobPageFilter, 'plugin' | 'command' | 'submittedBy'>;

/** Adds the conditions on rows that all streams of a list share. */
type SharedRest = (rest: WhereClause) => WhereClause;

const rareStatuses: ReadonlySet<JobStatus> = new Set([
  'failed',
  'timed_out',
  'dead',
  'cancelled',
  'skipped',
]);

/** More kinds of jobs than configurations have. Above it, a list walks through all jobs. */
const KINDS_MAX = 400;

/**
 * Returns alternative sets of streams for a list of jobs, the best first. Each is complete; they
 * differ in how many rows they read. Each stream has its own index: ended jobs by kind, ready jobs
 * by plugin, and jobs in rare states by state.
 */
async function findJobStreams(
  session: Session,
  filter: JobPageFilter,
  shared: SharedRest,
): Promise<WalkStream[][]> {
  const { status } = filter;
  if (status === undefined && isAnyKind(filter)) return [[allStream(shared)]];
  const wanted: ReadonlySet<JobStatus> | undefined = status && new Set(status);
  const wants = (one: JobStatus): boolean => wanted?.has(one) ?? true;
  const open = [
    ...(wants('queued') ? await queuedStreams(session, filter, shared) : []),
    ...(wants('running') ? [runningStream(filter, shared)] : []),
  ];
  const ended = status?.filter((one) => one !== 'queued' && one !== 'running');
  if (ended?.length === 0) return [open];
  const kinds = await endedStreams(session, filter, ended, shared);
  const ways = kinds === undefined ? [] : [kinds];
  if (ended?.every((one) => rareStatuses.has(one)) === true) {
    ways.unshift(ended.map((one) => rareStream(one, filter, shared)));
  }
  if (ways.length === 0) return [[allStream(shared, filter, status)]];
  return ways.map((way) => [...open, ...way]);
}

function isAnyKind({ plugin, command, submittedBy }: JobKind): boolean {
  return (plugin ?? command ?? submittedBy) === undefined;
}

/** `left` is the part of the filter that the index doesn't cover. */
function restOf(
  shared: SharedRest,
  { plugin, command, submittedBy }: JobKind = {},
  status?: readonly JobStatus[],
): WhereClause {
  const rest = new WhereClause().equals({ plugin, command, submitted_by: submittedBy });
  if (status !== undefined) rest.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
  return shared(rest);
}

function allStream(shared: SharedRest, left?: JobKind, status?: readonly JobStatus[]): WalkStream {
  return { index: undefined, where: new WhereClause(), rest: restOf(shared, left, status) };
}

/** The condition of the index is repeated literally: planners compare the text. */
function rareStream(
  status: JobStatus,
  { plugin, ...left }: JobKind,
  shared: SharedRest,
): WalkStream {
  return {
    index: plugin === undefined ? 'job_queue_rare' : 'job_queue_rare_of',
    key: ['status', status],
    where: new WhereClause().equals({ plugin }).and(`status in ${RARE_STATUSES}`),
    rest: restOf(shared, left),
  };
}

/** Running jobs are few and are sorted: reading them in order would walk through all jobs. */
function runningStream({ plugin, ...left }: JobKind, shared: SharedRest): WalkStream {
  return {
    index: 'job_queue_running',
    where: new WhereClause().equals({ plugin }).and(`status = 'running'`),
    rest: restOf(shared, left),
    by: 'seq + 0',
  };
}

async function queuedStreams(
  session: Session,
  { plugin: wanted, ...left }: JobKind,
  shared: SharedRest,
): Promise<WalkStream[]> {
  const { dialect: d } = session;
  const jobs = d.table('job_queue');
  const isDelayed = `status = 'queued' and next_retry_at is not null`;
  const ready =
    wanted === undefined ? await list(`${withWaiting(d)} select plugin from waiting`) : [wanted];
  const delayed =
    wanted === undefined
      ? await list(`with recursive hops(plugin) as (
          select min(plugin) from ${jobs} where ${isDelayed} union all
          select (select min(plugin) from ${jobs} where ${isDelayed} and plugin > hops.plugin)
            from hops where hops.plugin is not null
        ) select plugin from hops where plugin is not null`)
      : [wanted];
  async function list(sql: string): Promise<string[]> {
    return (await session.run(sql)).map((row) => text(row, 'plugin'));
  }
  const isReady = `status = 'queued' and next_retry_at is null`;
  const rest = (): WhereClause => restOf(shared, left);
  return [
    ...ready.flatMap((plugin): WalkStream[] => [
      {
        index: 'job_queue_ready',
        key: [`coalesce(dependency_key, '')`, ''],
        where: new WhereClause().equals({ plugin }).and(isReady),
        rest: rest(),
      },
      {
        index: 'job_queue_in_line',
        where: new WhereClause()
          .equals({ plugin })
          .and(`${isReady} and dependency_key is not null`),
        rest: rest(),
        by: 'seq + 0',
      },
    ]),
    ...delayed.map((plugin): WalkStream => ({
      index: 'job_queue_delayed_of',
      key: ['plugin', plugin],
      where: new WhereClause().and(isDelayed),
      rest: rest(),
    })),
  ];
}

/** A stream for each kind of ended job; undefined if there are too many kinds. */
async function endedStreams(
  session: Session,
  filter: JobKind,
  status: readonly JobStatus[] | undefined,
  shared: SharedRest,
): Promise<WalkStream[] | undefined> {
  const kinds = await listKinds(session, filter);
  if (kinds.length > KINDS_MAX) return undefined;
  return kinds.map(({ plugin, command, submittedBy }) => ({
    index: 'job_queue_ended',
    key: ['submitted_by', submittedBy],
    where: new WhereClause().equals({ plugin, command }).and('completed_at is not null'),
    rest: restOf(shared, {}, status),
  }));
}

/**
 * Hops from one kind to the next in the index of ended jobs, so the number of jobs doesn't matter.
 */
async function listKinds(session: Session, filter: JobKind): Promise<KindRow[]> {
  const { plugin, command, submittedBy } = filter;
  const jobs = session.dialect.table('job_queue');
  const key = 'plugin, command, submitted_by';
  const pick = (condition: string, order: string): string =>
    `(select seq from ${jobs} where completed_at is not null and ${condition}
      order by ${order} limit 1)`;
  // Row comparisons would make SQLite use only the first column of the index.
  const steps = [
    pick(
      'plugin = h.plugin and command = h.command and submitted_by > h.submitted_by',
      'submitted_by',
    ),
    pick('plugin = h.plugin and command > h.command', 'command, submitted_by'),
    ...(plugin === undefined ? [pick('plugin > h.plugin', key)] : []),
  ];
  const rows = await session.run(
    `with recursive h(plugin, command, submitted_by, n) as (
      select ${key}, 1 from ${jobs} where seq =
        ${plugin === undefined ? pick('true', key) : pick('plugin = ?', 'command, submitted_by')}
      union all
      select j.plugin, j.command, j.submitted_by, h.n + 1 from h
        join ${jobs} j on j.seq = coalesce(${steps.join(', ')}) where h.n <= ${KINDS_MAX}
    ) select plugin, command, submitted_by from h`,
    plugin === undefined ? [] : [plugin],
  );
  return rows
    .map((row) => ({
      plugin: text(row, 'plugin'),
      command: text(row, 'command'),
      submittedBy: text(row, 'submitted_by'),
    }))
    .filter(
      (kind) =>
        (command === undefined || kind.command === command) &&
        (submittedBy === undefined || kind.submittedBy === submittedBy),
    );
}

interface KindRow {
  readonly plugin: string;
  readonly command: string;
  readonly submittedBy: string;
}
