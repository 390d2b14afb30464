import { directiveTable, type Directive } from './directive.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { readRows, textOrNull } from '../ledger/row.ts';
import type { Session, Transaction } from '../ledger/dialect.ts';
import type {
  DirectiveClosing,
  DirectiveDecision,
  DirectiveStart,
} from '../ledger/directive-work.ts';
import {
  consequencesOf,
  findDirective,
  follow,
  lockDirectives,
  toOutcome,
} from './directive.sql.ts';

/**
 * Starts a directive that waited. SQL work is done and ended in the same commit; other work is left
 * running for this process.
 */
export async function startDirective(
  tx: Transaction,
  { directive, processId, work, begin, ends }: DirectiveStart,
): Promise<Directive | undefined> {
  const { dialect } = tx;
  const { id, actor, attempt } = directive;
  await lockDirectives(tx);
  const started = await tx.run(
    `update ${dialect.table('directives')} set status = 'running', process_id = ?,
      attempt = attempt + 1, started_at = ${dialect.now}
      where id = ? and status = 'requested' and awaiting_approval = 0 and attempt = ?
        and run_at <= ${dialect.now} returning id`,
    [processId, id, attempt],
  );
  if (started.length === 0) return await findStarted(tx, directive, processId);
  await follow(tx, begin);
  if (work !== undefined) {
    const end = await work(tx, actor);
    await closeDirective(tx, { id, processId, end, ...consequencesOf(end, ends) });
  }
  return await findDirective(tx, id);
}

/** Finds the directive that this process started, if the transaction is repeated after a lost response. */
async function findStarted(
  tx: Transaction,
  { id, attempt }: Directive,
  processId: string,
): Promise<Directive | undefined> {
  const now = tx.isRetry ? await findDirective(tx, id) : undefined;
  return now?.processId === processId && now.attempt === attempt + 1 ? now : undefined;
}

/** Records the end of a directive, if the given process still executes it; false otherwise. */
export async function closeDirective(tx: Transaction, closing: DirectiveClosing): Promise<boolean> {
  const { id, processId, end } = closing;
  const { dialect } = tx;
  const { result, errorCode, error, errorDetails } = toOutcome(end);
  const closed = await tx.run(
    `update ${dialect.table('directives')} set status = ?, result = ?, error_kind = ?,
      error_message = ?, error_details = ?, completed_at = ${dialect.now}
      where id = ? and status = 'running' and process_id = ? returning id`,
    [end.status, result, errorCode, error, errorDetails, id, processId],
  );
  if (closed.length > 0) await follow(tx, closing);
  return closed.length > 0;
}

export async function approveDirective(
  tx: Transaction,
  { id, actor, ...consequences }: DirectiveDecision,
): Promise<boolean> {
  const { dialect } = tx;
  const approved = await tx.run(
    `update ${dialect.table('directives')} set awaiting_approval = 0, approved_by = ?,
      approved_at = ${dialect.now}
      where id = ? and status = 'requested' and awaiting_approval = 1 returning id`,
    [actor, id],
  );
  if (approved.length > 0) await follow(tx, consequences);
  return approved.length > 0;
}

export async function cancelDirective(
  tx: Transaction,
  { id, actor, ...consequences }: DirectiveDecision,
): Promise<boolean> {
  const { dialect } = tx;
  const cancelled = await tx.run(
    `update ${dialect.table('directives')} set status = 'cancelled', cancelled_by = ?,
      completed_at = ${dialect.now} where id = ? and status = 'requested' returning id`,
    [actor, id],
  );
  if (cancelled.length > 0) await follow(tx, consequences);
  return cancelled.length > 0;
}

/**
 * Releases a directive, so that another process starts it again. `unspent`: the process stopped
 * regularly, so it doesn't count as an attempt.
 */
export async function releaseDirective(
  tx: Transaction,
  { id, processId }: Pick<Directive, 'id' | 'processId'>,
  charge: 'spent' | 'unspent' = 'spent',
): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('directives')} set status = 'requested', started_at = null,
      attempt = attempt - ${charge === 'spent' ? 0 : 1}, run_at = coalesce(run_at, ${dialect.now})
      where id = ? and status = 'running' and process_id = ?`,
    [id, processId],
  );
}

/** Lists directives that can start now: approved, and past their earliest start. */
export async function listDueDirectives(
  session: Session,
  types: readonly string[],
  limit: number,
): Promise<Directive[]> {
  const { dialect } = session;
  return await readRows(
    session,
    directiveTable,
    `where status = 'requested' and awaiting_approval = 0 and run_at <= (select ${dialect.now})
        and type in (${types.map(() => '?').join(', ')})
      order by run_at, seq limit ?`,
    [...types, limit],
  );
}

/**
 * Lists directives of processes without a heartbeat. A process that the ledger doesn't know, such
 * as a command without a service, never beats and gets more time. With `staleMs` 0 no other process
 * lives, so it gets none.
 */
export async function listAbandoned(
  session: Session,
  self: string,
  staleMs: number,
): Promise<Directive[]> {
  const { dialect } = session;
  const directiveOrphanMs = staleMs === 0 ? 0 : Math.max(staleMs, limits.directiveOrphanMs);
  const rows = await session.run(
    `select d.* from ${dialect.table('directives')} d
      left join ${dialect.table('processes')} p on p.id = d.process_id
      where d.completed_at is null and d.status = 'running' and d.process_id <> ?
        and (p.last_heartbeat_at <= (select ${dialect.nowPlus('?')})
          or p.id is null and d.started_at <= (select ${dialect.nowPlus('?')}))
      order by d.seq`,
    [self, -staleMs, -directiveOrphanMs],
  );
  return rows.map(directiveTable.decode);
}

/** A directive and the process that executes it. */
export interface ProgressOwner {
  readonly directiveId: string;
  readonly processId: string;
}

/** Locks and reads the progress: null at the start, undefined if another process executes it. */
export async function lockProgress<T>(
  tx: Transaction,
  { directiveId, processId }: ProgressOwner,
): Promise<T | null | undefined> {
  const [row] = await tx.run(
    `select progress from ${tx.dialect.table('directives')}
      where id = ? and status = 'running' and process_id = ? ${tx.dialect.forUpdate}`,
    [directiveId, processId],
  );
  if (row === undefined) return undefined;
  const progress = textOrNull(row, 'progress');
  return progress === null ? null : (parseJson(progress) as T);
}

/**
 * Records the progress in the transaction of the step. It resets the attempts: a directive only fails
 * if its process dies several times at the same step.
 */
export async function writeProgress(
  tx: Transaction,
  { directiveId }: Pick<ProgressOwner, 'directiveId'>,
  progress: object,
): Promise<void> {
  await tx.run(
    `update ${tx.dialect.table('directives')} set progress = ?,
      max_attempts = attempt + ${limits.directiveAttemptsMax - 1} where id = ?`,
    [JSON.stringify(progress), directiveId],
  );
}
