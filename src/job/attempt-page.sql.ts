import { limits } from '../base/limits.ts';
import type { Session, Value } from '../ledger/dialect.ts';
import type { AttemptPage, AttemptPageFilter } from './attempt-types.ts';
import { listAttempts, narrowAttempts, readInOrder, withFound } from './attempt.sql.ts';
import { text } from '../ledger/row.ts';
import { Where } from '../ledger/where.ts';

/** The columns that a search looks through. */
const searched = ['last_error', 'stderr', 'result'];

/**
 * Reads a page of attempts. No index answers who submitted an attempt or what it said, so rows are
 * visited in their order, no more than a fixed number; then the page ends early and names the last of them.
 */
export async function readAttemptPage(
  session: Session,
  filter: AttemptPageFilter,
): Promise<AttemptPage> {
  const { command, submittedBy, query, correlationId, limit } = filter;
  const rest = new Where().equals({ command, submitted_by: submittedBy });
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
  // The rows of a chain are joined to the ids that were found. Others come in the order of the inner
  // list; sorted again, all of them would be read.
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

/** Output may be 10 MiB long; what is searched of it is not. */
function beginningOf(column: string): string {
  return `substr(w.${column}, 1, ${limits.searchCharsMax})`;
}
