import type { Dialect, Migration } from '../dialect.ts';

/** The job states that are rare beside `succeeded`, so that an index of them costs little. */
export const RARE_STATUSES = `('failed', 'timed_out', 'dead', 'cancelled', 'skipped')`;

/**
 * The indexes of lists. Two are on the path of every job: one for the job and one for its attempt, each
 * written once when it ends. The other indexes of jobs and attempts have only rows in rare states.
 */
export const lists: Migration = {
  version: 14,
  name: 'lists',
  statements: (d) => [...jobs(d), ...attempts(d), ...signals(d), ...others(d)],
};

function jobs(d: Dialect): string[] {
  const table = d.table('job_queue');
  return [
    // With the status, so that jobs of one status are found without reading the others.
    `create index job_queue_ended on ${table} (plugin, command, submitted_by, seq, status)
      where completed_at is not null`,
    `create index job_queue_rare on ${table} (status, seq) where status in ${RARE_STATUSES}`,
    `create index job_queue_rare_of on ${table} (plugin, status, seq)
      where status in ${RARE_STATUSES}`,
    `create index job_queue_delayed_of on ${table} (plugin, seq)
      where status = 'queued' and next_retry_at is not null`,
  ];
}

function attempts(d: Dialect): string[] {
  const table = d.table('job_log');
  return [
    `create index job_log_plugin on ${table} (plugin, completed_at, id)`,
    `create index job_log_rare on ${table} (status, completed_at, id) where status <> 'succeeded'`,
  ];
}

/** A list can filter by subject without its type. */
function signals(d: Dialect): string[] {
  const table = d.table('signals');
  return [
    `drop index ${d.table('signals_subject')}`,
    `create index signals_subject on ${table} (subject_id, seq) where subject_id is not null`,
    `create index signals_source on ${table} (source, seq)`,
  ];
}

function others(d: Dialect): string[] {
  const deliveries = d.table('webhook_deliveries');
  return [
    `create index directives_actor on ${d.table('directives')} (actor, seq)`,
    `create index pipeline_runs_ended on ${d.table('pipeline_runs')} (status, seq)
      where completed_at is not null`,
    `create index webhook_deliveries_untaken on ${deliveries} (verdict, seq)
      where verdict <> 'accepted'`,
    `create index webhook_deliveries_skipped on ${deliveries} (seq)
      where verdict = 'accepted' and reason is not null`,
    `create index incidents_kind on ${d.table('incidents')} (kind, seq)`,
    `create index plugin_facts_type on ${d.table('plugin_facts')} (plugin_name, fact_type, seq)`,
    `create index circuit_breaker_transitions_plugin on ${d.table('circuit_breaker_transitions')}
      (plugin, created_at, id)`,
  ];
}
