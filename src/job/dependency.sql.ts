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

/** The condition of the index of jobs in the line of a key, word for word, so that it is used. */
function isInLine(job: string): string {
  return `${job}.status = 'queued' and ${job}.next_retry_at is null and ${job}.dependency_key is not null`;
}

/** Of jobs, those that wait for no key; an expression, because the index of ready jobs has it so. */
export function hasNoKey(job: string): string {
  return `coalesce(${job}.dependency_key, '') = ''`;
}

/** Whether any job stands in the line of a key: one look at an index that most ledgers have empty. */
export function anyInLine(d: Dialect): string {
  return `exists (select 1 from ${d.table('job_queue')} k where ${isInLine('k')})`;
}

/**
 * A table `lines(key, first)` of the keys that jobs wait for, with the number of the first in each
 * line, to be put after `with recursive`. It hops from one key to the next, however long the lines are.
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

/** An expression that only their own index has: PostgreSQL would rather walk through all jobs by number. */
function byNumber(job: string): string {
  return `${job}.seq + 0`;
}

/** The number of the first in the line of a key: of those that could start, who became due first. */
function firstOf(d: Dialect, key: string): string {
  return `(select f.seq from ${d.table('job_queue')} f where ${isInLine('f')}
    and f.dependency_key = ${key} and ${isPluginOn(d, 'f')} and ${isPluginWell(d, 'f')}
    order by f.ready_at, f.seq limit 1)`;
}

/** Who waits until somebody acts must not hold up the others of its key until then. */
function isPluginOn(d: Dialect, job: string): string {
  return `not exists (select 1 from ${d.table('plugin_switches')} s
    where s.plugin_name = ${job}.plugin and s.enabled = 0)`;
}

/** One that is being set up keeps its place; where that went wrong, it may take for ever. */
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

/** What heads are made of, in words of a job that is named h. */
interface HeadWords {
  readonly columns: string;
  /** What else must hold of it. */
  readonly isFree: (d: Dialect) => string;
}

/** How many jobs of a plugin are looked at before those of all keys are: most have few, or many keys. */
const WALKED_MAX = 40;

/**
 * Reads, for rows of a plugin, of how many heads are wanted and whether suspects are, those of its
 * jobs that are the first in the line of a key of which nothing runs. Who cannot start yet because
 * its plugin has no place, or no host knows it any more, keeps its own: nobody goes before it.
 */
export function makeLineReader(
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

/** The plugins that have more in line than were looked at. */
const selectLonger = defineRows({
  columns: askedColumns,
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select k.plugin from ${d.table('job_queue')} k where k.plugin = ${r('plugin')}
      and ${isInLine('k')} order by ${byNumber('k')} limit 1 offset ${WALKED_MAX}`,
    )}`,
});

/** The same by the lines of all keys, for plugins whose oldest jobs wait for few of them. */
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

export async function readHolder(
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
