import { hash } from 'node:crypto';
import { limits } from '../base/limits.ts';
import {
  automaticKey,
  directiveTable,
  isLatest,
  isSameRequest,
  type Directive,
  type DirectiveDraft,
} from './directive.ts';
import type { Dialect, Session, Transaction } from '../ledger/dialect.ts';
import { insertRow, type SqlExpression } from '../ledger/insert.ts';
import type { Consequences, DirectiveInsert } from '../ledger/directive-work.ts';
import type {
  DirectiveInsertResult,
  DirectiveEnd,
  DirectiveFilter,
  DirectiveWait,
  DirectivePageFilter,
} from './types.ts';
import { enqueueJobs } from '../job/enqueue.sql.ts';
import { readRows, text } from '../ledger/row.ts';
import { createRuns } from '../pipeline/run/advance.sql.ts';
import { WhereClause } from '../ledger/where.ts';
import { rangeAfter, readWalk, type ListPage, type WalkStream } from '../ledger/walk.ts';

/**
 * Requests a directive. SQL work is done here, too, so that the request, the change, the end and
 * its signal are one commit. Other work is left running for this process.
 */
export async function insertDirective(
  tx: Transaction,
  request: DirectiveInsert,
): Promise<DirectiveInsertResult> {
  const { draft, work } = request;
  const epoch = await lockDirectives(tx);
  // After a lost response the transaction is repeated. Find its directive by the id, because the key of
  // the same request may be different by now.
  const recorded = await findDirective(tx, draft.id);
  if (recorded !== undefined) return { directive: recorded, verdict: 'recorded' };
  const key = await createKey(tx, request, epoch);
  const [earlier] = await select(tx, new WhereClause().equals({ idempotency_key: key }), 1);
  if (earlier !== undefined) return compare(earlier, draft);
  if (request.begin !== undefined) await follow(tx, request.begin);
  const end = request.wait === undefined ? await work?.(tx, draft.actor) : undefined;
  await insert(tx, request, key, end);
  if (end !== undefined) await follow(tx, consequencesOf(end, request.ends));
  const [directive] = await select(tx, new WhereClause().equals({ id: draft.id }), 1);
  if (directive === undefined) throw new Error('a directive was not recorded');
  return { directive, verdict: 'recorded' };
}

/** Returns what follows from the actual end of a directive. */
export function consequencesOf(end: DirectiveEnd, ends: DirectiveInsert['ends']): Consequences {
  return end.status === 'failed' ? ends.failed(end) : ends.completed;
}

export async function findDirective(session: Session, id: string): Promise<Directive | undefined> {
  const [found] = await select(session, new WhereClause().equals({ id }), 1);
  return found;
}

export async function listDirectives(
  session: Session,
  filter: DirectiveFilter,
): Promise<Directive[]> {
  const { type, actor, target, idempotencyKey, awaitingApproval, status } = filter;
  const { idPrefix, beforeSeq, isDone, limit } = filter;
  const where = new WhereClause().equals({ type, actor, target, idempotency_key: idempotencyKey });
  if (status !== undefined) {
    where.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
  }
  if (awaitingApproval !== undefined) {
    const waits = `status = 'requested' and awaiting_approval = 1`;
    where.and(awaitingApproval ? waits : `not (${waits})`);
  }
  if (idPrefix !== undefined) where.and('id >= ? and id < ?', idPrefix, `${idPrefix}~`);
  if (beforeSeq !== undefined) where.and('seq < ?', beforeSeq);
  return isDone === true ? selectDone(session, where, limit) : select(session, where, limit);
}

/**
 * Serializes directives over all hosts, so that the generation doesn't change before it is written.
 */
export async function lockDirectives(tx: Transaction): Promise<string> {
  const [row] = await tx.run(
    `select value from ${tx.dialect.table('ledger_meta')} where key = 'epoch'
      ${tx.dialect.forUpdate}`,
  );
  return text(row ?? {}, 'value');
}

/**
 * Creates the key of a request. The generation of a toggle is the last directive with another intent
 * for the target, or that failed. A restored ledger starts with new generations, because its state
 * may differ. A deferred request only equals a request for the same time.
 */
async function createKey(
  tx: Transaction,
  { draft, wait: { due } = { forApproval: false } }: DirectiveInsert,
  epoch: string,
): Promise<string> {
  const { id, type, target, params, sameness } = draft;
  if (typeof sameness === 'object') return sameness.key;
  if (sameness === 'each' || (due !== undefined && 'inMs' in due)) {
    return automaticKey(type, target, id);
  }
  const done = new WhereClause().equals({ target });
  if (sameness === 'toggle') done.and(`(type <> ? or status in ('failed', 'cancelled'))`, type);
  const [last] = await selectDone(tx, done, 1);
  const isNow = due === undefined;
  const isRepeated = sameness === 'latest' && last !== undefined && isLatest(last, draft);
  if (isNow && isRepeated) return last.idempotencyKey;
  const about = sameness === 'latest' ? hash('sha256', params) : [];
  const generation = [epoch, last?.id ?? [], about, due?.at ?? []].flat().join(':');
  return automaticKey(type, target, generation);
}

function compare(earlier: Directive, draft: DirectiveDraft): DirectiveInsertResult {
  const isKeyed = typeof draft.sameness === 'object';
  const isSame = isKeyed
    ? isSameRequest(earlier, draft)
    : earlier.type === draft.type && earlier.params === draft.params;
  return { directive: earlier, verdict: isSame ? 'repeated' : 'mismatch' };
}

async function insert(
  tx: Transaction,
  { draft, processId, wait }: DirectiveInsert,
  key: string,
  end: DirectiveEnd | undefined,
): Promise<void> {
  const now = { sql: tx.dialect.now };
  await insertRow(tx, directiveTable, {
    ...draft,
    ...toOutcome(end),
    idempotencyKey: key,
    status: end?.status ?? (wait === undefined ? 'running' : 'requested'),
    awaitingApproval: wait?.forApproval === true,
    attempt: wait === undefined ? 1 : 0,
    processId,
    requestedAt: now,
    startedAt: wait === undefined ? now : null,
    completedAt: end === undefined ? null : now,
    runAt: dueOf(tx.dialect, wait),
  });
}

/** Returns the earliest start: null without a wait, now by default. */
function dueOf(d: Dialect, wait: DirectiveWait | undefined): SqlExpression | string | null {
  if (wait === undefined) return null;
  if (wait.due === undefined) return { sql: d.now };
  return 'at' in wait.due ? wait.due.at : { sql: d.nowPlus('?'), values: [wait.due.inMs] };
}

export function toOutcome(
  end: DirectiveEnd | undefined,
): Pick<Directive, 'result' | 'errorCode' | 'error' | 'errorDetails'> {
  const result = end?.result === undefined ? null : JSON.stringify(end.result);
  if (end?.status !== 'failed') return { result, errorCode: null, error: null, errorDetails: '{}' };
  const errorDetails = JSON.stringify(end.details ?? {});
  return { result, errorCode: end.code, error: end.error, errorDetails };
}

/** Writes the signals, jobs and runs that follow from a moment of a directive. */
export async function follow(
  tx: Transaction,
  { signals, jobs, runs = [] }: Consequences,
): Promise<void> {
  await enqueueJobs(tx, { signals, jobs });
  if (runs.length > 0) await createRuns(tx, runs);
}

/** Selects executed directives, by the time of execution. Waiting ones haven't changed anything yet. */
function selectDone(session: Session, where: WhereClause, limit: number): Promise<Directive[]> {
  const order = 'coalesce(started_at, completed_at) desc, seq desc';
  return select(session, where.and(`status <> 'requested'`), limit, order);
}

function select(
  session: Session,
  where: WhereClause,
  limit: number,
  order = 'seq desc',
): Promise<Directive[]> {
  const rest = `where ${where.text} order by ${order} limit ?`;
  return readRows(session, directiveTable, rest, [...where.values, limit]);
}

/** Reads a page along the index that fits the filter best. */
export async function readDirectivePage(
  session: Session,
  filter: DirectivePageFilter,
): Promise<ListPage<Directive>> {
  const { status, awaitingApproval, beforeSeq } = filter;
  const equal = { target: filter.target, type: filter.type, actor: filter.actor };
  /** The conditions that a walk along an index must still check. */
  const restOf = (known: keyof typeof equal | 'status' | undefined): WhereClause => {
    const rest = new WhereClause().equals({
      ...equal,
      ...(known === undefined ? {} : { [known]: undefined }),
    });
    if (status !== undefined && known !== 'status') {
      rest.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
    }
    const waits = `(status = 'requested' and awaiting_approval = 1)`;
    if (awaitingApproval !== undefined) rest.and(awaitingApproval ? waits : `not ${waits}`);
    return rest;
  };
  const ways: WalkStream[][] = (['target', 'type', 'actor'] as const)
    .filter((column) => equal[column] !== undefined)
    .map((column) => [
      {
        index: `directives_${column}`,
        key: [column, equal[column] ?? null],
        where: new WhereClause(),
        rest: restOf(column),
      },
    ]);
  const states = awaitingApproval === true ? (['requested'] as const) : status;
  if (states !== undefined) {
    const isKnown = awaitingApproval !== true;
    ways.push(
      states.map((state) => ({
        index: 'directives_status',
        key: ['status', state],
        where: new WhereClause(),
        rest: restOf(isKnown ? 'status' : undefined),
      })),
    );
  }
  if (ways.length === 0)
    ways.push([{ index: undefined, where: new WhereClause(), rest: restOf(undefined) }]);
  return readWalk(session, {
    table: session.dialect.table('directives'),
    columns: ['target', 'type', 'actor', 'status', 'awaiting_approval'],
    ways,
    order: 'newest',
    range: rangeAfter({}, beforeSeq, 'newest'),
    limit: filter.limit,
    visitMax: filter.visitMax ?? limits.listVisitMax,
    map: directiveTable.decode,
  });
}
