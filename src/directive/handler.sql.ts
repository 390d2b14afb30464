import { defineRows, type Row, type Transaction } from '../ledger/dialect.ts';
import type { SignalDirective } from '../ledger/signal-directive.ts';

/**
 * Inserts directives that handlers of signals request: due at once, each key once. The insert of signals
 * calls it, so this file can't import `directive.sql.ts`, which inserts signals.
 */
export function insertSignalDirectives(
  tx: Transaction,
  requested: readonly SignalDirective[],
): void {
  tx.send(insert, requested.map(toRow));
}

const insert = defineRows({
  columns: {
    id: 'text',
    type: 'text',
    target: 'text',
    params: 'text',
    actor: 'text',
    actor_role: 'text',
    scope: 'text',
    correlation_id: 'text',
    causation_id: 'text',
    idempotency_key: 'text',
    plan: 'text',
    awaiting_approval: 'int',
    max_attempts: 'int',
    signal_id: 'text',
  },
  sql: (r, d) => `insert into ${d.table('directives')} (id, type, target, params, actor, actor_role,
      scope, correlation_id, causation_id, idempotency_key, status, plan, awaiting_approval, attempt,
      max_attempts, process_id, signal_id, requested_at, run_at)
    select ${r('id')}, ${r('type')}, ${r('target')}, ${r('params')}, ${r('actor')},
      ${r('actor_role')}, ${r('scope')}, ${r('correlation_id')}, ${r('causation_id')},
      ${r('idempotency_key')}, 'requested', ${r('plan')}, ${r('awaiting_approval')}, 0,
      ${r('max_attempts')}, '', ${r('signal_id')}, ${d.now}, ${d.now} ${r.from}
    where true on conflict (idempotency_key) do nothing`,
});

function toRow({ draft, forApproval }: SignalDirective): Row {
  return {
    id: draft.id,
    type: draft.type,
    target: draft.target,
    params: draft.params,
    actor: draft.actor,
    actor_role: draft.actorRole,
    scope: draft.scope,
    correlation_id: draft.correlationId,
    causation_id: draft.causationId,
    idempotency_key: typeof draft.sameness === 'string' ? draft.id : draft.sameness.key,
    plan: draft.plan,
    awaiting_approval: forApproval ? 1 : 0,
    max_attempts: draft.maxAttempts,
    signal_id: draft.signalId,
  };
}
