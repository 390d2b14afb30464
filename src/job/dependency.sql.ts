import type { DependencyHolder } from '../job/types.ts';
import {
  defineRows,
  awaitBoth,
  type Dialect,
  type Row,
  type RowsStatement,
  type Session,
  type Transaction,
} from '../ledger/dialect.ts';
import { text } from '../ledger/row.ts';

/**
 * Writes the condition for ready jobs with a dependency key. It repeats the condition of their index
 * word for word, so that the index is used.
 */
function isReadyWithKey(job: string): string {
  return `${job}.status = 'queued' and ${job}.next_retry_at is null and ${job}.dependency_key is not null`;
}

/** Writes the condition that a job has no dependency key, as the index of ready jobs has it. */
export function hasNoKey(job: string): string {
  return `coalesce(${job}.dependency_key, '') = ''`;
}

/**
 * Writes the condition that any ready job has a dependency key. It reads one entry of an index that
 * is mostly empty.
 */
export function hasKeyedJob(d: Dialect): string {
  return `exists (select 1 from ${d.table('job_queue')} k where ${isReadyWithKey('k')})`;
}

/**
 * Writes a table `key_heads(key, first)` of the dependency keys of ready jobs, with the number of each
 * key's first job, for use after `with recursive`. It hops from one key to the next, so long queues
 * cost nothing.
 */
export function writeKeyHeads(d: Dialect): string {
  const jobs = d.table('job_queue');
  return `keys(key) as (
      select min(k.dependency_key) from ${jobs} k where ${isReadyWithKey('k')}
      union all
      select (select min(k.dependency_key) from ${jobs} k
        where ${isReadyWithKey('k')} and k.dependency_key > keys.key) from keys where keys.key is not null
    ), key_heads(key, first) as (select key, ${firstOf(d, 'keys.key')} from keys where key is not null)`;
}

/** Writes an expression that only one index has, so that PostgreSQL doesn't walk through all jobs. */
function byNumber(job: string): string {
  return `${job}.seq + 0`;
}

/**
 * Writes the number of a key's first job: among the jobs that could start, the one that became due
 * first.
 */
function firstOf(d: Dialect, key: string): string {
  return `(select f.seq from ${d.table('job_queue')} f where ${isReadyWithKey('f')}
    and f.dependency_key = ${key} and ${isPluginEnabled(d, 'f')} and ${isPluginReady(d, 'f')}
    order by f.ready_at, f.seq limit 1)`;
}

/** A job of a disabled plugin waits for an operator. It must not block the other jobs of its key. */
function isPluginEnabled(d: Dialect, job: string): string {
  return `not exists (select 1 from ${d.table('plugin_switches')} s
    where s.plugin_name = ${job}.plugin and s.enabled = 0)`;
}

/** A job keeps its position while its plugin is being set up, but not after the init has failed. */
function isPluginReady(d: Dialect, job: string): string {
  const inits = (init: string): string =>
    `${d.table('plugin_health')} ${init} where ${init}.plugin_name = ${job}.plugin and ${init}.kind = 'init'`;
  return `not exists (select 1 from ${inits('u')} and u.status = 'unhealthy' and not exists (
    select 1 from ${inits('n')} and n.status <> 'unhealthy' and n.updated_at >= u.updated_at))`;
}

function isKeyFree(d: Dialect, key: string): string {
  return `not exists (select 1 from ${d.table('job_queue')} x
    where x.status = 'running' and x.dependency_key = ${key})`;
}

/** The parts of a query for heads. The job has the alias h. */
interface HeadQuery {
  readonly columns: string;
  /** A further condition. */
  readonly isFree: (d: Dialect) => string;
}

/**
 * The number of a plugin's jobs with a key that are read first. Most plugins have fewer of them, or
 * their jobs have many different keys.
 */
const WALKED_MAX = 40;

/**
 * Creates a function that reads, per plugin, the jobs that are first of a dependency key of which
 * no job is running. A job that can't start yet, because its plugin is at its cap or no host has
 * the plugin, keeps its position: no other job of the key overtakes it.
 */
export function makeKeyHeadReader(
  query: HeadQuery,
): (tx: Transaction, wanted: readonly Row[]) => Promise<Row[]> {
  const selectFirsts = defineFirsts(query);
  return async (tx, wanted) => {
    const [walked, longer] = await awaitBoth(
      tx.each(selectFirsts, wanted),
      tx.each(selectLonger, wanted),
    );
    const found = Map.groupBy(walked, (head) => head['plugin']);
    const isShort = ({ plugin, heads }: Row): boolean =>
      (found.get(plugin)?.length ?? 0) < Number(heads);
    const short = wanted.filter((row) => isShort(row));
    const unseen = new Set(longer.map(({ plugin }) => plugin));
    const left = new Set(short.flatMap(({ plugin = null }) => (unseen.has(plugin) ? plugin : [])));
    if (left.size === 0) return walked;
    const all = await readAllFirsts(tx, query, short);
    return [
      ...walked.filter(({ plugin = null }) => !left.has(plugin)),
      ...all.filter(({ plugin = null }) => left.has(plugin)),
    ];
  };
}

const headRequestColumns = { plugin: 'text', heads: 'int', suspects: 'int' } as const;

function defineFirsts({ columns, isFree }: HeadQuery): RowsStatement {
  return defineRows({
    columns: headRequestColumns,
    sql: (r, d) =>
      `select q.* from ${r.lateral(
        `select ${columns} from ${d.table('job_queue')} h where h.seq in (
          select w.seq from (select k.seq, k.dependency_key from ${d.table('job_queue')} k
            where k.plugin = ${r('plugin')} and ${isReadyWithKey('k')} order by ${byNumber('k')} limit ${WALKED_MAX}) w
          where w.seq = ${firstOf(d, 'w.dependency_key')} and ${isKeyFree(d, 'w.dependency_key')})
        and h.suspect <= ${r('suspects')} and ${isFree(d)}
        order by h.seq limit ${r('heads')} + 0 ${d.skipLocked}`,
      )}`,
  });
}

/** Selects the plugins that have more jobs with a key than were read. */
const selectLonger = defineRows({
  columns: headRequestColumns,
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select k.plugin from ${d.table('job_queue')} k where k.plugin = ${r('plugin')}
      and ${isReadyWithKey('k')} order by ${byNumber('k')} limit 1 offset ${WALKED_MAX}`,
    )}`,
});

/** Reads the first jobs of all keys, for plugins whose oldest jobs share few keys. */
async function readAllFirsts(
  tx: Transaction,
  { columns, isFree }: HeadQuery,
  wanted: readonly Row[],
): Promise<Row[]> {
  const { dialect: d } = tx;
  const jobs = d.table('job_queue');
  const most = Math.max(...wanted.map(({ heads }) => Number(heads)));
  const suspects = Math.max(...wanted.map((row) => Number(row['suspects'])));
  return await tx.run(
    `with recursive ${writeKeyHeads(d)}, firsts(seq, nth) as (
      select h.seq, row_number() over (partition by h.plugin order by h.seq)
      from key_heads join ${jobs} h on h.seq = key_heads.first
      where h.suspect <= ? and ${isKeyFree(d, 'key_heads.key')} and ${isFree(d)}
    )
    select ${columns} from ${jobs} h
      where h.seq in (select seq from firsts where nth <= ?) ${d.skipLocked}`,
    [suspects, most],
  );
}

/** Finds the job that runs with a key, or the one that is next. */
export async function findDependencyHolder(
  session: Session,
  key: string,
): Promise<DependencyHolder | undefined> {
  const jobs = session.dialect.table('job_queue');
  const [holder] = await session.run(
    `select id, 1 as running from ${jobs} where status = 'running' and dependency_key = ?
      union all
      select id, 0 from ${jobs} where seq = ${firstOf(session.dialect, '?')}
      order by running desc limit 1`,
    [key, key],
  );
  if (holder === undefined) return undefined;
  return { id: text(holder, 'id'), isRunning: holder['running'] === 1 };
}
