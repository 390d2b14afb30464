import { limits } from '../base/limits.ts';
import { defineRows, type Dialect, type Row, type Session, type Value } from '../ledger/dialect.ts';
import { text } from '../ledger/row.ts';
import { WhereClause } from '../ledger/where.ts';
import { isAttemptOf } from './attempt.sql.ts';
import {
  attemptTable,
  type Attempt,
  type AttemptFilter,
  type AttemptPage,
  type AttemptPageFilter,
} from './attempt.ts';

export async function listAttempts(session: Session, filter: AttemptFilter): Promise<Attempt[]> {
  const { dialect: d } = session;
  const { correlationId } = filter;
  const { where, inOrder, source } = narrowAttempts(d, filter);
  const values = [...where.values, filter.limit];
  if (correlationId !== undefined) {
    const found = await session.run(
      `${withFound(d)} select id from found where ${where.text} ${inOrder} limit ?`,
      [correlationId, correlationId, ...values],
    );
    return await readInOrder(session, found);
  }
  const rows = await session.run(
    `select * from ${source} where ${where.text} ${inOrder} limit ?`,
    values,
  );
  return rows.map(attemptTable.decode);
}

interface NarrowedAttempts {
  /** The conditions that the index covers. */
  readonly where: WhereClause;
  readonly inOrder: string;
  /** The table, with an index hint if the database accepts hints. */
  readonly source: string;
}

/**
 * Translates a filter into conditions. SQLite prefers to sort a covering index, so the statement
 * names the right one. PostgreSQL accepts no hints and prefers to walk through the attempts of all
 * plugins by time. So the time is compared as a row together with the columns before it in the
 * index.
 */
function narrowAttempts(d: Dialect, filter: AttemptFilter): NarrowedAttempts {
  const { correlationId, jobId, plugin, status, since, from, to, after, before } = filter;
  const isChain = correlationId !== undefined;
  const where = new WhereClause().equals({ plugin, job_id: jobId });
  // As literals: the planner compares the text with the condition of the partial index.
  if (status === 'succeeded') where.and(`status = 'succeeded'`);
  else if (status !== undefined) where.and(`status = '${status}' and status <> 'succeeded'`);
  if (jobId !== undefined) {
    where.and(isAttemptOf(isChain ? 'found' : 'job_log', '?'), jobId, jobId);
  }
  if (filter.parentJobIds !== undefined) {
    const marks = filter.parentJobIds.map(() => '?').join(', ');
    where.and(`parent_job_id in (${marks})`, ...filter.parentJobIds);
  }
  const index = findAttemptIndex(filter);
  const compare = comparerOf(d, filter, index);
  if (since !== undefined) compare(where, '>=', since);
  if (from !== undefined) compare(where, '>=', from);
  if (to !== undefined) compare(where, '<', to);
  if (after !== undefined) {
    const { completedAt, logId } = after;
    compare(where, '>=', completedAt);
    where.and('(completed_at > ? or id > ?)', completedAt, logId);
  }
  if (before !== undefined) {
    const { completedAt, logId } = before;
    compare(where, '<=', completedAt);
    where.and('(completed_at < ? or id < ?)', completedAt, logId);
  }
  const isOldestFirst = before === undefined && (since ?? after) !== undefined;
  const order = isOldestFirst ? 'asc' : 'desc';
  const isHinted = d.name === 'sqlite' && index !== undefined;
  const table = d.table('job_log');
  return {
    where,
    inOrder: `order by completed_at ${order}, id ${order}`,
    source: isHinted ? `${table} indexed by ${index.name}` : table,
  };
}

interface AttemptIndex {
  readonly name: string;
  /** The columns before the time. */
  readonly columns: readonly ('plugin' | 'status')[];
}

/**
 * Finds the index that has the rows of a filter in the order of time. Undefined if ids select the
 * rows.
 */
function findAttemptIndex(filter: AttemptFilter): AttemptIndex | undefined {
  const { plugin, status, jobId, correlationId, parentJobIds } = filter;
  if ((jobId ?? correlationId ?? parentJobIds) !== undefined) return undefined;
  const isRare = status !== undefined && status !== 'succeeded';
  if (plugin !== undefined) {
    return isRare
      ? { name: 'job_log_rare_of', columns: ['plugin', 'status'] }
      : { name: 'job_log_plugin', columns: ['plugin'] };
  }
  if (isRare) return { name: 'job_log_rare', columns: ['status'] };
  return { name: 'job_log_completed', columns: [] };
}

/** Returns a function that adds a bound on the time of the end. */
function comparerOf(d: Dialect, filter: AttemptFilter, index: AttemptIndex | undefined) {
  const { jobId } = filter;
  const columns = d.name === 'postgres' ? (index?.columns ?? []) : [];
  const values = columns.map((column) => filter[column] ?? null);
  const marks = [...columns, 'completed_at'].map(() => '?').join(', ');
  // A job has few attempts: find them by their ids. The expression keeps the planner from using the
  // time.
  const ended = jobId === undefined ? 'completed_at' : "completed_at || ''";
  return (where: WhereClause, sign: '>=' | '<' | '<=', moment: string): void => {
    if (columns.length === 0) where.and(`${ended} ${sign} ?`, moment);
    else where.and(`(${columns.join(', ')}, completed_at) ${sign} (${marks})`, ...values, moment);
  };
}

/**
 * Reads each row by its id: with one ordered statement PostgreSQL would walk through all attempts
 * again.
 */
async function readInOrder(session: Session, found: readonly Row[]): Promise<Attempt[]> {
  if (found.length === 0) return [];
  const rows = await session.each(
    selectById,
    found.map((row) => ({ id: text(row, 'id') })),
  );
  const byId = new Map(rows.map((row) => [text(row, 'id'), row]));
  return found.flatMap((row) => {
    const whole = byId.get(text(row, 'id'));
    return whole === undefined ? [] : [attemptTable.decode(whole)];
  });
}

/**
 * Writes a table `found` of the attempts of a lineage, and of those that signals of this
 * correlation started. It is materialized first: PostgreSQL prefers to walk through all attempts by
 * time.
 */
function withFound(d: Dialect): string {
  const jobs = d.table('job_queue');
  // In this order the joins go from few named rows to their rows by index.
  return `with roots(id) as (
      select id from ${jobs} where id = ?
      union select j.root_job_id from ${d.table('signals')} s cross join ${jobs} j
        where s.correlation_id = ? and j.source_event_id = s.id
    ), chain(id) as (
      select id from roots union select j.id from roots r cross join ${jobs} j
        where j.root_job_id = r.id and j.root_job_id <> j.id
    ), found as materialized (
      select l.id, l.job_id, l.plugin, l.status, l.parent_job_id, l.completed_at
        from chain c cross join ${d.table('job_log')} l where ${isAttemptOf('l', 'c.id')})`;
}

const selectById = defineRows({
  columns: { id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(`select * from ${d.table('job_log')} l where l.id = ${r('id')}`)}`,
});

/** The columns in which a search looks. */
const searched = ['last_error', 'stderr', 'result'];

/**
 * Reads a page of attempts. No index covers the submitter or the text, so a bounded number of rows
 * is read in order. Then the page ends early with the position of the last row.
 */
export async function readAttemptPage(
  session: Session,
  filter: AttemptPageFilter,
): Promise<AttemptPage> {
  const { command, submittedBy, query, correlationId, limit } = filter;
  const rest = new WhereClause().equals({ command, submitted_by: submittedBy });
  if (query !== undefined) rest.containsAny(searched.map(beginningOf), query);
  if (rest.isEmpty) return { attempts: await listAttempts(session, filter), cut: undefined };
  const visitMax = limits.searchVisitMax;
  const { where, inOrder, source } = narrowAttempts(session.dialect, filter);
  const isChain = correlationId !== undefined;
  const head = isChain ? withFound(session.dialect) : '';
  const log = session.dialect.table('job_log');
  const values: Value[] = [...(isChain ? [correlationId, correlationId] : []), ...where.values];
  const rows = (columns: string): string =>
    `select ${columns} from ${isChain ? 'found' : source} where ${where.text} ${inOrder}`;
  // The rows of a chain are joined to the ids that were found. Other rows keep the order of the
  // inner list: sorting them again would read all of them.
  const columns = ['command', 'submitted_by', ...(query === undefined ? [] : searched)].join(', ');
  const visited = isChain
    ? `(${rows('id, completed_at')} limit ?) v cross join ${log} w where w.id = v.id and`
    : `(${rows(`id, ${columns}`)} limit ?) w where`;
  const sorted = isChain ? inOrder.replaceAll(/\b(?=completed_at|id)/g, 'v.') : '';
  const found = await session.run(
    `${head} select w.id from ${visited} ${rest.text} ${sorted} limit ?`,
    [...values, visitMax, ...rest.values, limit],
  );
  const attempts = await readInOrder(session, found);
  if (found.length === limit) return { attempts, cut: undefined };
  const [last] = await session.run(
    `${head} ${rows('id, completed_at')} limit 1 offset ${visitMax - 1}`,
    values,
  );
  const cut = last && { completedAt: text(last, 'completed_at'), logId: text(last, 'id') };
  return { attempts, cut };
}

/** Output can be 10 MiB long, so only its beginning is searched. */
function beginningOf(column: string): string {
  return `substr(w.${column}, 1, ${limits.searchCharsMax})`;
}
