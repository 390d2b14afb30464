import type { Directive } from './directive.ts';
import type { Session, Transaction } from '../ledger/dialect.ts';
import type { DirectiveDecision, DirectiveStart } from '../ledger/directive-work.ts';
import {
  closeDirective,
  findDirective,
  follow,
  followersOf,
  lockDirectives,
  toDirective,
  type PerformWork,
} from './directive.sql.ts';

/**
 * Starts a directive that waited. SQL work is done and ended in the same commit; other work is left
 * running for this process.
 */
export async function startDirective(
  tx: Transaction,
  { directive, processId, work, begin, ends }: DirectiveStart,
  perform: PerformWork,
): Promise<Directive | undefined> {
  const { dialect } = tx;
  const { id, actor, attempt } = directive;
  await lockDirectives(tx);
  const begun = await tx.run(
    `update ${dialect.table('directives')} set status = 'running', process_id = ?,
      attempt = attempt + 1, started_at = ${dialect.now}
      where id = ? and status = 'requested' and awaiting_approval = 0 and attempt = ?
        and run_at <= ${dialect.now} returning id`,
    [processId, id, attempt],
  );
  if (begun.length === 0) return await recall(tx, directive, processId);
  await follow(tx, begin);
  if (work.kind !== 'process') {
    const end = await perform(tx, work, actor);
    await closeDirective(tx, { id, processId, end, ...followersOf(end, ends) });
  }
  return await findDirective(tx, id);
}

/**
 * A repeated statement after a lost response returns the directive that this process started then.
 */
async function recall(
  tx: Transaction,
  { id, attempt }: Directive,
  processId: string,
): Promise<Directive | undefined> {
  const now = tx.isRetry ? await findDirective(tx, id) : undefined;
  return now?.processId === processId && now.attempt === attempt + 1 ? now : undefined;
}

export async function approveDirective(
  tx: Transaction,
  { id, actor, ...follows }: DirectiveDecision,
): Promise<boolean> {
  const { dialect } = tx;
  const approved = await tx.run(
    `update ${dialect.table('directives')} set awaiting_approval = 0, approved_by = ?,
      approved_at = ${dialect.now}
      where id = ? and status = 'requested' and awaiting_approval = 1 returning id`,
    [actor, id],
  );
  if (approved.length > 0) await follow(tx, follows);
  return approved.length > 0;
}

export async function cancelDirective(
  tx: Transaction,
  { id, actor, ...follows }: DirectiveDecision,
): Promise<boolean> {
  const { dialect } = tx;
  const cancelled = await tx.run(
    `update ${dialect.table('directives')} set status = 'cancelled', cancelled_by = ?,
      completed_at = ${dialect.now} where id = ? and status = 'requested' returning id`,
    [actor, id],
  );
  if (cancelled.length > 0) await follow(tx, follows);
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

export async function listDueDirectives(
  session: Session,
  types: readonly string[],
  limit: number,
): Promise<Directive[]> {
  const { dialect } = session;
  const rows = await session.run(
    `select * from ${dialect.table('directives')}
      where status = 'requested' and awaiting_approval = 0 and run_at <= (select ${dialect.now})
        and type in (${types.map(() => '?').join(', ')})
      order by run_at, seq limit ?`,
    [...types, limit],
  );
  return rows.map(toDirective);
}
