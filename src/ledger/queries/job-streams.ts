import type { JobStatus } from '../../job/state.ts';
import type { Session } from '../dialect.ts';
import type { JobPageFilter } from '../job-pages.ts';
import { text } from './row.ts';
import { withWaiting } from './waiting.ts';
import type { WalkStream } from './walk.ts';
import { Where } from './where.ts';

/** What may be asked of a job that decides on its index. */
type JobKind = Pick<JobPageFilter, 'plugin' | 'command' | 'submittedBy'>;

/** The bounds of the numbers and the conditions on rows that all streams of a list share. */
export interface StreamBounds {
  readonly range: (where: Where) => Where;
  readonly rest: (rest: Where) => Where;
}

const rareStatuses: ReadonlySet<JobStatus> = new Set([
  'failed',
  'timed_out',
  'dead',
  'cancelled',
  'skipped',
]);

/** More kinds of jobs than any configuration has; behind them a list walks through all jobs. */
const KINDS_MAX = 400;

/**
 * The streams of a list of jobs, the best way first. All are complete; they differ in how many rows
 * they look at. Each has its own index: jobs that ended by their kind, jobs that wait by their plugin,
 * and jobs in rare states by that.
 */
export async function findJobStreams(
  session: Session,
  filter: JobPageFilter,
  bounds: StreamBounds,
): Promise<WalkStream[][]> {
  const { status } = filter;
  if (status === undefined && isAnyKind(filter)) return [[streamOf(bounds, new Where())]];
  const wanted: ReadonlySet<JobStatus> | undefined = status && new Set(status);
  const wants = (one: JobStatus): boolean => wanted?.has(one) ?? true;
  const open = [
    ...(wants('queued') ? await queuedStreams(session, filter, bounds) : []),
    ...(wants('running') ? [runningStream(filter, bounds)] : []),
  ];
  const ended = status?.filter((one) => one !== 'queued' && one !== 'running');
  if (ended?.length === 0) return [open];
  const kinds = await endedStreams(session, filter, ended, bounds);
  const ways = kinds === undefined ? [] : [kinds];
  if (ended?.every((one) => rareStatuses.has(one)) === true) {
    ways.unshift(ended.map((one) => rareStream(one, filter, bounds)));
  }
  if (ways.length === 0) return [[streamOf(bounds, new Where(), filter, status)]];
  return ways.map((way) => [...open, ...way]);
}

function isAnyKind({ plugin, command, submittedBy }: JobKind): boolean {
  return (plugin ?? command ?? submittedBy) === undefined;
}

/** `left`: what the conditions of the index don't say. */
function streamOf(
  { range, rest }: StreamBounds,
  where: Where,
  left: JobKind = {},
  status?: readonly JobStatus[],
): WalkStream {
  const { plugin, command, submittedBy } = left;
  const more = new Where().equals({ plugin, command, submitted_by: submittedBy });
  if (status !== undefined) more.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
  return { where: range(where), rest: rest(more) };
}

function rareStream(
  status: JobStatus,
  { plugin, ...left }: JobKind,
  bounds: StreamBounds,
): WalkStream {
  // The status is written out: a parameter would hide from the planner that the index has it.
  const where = new Where().equals({ plugin }).and(`status = '${status}'`);
  return streamOf(bounds, where, left);
}

/** As many as can run at once. */
function runningStream({ plugin, ...left }: JobKind, bounds: StreamBounds): WalkStream {
  return streamOf(bounds, new Where().equals({ plugin }).and(`status = 'running'`), left);
}

async function queuedStreams(
  session: Session,
  { plugin: wanted, ...left }: JobKind,
  bounds: StreamBounds,
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
  return [
    ...ready.flatMap((plugin) => [
      streamOf(
        bounds,
        new Where().equals({ plugin }).and(`${isReady} and coalesce(dependency_key, '') = ''`),
        left,
      ),
      {
        ...streamOf(
          bounds,
          new Where().equals({ plugin }).and(`${isReady} and dependency_key is not null`),
          left,
        ),
        by: 'seq + 0',
      },
    ]),
    ...delayed.map((plugin) =>
      streamOf(bounds, new Where().equals({ plugin }).and(isDelayed), left),
    ),
  ];
}

/** One for each kind of jobs that ended; undefined where there are too many kinds. */
async function endedStreams(
  session: Session,
  filter: JobKind,
  status: readonly JobStatus[] | undefined,
  bounds: StreamBounds,
): Promise<WalkStream[] | undefined> {
  const kinds = await listKinds(session, filter);
  if (kinds.length > KINDS_MAX) return undefined;
  return kinds.map(({ plugin, command, submittedBy }) =>
    streamOf(
      bounds,
      new Where()
        .equals({ plugin, command, submitted_by: submittedBy })
        .and('completed_at is not null'),
      {},
      status,
    ),
  );
}

/** Hops from one kind to the next in the index of ended jobs, however many jobs each has. */
async function listKinds(session: Session, filter: JobKind): Promise<KindRow[]> {
  const { plugin, command, submittedBy } = filter;
  const jobs = session.dialect.table('job_queue');
  const where = new Where().and('completed_at is not null').equals({ plugin });
  const key = 'plugin, command, submitted_by';
  const first = `select seq from ${jobs} where ${where.text} order by ${key} limit 1`;
  const next = `select seq from ${jobs} where ${where.text} and (${key}) >
    (h.plugin, h.command, h.submitted_by) order by ${key} limit 1`;
  const rows = await session.run(
    `with recursive h(plugin, command, submitted_by, n) as (
      select ${key}, 1 from ${jobs} where seq = (${first})
      union all
      select j.plugin, j.command, j.submitted_by, h.n + 1 from h
        join ${jobs} j on j.seq = (${next}) where h.n <= ${KINDS_MAX}
    ) select plugin, command, submitted_by from h`,
    [...where.values, ...where.values],
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
