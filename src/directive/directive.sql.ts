import { hash } from 'node:crypto';
import { limits } from '../base/limits.ts';
import {
  automaticKey,
  isLatest,
  isSameRequest,
  type Directive,
  type DirectiveDraft,
  type DirectiveStatus,
} from './directive.ts';
import type { Dialect, Row, Session, Transaction, Value } from '../ledger/dialect.ts';
import type { Consequences, DirectiveInsert } from '../ledger/directive-work.ts';
import type {
  DirectiveInsertResult,
  DirectiveEnd,
  DirectiveFilter,
  DirectiveWait,
  DirectivePageFilter,
} from './types.ts';
import { enqueueJobs } from '../job/enqueue.sql.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { createRuns } from '../pipeline/run/start.sql.ts';
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
  const { dialect } = tx;
  const { now } = dialect;
  const [runAt, ...dueValues] = dueOf(dialect, wait);
  await tx.run(
    `insert into ${dialect.table('directives')} (id, type, target, params, asked_digest, actor, actor_role, scope,
      correlation_id, causation_id, idempotency_key, status, plan, result, error_kind,
      error_message, error_details, awaiting_approval, attempt, max_attempts, process_id, signal_id,
      requested_at, started_at, completed_at, run_at)
      values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${now},
        ${wait === undefined ? now : 'null'}, ${end === undefined ? 'null' : now},
        ${runAt})`,
    [
      draft.id,
      draft.type,
      draft.target,
      draft.params,
      draft.askedDigest ?? null,
      draft.actor,
      draft.actorRole,
      draft.scope,
      draft.correlationId,
      draft.causationId,
      key,
      end?.status ?? (wait === undefined ? 'running' : 'requested'),
      draft.plan,
      ...endValues(end),
      wait?.forApproval === true ? 1 : 0,
      wait === undefined ? 1 : 0,
      draft.maxAttempts,
      processId,
      draft.signalId,
      ...dueValues,
    ],
  );
}

/** Returns the earliest start as SQL with its value: null without a wait, now by default. */
function dueOf(dialect: Dialect, wait: DirectiveWait | undefined): [sql: string, ...Value[]] {
  if (wait === undefined) return ['null'];
  if (wait.due === undefined) return [dialect.now];
  return 'at' in wait.due ? ['?', wait.due.at] : [dialect.nowPlus('?'), wait.due.inMs];
}

export function endValues(end: DirectiveEnd | undefined): [Value, Value, Value, Value] {
  const result = end?.result === undefined ? null : JSON.stringify(end.result);
  if (end?.status !== 'failed') return [result, null, null, '{}'];
  return [result, end.code, end.error, JSON.stringify(end.details ?? {})];
}

/** Writes the signals, jobs and runs that follow from a moment of a directive. */
export async function follow(
  tx: Transaction,
  { signals, jobs, runs = [] }: Consequences,
): Promise<void> {
  await enqueueJobs(tx, { signals, jobs });
  await createRuns(tx, runs);
}

/** Selects executed directives, by the time of execution. Waiting ones haven't changed anything yet. */
function selectDone(session: Session, where: WhereClause, limit: number): Promise<Directive[]> {
  const order = 'coalesce(started_at, completed_at) desc, seq desc';
  return select(session, where.and(`status <> 'requested'`), limit, order);
}

async function select(
  session: Session,
  where: WhereClause,
  limit: number,
  order = 'seq desc',
): Promise<Directive[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('directives')} where ${where.text}
      order by ${order} limit ?`,
    [...where.values, limit],
  );
  return rows.map(toDirective);
}

export function toDirective(row: Row): Directive {
  return {
    seq: int(row, 'seq'),
    id: text(row, 'id'),
    type: text(row, 'type'),
    target: text(row, 'target'),
    params: text(row, 'params'),
    askedDigest: textOrNull(row, 'asked_digest'),
    actor: text(row, 'actor'),
    actorRole: textOrNull(row, 'actor_role'),
    scope: text(row, 'scope'),
    correlationId: text(row, 'correlation_id'),
    causationId: textOrNull(row, 'causation_id'),
    idempotencyKey: text(row, 'idempotency_key'),
    status: text(row, 'status') as DirectiveStatus,
    plan: text(row, 'plan'),
    result: textOrNull(row, 'result'),
    errorCode: textOrNull(row, 'error_kind'),
    error: textOrNull(row, 'error_message'),
    errorDetails: text(row, 'error_details'),
    awaitingApproval: int(row, 'awaiting_approval') !== 0,
    approvedBy: textOrNull(row, 'approved_by'),
    approvedAt: textOrNull(row, 'approved_at'),
    cancelledBy: textOrNull(row, 'cancelled_by'),
    runAt: textOrNull(row, 'run_at'),
    progress: textOrNull(row, 'progress'),
    attempt: int(row, 'attempt'),
    maxAttempts: int(row, 'max_attempts'),
    processId: text(row, 'process_id'),
    signalId: text(row, 'signal_id'),
    requestedAt: text(row, 'requested_at'),
    startedAt: textOrNull(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
  };
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
    map: toDirective,
  });
}
