import { AGENT_KEY, TARGET_KEY } from './agent-outcome.ts';
import type { Session } from '../ledger/dialect.ts';
import type { AgentJobRow, TargetRow } from './types.ts';
import { text, textOrNull } from '../ledger/row.ts';

export async function listAgentJobs(
  session: Session,
  signalIds: readonly string[],
): Promise<AgentJobRow[]> {
  if (signalIds.length === 0) return [];
  const rows = await session.run(
    `select id, command, status, last_error, idempotency_key, source_event_id
      from ${session.dialect.table('job_queue')}
      where source_event_id in (${signalIds.map(() => '?').join(', ')})
        and idempotency_key like ? order by seq`,
    [...signalIds, `%${AGENT_KEY}%`],
  );
  return rows.map((row) => ({
    id: text(row, 'id'),
    signalId: text(row, 'source_event_id'),
    command: text(row, 'command'),
    status: text(row, 'status') as AgentJobRow['status'],
    lastError: textOrNull(row, 'last_error'),
    idempotencyKey: text(row, 'idempotency_key'),
  }));
}

/** A retry and a revival have the key of what they repeat. */
export async function listTargets(
  session: Session,
  signalIds: readonly string[],
): Promise<TargetRow[]> {
  if (signalIds.length === 0) return [];
  const { dialect: d } = session;
  const among = `source_event_id in (${signalIds.map(() => '?').join(', ')})`;
  const values = [...signalIds, `%${TARGET_KEY}`];
  const rows = await session.run(
    `select 'job' as kind, id, source_event_id, status, created_at from ${d.table('job_queue')}
        where ${among} and idempotency_key like ?
      union all
      select 'run' as kind, id, source_event_id, status, created_at
        from ${d.table('pipeline_runs')}
        where ${among} and lineage like ?
      order by created_at, id`,
    [...values, ...values],
  );
  return rows.map((row) => ({
    id: text(row, 'id'),
    kind: text(row, 'kind') as TargetRow['kind'],
    signalId: text(row, 'source_event_id'),
    status: text(row, 'status') as TargetRow['status'],
  }));
}
