import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import {
  defineRows,
  awaitBoth,
  type Row,
  type Transaction,
  cacheStatement,
  type Dialect,
} from '../ledger/dialect.ts';
import { text, int } from '../ledger/row.ts';
import { hasKeyedJob } from './dependency.sql.ts';
import { toJob } from './job.sql.ts';
import type { ClaimedJob } from './types.ts';

/** The plugin states and baggage that claimed jobs need. Many jobs share one text. */
export interface ClaimContext {
  readonly states: ReadonlyMap<string, string>;
  readonly contexts: ReadonlyMap<string, string>;
}

export async function readClaimContext(
  tx: Transaction,
  jobs: readonly Row[],
): Promise<ClaimContext> {
  const states = tx.each(selectStates, keysIn(jobs, 'plugin'));
  const contextKeys = keysIn(jobs, 'event_context_id');
  if (contextKeys.length === 0) return { states: toTexts(await states), contexts: new Map() };
  const [found, contexts] = await awaitBoth(states, tx.each(selectContexts, contextKeys));
  return { states: toTexts(found), contexts: toTexts(contexts) };
}

export function toClaimedJob(row: Row, { states, contexts }: ClaimContext): ClaimedJob {
  const job = toJob(row);
  const startedAt = text(row, 'started_at');
  return {
    ...job,
    claimToken: text(row, 'claim_token'),
    startedAt,
    state: states.get(job.plugin) ?? '{}',
    context: contexts.get(job.eventContextId ?? '') ?? '{}',
    queueMs: Math.max(0, fromTimestamp(startedAt) - fromTimestamp(job.readyAt)),
  };
}

function keysIn(jobs: readonly Row[], column: string): Row[] {
  const keys = new Set(jobs.map((row) => row[column] ?? null));
  keys.delete(null);
  return [...keys].map((key) => ({ key }));
}

function toTexts(rows: readonly Row[]): Map<string, string> {
  return new Map(rows.map((row) => [text(row, 'key'), text(row, 'value')]));
}

const selectStates = defineRows({
  columns: { key: 'text' },
  sql: (r, d) =>
    `select q.key, q.value from ${r.lateral(
      `select s.plugin_name as key, s.state as value from ${d.table('plugin_state')} s
      where s.plugin_name = ${r('key')}`,
    )}`,
});

const selectContexts = defineRows({
  columns: { key: 'text' },
  sql: (r, d) =>
    `select q.key, q.value from ${r.lateral(
      `select c.id as key, c.accumulated_json as value from ${d.table('event_context')} c
      where c.id = ${r('key')}`,
    )}`,
});

/** The running jobs and the switches that limit a claim. */
export interface RunningCounts {
  readonly byPlugin: ReadonlyMap<string, number>;
  /** Plugins whose jobs wait until an operator enables them again. */
  readonly disabled: ReadonlySet<string>;
  /** The number of suspects that this process runs. */
  readonly suspects: number;
  /** True if any ready job has a dependency key. */
  readonly hasKeyedJob: boolean;
  /** By the database's clock. */
  readonly now: Timestamp;
}

/** Counts the running jobs. Undefined if nothing can be claimed. */
export async function countRunning(
  tx: Transaction,
  processId: string,
): Promise<RunningCounts | undefined> {
  const rows = await tx.run(selectCounts(tx.dialect), [processId, processId]);
  const [first] = rows;
  if (first === undefined) return undefined;
  const named = rows.filter((row) => row['plugin'] !== null);
  const counted = named.filter((row) => row['disabled'] === 0);
  const disabled = named.filter((row) => row['disabled'] === 1);
  return {
    disabled: new Set(disabled.map((row) => text(row, 'plugin'))),
    byPlugin: new Map(counted.map((row) => [text(row, 'plugin'), int(row, 'running')])),
    suspects: counted.reduce((sum, row) => sum + int(row, 'suspects'), 0),
    hasKeyedJob: int(first, 'has_keyed') === 1,
    now: text(first, 'now'),
  };
}

/**
 * Reads the pause and the disabled plugins inside the claim's transaction, after its lock. Writers
 * of both take the same lock, so a claim can't miss a pause that was confirmed to an operator.
 */
const selectCounts = cacheStatement(
  (d) => `select counted.plugin, counted.running, counted.suspects, counted.disabled,
      ${d.now} as now, case when ${hasKeyedJob(d)} then 1 else 0 end as has_keyed
    from ${d.table('processes')} p left join (
      select plugin, count(*) as running,
        sum(case when suspect = 1 and claimed_by = ? then 1 else 0 end) as suspects, 0 as disabled
        from ${d.table('job_queue')} where status = 'running' group by plugin
      union all
      select plugin_name, 0, 0, 1 from ${d.table('plugin_switches')} where enabled = 0
    ) counted on true where p.id = ? and ${isNotPaused(d)}`,
);

function isNotPaused({ pausedBy }: Dialect): string {
  const isPaused = (table: string): string =>
    `exists (select 1 from ${table} where key = 'paused' and value = '1')`;
  return pausedBy.map((table) => `not ${isPaused(table)}`).join(' and ');
}
