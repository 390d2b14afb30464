import { fromTimestamp } from '../base/clock.ts';
import { defineRows, together, type Row, type Transaction } from '../ledger/dialect.ts';
import type { ClaimedJob } from './types.ts';
import { text } from '../ledger/row.ts';
import { toJob } from './job-row.sql.ts';

/** What attempts need besides their own rows; many jobs share one text. */
export interface Companions {
  readonly states: ReadonlyMap<string, string>;
  readonly contexts: ReadonlyMap<string, string>;
}

export async function readCompanions(tx: Transaction, jobs: readonly Row[]): Promise<Companions> {
  const states = tx.each(selectStates, keysIn(jobs, 'plugin'));
  const contextKeys = keysIn(jobs, 'event_context_id');
  if (contextKeys.length === 0) return { states: toTexts(await states), contexts: new Map() };
  const [found, contexts] = await together(states, tx.each(selectContexts, contextKeys));
  return { states: toTexts(found), contexts: toTexts(contexts) };
}

export function toClaimed(row: Row, { states, contexts }: Companions): ClaimedJob {
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
