import { limits } from '../base/limits.ts';
import { makeId } from '../base/ids.ts';
import type { BreakerState } from './breaker.ts';
import { defineRows, type Row, type Session } from '../ledger/dialect.ts';
import type { BreakerFilter, BreakerRow, TransitionRow } from './types.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { WhereClause } from '../ledger/where.ts';

export async function listBreakers(session: Session, filter: BreakerFilter): Promise<BreakerRow[]> {
  const where = new WhereClause().equals({ plugin: filter.plugin, command: filter.command });
  const rows = await session.run(
    `select * from ${session.dialect.table('circuit_breakers')} where ${where.text}
      order by plugin, command`,
    where.values,
  );
  return rows.map(toBreaker);
}

/** Lists changes of state, newest first. */
export async function listTransitions(
  session: Session,
  filter: BreakerFilter & { readonly limit: number },
): Promise<TransitionRow[]> {
  const { plugin, command, limit } = filter;
  // No index starts with the command. Without a plugin, only the latest transitions are searched.
  const isCommandOnly = plugin === undefined && command !== undefined;
  const where = new WhereClause().equals(isCommandOnly ? {} : { plugin, command });
  const latest = `select * from ${session.dialect.table('circuit_breaker_transitions')}
    where ${where.text} order by created_at desc, id desc limit ?`;
  const rows = await (isCommandOnly
    ? session.run(`select * from (${latest}) t where command = ? limit ?`, [
        limits.listVisitMax,
        command,
        limit,
      ])
    : session.run(latest, [...where.values, limit]));
  return rows.map(toTransition);
}

/** Counts the plugins that have a breaker that isn't closed. */
export async function countOpenBreakers(session: Session): Promise<number> {
  const [row] = await session.run(
    `select count(distinct plugin) as plugins from ${session.dialect.table('circuit_breakers')}
      where state <> 'closed'`,
  );
  return int(row ?? {}, 'plugins');
}

export interface BreakerKey {
  readonly plugin: string;
  readonly command: string;
}

export function toBreakerKey({ plugin, command }: BreakerKey): string {
  return `${plugin}/${command}`;
}

export function toBreakerKeyRow({ plugin, command }: BreakerKey): Row {
  return { plugin, command };
}

export const breakerKeyColumns = { plugin: 'text', command: 'text' } as const;

export const writeBreakerEnd = defineRows({
  columns: {
    ...breakerKeyColumns,
    state: 'text',
    failure_count: 'int',
    opened_at: 'text',
    last_failure_at: 'text',
    last_job_id: 'text',
  },
  sql: (r, d) => `update ${d.table('circuit_breakers')} set state = ${r('state')},
      failure_count = ${r('failure_count')}, opened_at = ${r('opened_at')},
      last_failure_at = ${r('last_failure_at')}, last_job_id = ${r('last_job_id')},
      updated_at = ${d.now} ${r.from}
    where circuit_breakers.plugin = ${r('plugin')} and circuit_breakers.command = ${r('command')}`,
});

export const insertTransition = defineRows({
  columns: {
    ...breakerKeyColumns,
    id: 'text',
    from_state: 'text',
    to_state: 'text',
    failure_count: 'int',
    reason: 'text',
    job_id: 'text',
  },
  sql: (r, d) => `insert into ${d.table('circuit_breaker_transitions')}
    (id, plugin, command, from_state, to_state, failure_count, reason, job_id, created_at)
    select ${r('id')}, ${r('plugin')}, ${r('command')}, ${r('from_state')}, ${r('to_state')},
      ${r('failure_count')}, ${r('reason')}, ${r('job_id')}, ${d.now} ${r.from}
    where true`,
});

interface TransitionDraft {
  readonly to: BreakerState;
  readonly reason: TransitionRow['reason'];
  readonly jobId: string | null;
}

export function toTransitionRow(from: BreakerRow, { to, reason, jobId }: TransitionDraft): Row {
  return {
    ...toBreakerKeyRow(from),
    id: makeId(),
    from_state: from.state,
    to_state: to,
    failure_count: from.failureCount,
    reason,
    job_id: jobId,
  };
}

export function toBreaker(row: Row): BreakerRow {
  return {
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    state: text(row, 'state') as BreakerState,
    failureCount: int(row, 'failure_count'),
    openedAt: textOrNull(row, 'opened_at'),
    lastFailureAt: textOrNull(row, 'last_failure_at'),
    lastJobId: textOrNull(row, 'last_job_id'),
    probeJobId: textOrNull(row, 'probe_job_id'),
    threshold: int(row, 'threshold'),
    resetAfterMs: int(row, 'reset_after_ms'),
    updatedAt: text(row, 'updated_at'),
  };
}

function toTransition(row: Row): TransitionRow {
  return {
    id: text(row, 'id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    fromState: textOrNull(row, 'from_state') as BreakerState | null,
    toState: text(row, 'to_state') as BreakerState,
    failureCount: int(row, 'failure_count'),
    reason: text(row, 'reason') as TransitionRow['reason'],
    jobId: textOrNull(row, 'job_id'),
    createdAt: text(row, 'created_at'),
  };
}
