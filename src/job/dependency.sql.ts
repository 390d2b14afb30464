import {
  defineRows,
  together,
  type Dialect,
  type Row,
  type RowsStatement,
  type Session,
  type Transaction,
} from '../ledger/dialect.ts';
import type { DependencyHolder } from '../tenant/outlook.ts';
import { text } from '../ledger/row.ts';

/**
 * Repeats the condition of the index of jobs with a dependency key, word for word, so that the
 * index is used.
 */
function isInLine(job: string): string {
  return `${job}.status = 'queued' and ${job}.next_retry_at is null and ${job}.dependency_key is not null`;
}

/**
 * Writes the condition that a job has no dependency key. It is the expression of the index of ready
 * jobs.
 */
export function hasNoKey(job: string): string {
  return `coalesce(${job}.dependency_key, '') = ''`;
}

/**
 * Writes the condition that any ready job has a dependency key. It reads one entry of an index that
 * is mostly empty.
 */
export function anyInLine(d: Dialect): string {
  return `exists (select 1 from ${d.table('job_queue')} k where ${isInLine('k')})`;
}

/**
 * Writes a table `lines(key, first)` of the dependency keys of ready jobs, with the number of each
 * key's first job, for use after `with recursive`. It hops from one key to the next, so long queues
 * cost nothing.
 */
export function linesOf(d: Dialect): string {
  const jobs = d.table('job_queue');
  return `keys(key) as (
      select min(k.dependency_key) from ${jobs} k where ${isInLine('k')}
      union all
      select (select min(k.dependency_key) from ${jobs} k
        where ${isInLine('k')} and k.dependency_key > keys.key) from keys where keys.key is not null
    ), lines(key, first) as (select key, ${firstOf(d, 'keys.key')} from keys where key is not null)`;
}

/** An expression that only one index has: PostgreSQL prefers to walk through all jobs by number. */
function byNumber(job: string): string {
  return `${job}.seq + 0`;
}

/**
 * Writes the number of a key's first job: among the jobs that could start, the one that became due
 * first.
 */
function firstOf(d: Dialect, key: string): string {
  return `(select f.seq from ${d.table('job_queue')} f where ${isInLine('f')}
    and f.dependency_key = ${key} and ${isPluginOn(d, 'f')} and ${isPluginWell(d, 'f')}
    order by f.ready_at, f.seq limit 1)`;
}

/**
 * A job of a disabled plugin waits for an operator. It must not hold up the other jobs of its key.
 */
function isPluginOn(d: Dialect, job: string): string {
  return `not exists (select 1 from ${d.table('plugin_switches')} s
    where s.plugin_name = ${job}.plugin and s.enabled = 0)`;
}

/** A job keeps its position while its plugin is being set up, but not after the init has failed. */
function isPluginWell(d: Dialect, job: string): string {
  const inits = (init: string): string =>
    `${d.table('plugin_health')} ${init} where ${init}.plugin_name = ${job}.plugin and ${init}.kind = 'init'`;
  return `not exists (select 1 from ${inits('u')} and u.status = 'unhealthy' and not exists (
    select 1 from ${inits('n')} and n.status <> 'unhealthy' and n.updated_at >= u.updated_at))`;
}

function isKeyFree(d: Dialect, key: string): string {
  return `not exists (select 1 from ${d.table('job_queue')} x
    where x.status = 'running' and x.dependency_key = ${key})`;
}

/** The columns and the condition of heads, for a job with the alias h. */
interface HeadWords {
  readonly columns: string;
  /** A further condition. */
  readonly isFree: (d: Dialect) => string;
}

/**
 * Jobs of a plugin that are read before all keys are. Most plugins have fewer jobs with a key, or
 * many different keys.
 */
const WALKED_MAX = 40;

/**
 * Creates a function that reads, per plugin, the jobs that are first of a dependency key of which
 * no job is running. A job that can't start yet, because its plugin is at its cap or no host has
 * the plugin, keeps its position: no other job of the key overtakes it.
 */
export function makeKeyHeadReader(
  words: HeadWords,
): (tx: Transaction, asked: readonly Row[]) => Promise<Row[]> {
  const selectFirsts = selectFirstsOf(words);
  return async (tx, asked) => {
    const [walked, longer] = await together(
      tx.each(selectFirsts, asked),
      tx.each(selectLonger, asked),
    );
    const found = Map.groupBy(walked, (head) => head['plugin']);
    const isShort = ({ plugin, heads }: Row): boolean =>
      (found.get(plugin)?.length ?? 0) < Number(heads);
    const short = asked.filter((row) => isShort(row));
    const unseen = new Set(longer.map(({ plugin }) => plugin));
    const left = new Set(short.flatMap(({ plugin = null }) => (unseen.has(plugin) ? plugin : [])));
    if (left.size === 0) return walked;
    const all = await readAllFirsts(tx, words, short);
    return [
      ...walked.filter(({ plugin = null }) => !left.has(plugin)),
      ...all.filter(({ plugin = null }) => left.has(plugin)),
    ];
  };
}

const askedColumns = { plugin: 'text', heads: 'int', suspects: 'int' } as const;

function selectFirstsOf({ columns, isFree }: HeadWords): RowsStatement {
  return defineRows({
    columns: askedColumns,
    sql: (r, d) =>
      `select q.* from ${r.lateral(
        `select ${columns} from ${d.table('job_queue')} h where h.seq in (
          select w.seq from (select k.seq, k.dependency_key from ${d.table('job_queue')} k
            where k.plugin = ${r('plugin')} and ${isInLine('k')} order by ${byNumber('k')} limit ${WALKED_MAX}) w
          where w.seq = ${firstOf(d, 'w.dependency_key')} and ${isKeyFree(d, 'w.dependency_key')})
        and h.suspect <= ${r('suspects')} and ${isFree(d)}
        order by h.seq limit ${r('heads')} + 0 ${d.skipLocked}`,
      )}`,
  });
}

/** Selects the plugins that have more such jobs than were read. */
const selectLonger = defineRows({
  columns: askedColumns,
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select k.plugin from ${d.table('job_queue')} k where k.plugin = ${r('plugin')}
      and ${isInLine('k')} order by ${byNumber('k')} limit 1 offset ${WALKED_MAX}`,
    )}`,
});

/** Reads the same by all keys, for plugins whose oldest jobs wait for few keys. */
async function readAllFirsts(
  tx: Transaction,
  { columns, isFree }: HeadWords,
  asked: readonly Row[],
): Promise<Row[]> {
  const { dialect: d } = tx;
  const jobs = d.table('job_queue');
  const most = Math.max(...asked.map(({ heads }) => Number(heads)));
  const suspects = Math.max(...asked.map((row) => Number(row['suspects'])));
  return await tx.run(
    `with recursive ${linesOf(d)}, firsts(seq, place) as (
      select h.seq, row_number() over (partition by h.plugin order by h.seq)
      from lines join ${jobs} h on h.seq = lines.first
      where h.suspect <= ? and ${isKeyFree(d, 'lines.key')} and ${isFree(d)}
    )
    select ${columns} from ${jobs} h
      where h.seq in (select seq from firsts where place <= ?) ${d.skipLocked}`,
    [suspects, most],
  );
}

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
