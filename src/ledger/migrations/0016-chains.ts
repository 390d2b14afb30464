import type { Dialect, Migration } from '../dialect.ts';

/**
 * The indexes of lists about one chain or one plugin. Those of signals include the number: without it,
 * PostgreSQL would sort a long chain for each page.
 */
export const chains: Migration = {
  version: 16,
  name: 'chains',
  statements: (d) => [...signals(d), ...attempts(d)],
};

function signals(d: Dialect): string[] {
  const table = d.table('signals');
  return [
    `drop index ${d.table('signals_correlation')}`,
    `create index signals_correlation on ${table} (correlation_id, seq)`,
    `drop index ${d.table('signals_cause')}`,
    `create index signals_cause on ${table} (causation_id, seq) where causation_id is not null`,
  ];
}

function attempts(d: Dialect): string[] {
  const table = d.table('job_log');
  return [
    `create index job_log_rare_of on ${table} (plugin, status, completed_at, id)
      where status <> 'succeeded'`,
  ];
}
