import type { Dialect, Row, Session, Value } from './dialect.ts';
import type { BoundedCount } from '../job/types.ts';
import { int } from './row.ts';
import { WhereClause } from './where.ts';

export interface ListPage<T> {
  readonly rows: readonly T[];
  /** `beforeSeq` of the next page; undefined on the last page. Earlier pages may be short. */
  readonly next: number | undefined;
}

/**
 * A part of a list whose rows an index has in the order of their numbers. The streams of a list contain
 * each of its rows exactly once.
 */
export interface WalkStream {
  /** The name of its index; undefined for the table itself, which is ordered by number. */
  readonly index: string | undefined;
  /** The column before the number in the index, and its value. */
  readonly key?: readonly [column: string, value: Value];
  /** The other conditions that the index covers. */
  readonly where: WhereClause;
  /** The remaining conditions, which have to read each row. */
  readonly rest: WhereClause;
  /** The expression to order by (default: the number). */
  readonly by?: string;
}

export interface NumberRange {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Returns the range of numbers that is left for a page after a number. */
export function rangeAfter(
  { from, to }: NumberRange,
  before: number | undefined,
  order: WalkRequest['order'],
): NumberRange {
  if (before === undefined) return { from, to };
  return order === 'oldest'
    ? { from: Math.max(from ?? 0, before + 1), to }
    : { from, to: Math.min(to ?? before, before) };
}

export interface WalkRequest {
  readonly table: string;
  readonly streams: readonly WalkStream[];
  /** The columns that conditions on rows may name. */
  readonly columns: readonly string[];
  readonly order: 'newest' | 'oldest';
  readonly limit: number;
  /** The numbers of the list, from the first up to but not including the second. */
  readonly range: NumberRange;
  /** The maximum number of rows to visit. */
  readonly visitMax: number;
}

/** A list that can be read in several ways, the best way first. */
interface ListRequest<T> extends Omit<WalkRequest, 'streams'> {
  readonly ways: readonly (readonly WalkStream[])[];
  readonly map: (row: Row) => T;
  /** The columns to read (default: all). */
  readonly select?: string;
}

/** The numbers of a page in its order. */
interface WalkPage {
  readonly seqs: readonly number[];
  /** The next page starts after this number; undefined at the end of the list. */
  readonly next: number | undefined;
}

/** Reads a page in the first way that fills it, or else in the way that got furthest. */
export async function readWalk<T>(session: Session, list: ListRequest<T>): Promise<ListPage<T>> {
  const { ways, map, select = '*', ...request } = list;
  let best: WalkPage = { seqs: [], next: undefined };
  for (const [at, streams] of ways.entries()) {
    const page = await walkPage(session, { ...request, streams });
    if (at === 0 || isFurther(page, best, request.order)) best = page;
    if (page.seqs.length === request.limit || page.next === undefined) break;
  }
  const { seqs, next } = best;
  if (seqs.length === 0) return { rows: [], next };
  const found = await session.run(
    `select ${select} from ${request.table} where seq ${session.dialect.among(1, 'int')}`,
    [session.dialect.list(seqs)],
  );
  const bySeq = new Map(found.map((row) => [int(row, 'seq'), map(row)]));
  return { rows: seqs.flatMap((seq) => bySeq.get(seq) ?? []), next };
}

function isFurther(page: WalkPage, best: WalkPage, order: WalkRequest['order']): boolean {
  if (page.seqs.length > best.seqs.length || page.next === undefined) return true;
  if (best.next === undefined) return false;
  return order === 'oldest' ? page.next > best.next : page.next < best.next;
}

/**
 * Reads a page of a list and visits at most a fixed number of rows. After that many, the page is short,
 * and the next one continues where it stopped.
 */
async function walkPage(session: Session, request: WalkRequest): Promise<WalkPage> {
  const { streams, order, limit } = request;
  const visitMax = Math.max(limit, Math.ceil(request.visitMax / Math.max(1, streams.length)));
  const parts = await Promise.all(
    streams.map((stream) => walkStream(session, request, stream, visitMax)),
  );
  const isBefore = (a: number, b: number): boolean => (order === 'newest' ? a > b : a < b);
  // A stream that was cut may have more rows after its end, so no stream is read beyond it.
  const ends = parts.flatMap(({ next }) => next ?? []);
  const end = ends.reduce<number | undefined>(
    (first, one) => (first === undefined || isBefore(one, first) ? one : first),
    undefined,
  );
  const seqs = parts
    .flatMap((part) => part.seqs)
    .filter((seq) => end === undefined || !isBefore(end, seq))
    .toSorted((a, b) => (isBefore(a, b) ? -1 : 1))
    .slice(0, limit);
  return { seqs, next: seqs.length === limit ? seqs.at(-1) : end };
}

/** Counts the rows of a list and visits at most a fixed number of them. */
export async function countWalk(session: Session, request: WalkRequest): Promise<BoundedCount> {
  let left = request.visitMax;
  let count = 0;
  for (const stream of request.streams) {
    if (left === 0) return { count, isExact: false };
    const rows = selectRows(session.dialect, request, stream);
    const { rest } = stream;
    const [row = {}] = await session.run(
      `select count(*) as visited, count(case when ${rest.text} then 1 end) as n
        from (${rows.text} limit ?) w`,
      [...rest.values, ...rows.values, left],
    );
    count += int(row, 'n');
    left -= int(row, 'visited');
  }
  return { count, isExact: left > 0 };
}

async function walkStream(
  session: Session,
  request: WalkRequest,
  stream: WalkStream,
  visitMax: number,
): Promise<WalkPage> {
  const { limit } = request;
  const { rest } = stream;
  const rows = selectRows(session.dialect, request, stream);
  const found = await (rest.isEmpty
    ? session.run(`${rows.text} limit ?`, [...rows.values, limit])
    : // The rows keep the order of the inner query. Sorting them again would read all of them.
      session.run(`select w.seq from (${rows.text} limit ?) w where ${rest.text} limit ?`, [
        ...rows.values,
        visitMax,
        ...rest.values,
        limit,
      ]));
  const seqs = found.map((row) => int(row, 'seq'));
  if (seqs.length === limit) return { seqs, next: seqs.at(-1) };
  if (rest.isEmpty) return { seqs, next: undefined };
  const [cut] = await session.run(
    `select w.seq from (${rows.text} limit 1 offset ${visitMax - 1}) w`,
    rows.values,
  );
  return { seqs, next: cut === undefined ? undefined : int(cut, 'seq') };
}

/**
 * Selects the rows of a stream in their order. The statement names the index for SQLite. PostgreSQL
 * accepts no hints, and for a common value it would scan the whole table by number. So the value and the
 * number are compared as a pair, and only the index of both has that order.
 */
function selectRows(
  { name }: Dialect,
  { table, columns, order, range }: WalkRequest,
  { index, key, where, rest, by = 'seq' }: WalkStream,
): { readonly text: string; readonly values: readonly Value[] } {
  const direction = order === 'newest' ? 'desc' : 'asc';
  // Only the columns that the conditions need: the index alone may have them.
  const named = columns.filter((column) => new RegExp(`\\b${column}\\b`).test(rest.text));
  const more = named.map((column) => `, ${column}`).join('');
  const { from, to } = range;
  if (name === 'postgres' && key !== undefined) {
    const [column, value] = key;
    return {
      text: `select seq${more} from ${table} where ${where.text}
        and (${column}, seq) >= (?, ?) and (${column}, seq) < (?, ?)
        order by ${column} ${direction}, seq ${direction}`,
      values: [...where.values, value, from ?? 0, value, to ?? Number.MAX_SAFE_INTEGER],
    };
  }
  const bounds = new WhereClause();
  if (key !== undefined) bounds.and(`${key[0]} = ?`, key[1]);
  if (from !== undefined) bounds.and('seq >= ?', from);
  if (to !== undefined) bounds.and('seq < ?', to);
  const source = name === 'sqlite' && index !== undefined ? `${table} indexed by ${index}` : table;
  return {
    text: `select seq${more} from ${source} where ${where.text} and ${bounds.text}
      order by ${by} ${direction}`,
    values: [...where.values, ...bounds.values],
  };
}
