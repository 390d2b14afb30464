import type { Dialect, Migration } from '../dialect.ts';

/** The queue, its history, signals, the state of plugins, and the processes of the service. */
export const core: Migration = {
  version: 1,
  name: 'core',
  statements: (d) => [...queue(d), ...history(d), ...signals(d), ...memory(d), ...operation(d)],
};

function queue(d: Dialect): string[] {
  const { int, text, identity, transaction } = d.types;
  const jobs = d.table('job_queue');
  return [
    // The column of the transaction comes first, so that its number is assigned before the job's. So the
    // event feed knows which jobs may still be committed.
    `create table ${jobs} (
      tx ${transaction},
      seq ${identity},
      id ${text} not null unique,
      plugin ${text} not null,
      command ${text} not null,
      payload ${text} not null default '{}',
      status ${text} not null check (status in ('queued', 'running', 'succeeded', 'failed',
        'timed_out', 'dead', 'cancelled', 'skipped')),
      attempt ${int} not null default 1,
      max_attempts ${int} not null default 4,
      retry_count ${int} not null default 0,
      crash_count ${int} not null default 0,
      interrupt_count ${int} not null default 0,
      suspect ${int} not null default 0,
      submitted_by ${text} not null,
      actor ${text} not null,
      dedupe_key ${text},
      dedupe_ttl_ms ${int},
      created_at ${text} not null,
      ready_at ${text} not null,
      started_at ${text},
      completed_at ${text},
      next_retry_at ${text},
      last_error ${text},
      reason ${text},
      parent_job_id ${text},
      source_event_id ${text},
      root_job_id ${text} not null,
      retry_of ${text},
      idempotency_key ${text} not null,
      hops ${int} not null default 0,
      runtime_caused ${int} not null default 0,
      event_context_id ${text},
      claim_token ${text},
      claimed_by ${text},
      claim_expires_at ${text},
      cancel_requested_at ${text},
      check ((status = 'running') = (claim_token is not null)),
      check ((completed_at is not null) = (status not in ('queued', 'running')))
    )`,
    // The last column is always null here. With it, SQLite counts without reading the rows.
    `create index job_queue_ready on ${jobs} (plugin, seq, next_retry_at)
      where status = 'queued' and next_retry_at is null`,
    `create index job_queue_delayed on ${jobs} (next_retry_at)
      where status = 'queued' and next_retry_at is not null`,
    `create index job_queue_running on ${jobs} (plugin, claimed_by) where status = 'running'`,
    // Jobs with the same key and target never run at the same time, even if a claim misses one.
    `create unique index job_queue_exclusive on ${jobs} (dedupe_key, plugin, command)
      where status = 'running' and dedupe_key is not null`,
    `create index job_queue_completed on ${jobs} (completed_at) where completed_at is not null`,
    `create index job_queue_root on ${jobs} (root_job_id) where root_job_id <> id`,
    `create index job_queue_parent on ${jobs} (parent_job_id) where parent_job_id is not null`,
    `create index job_queue_cause on ${jobs} (source_event_id) where source_event_id is not null`,
    `create index job_queue_context on ${jobs} (event_context_id)
      where event_context_id is not null`,
    `create table ${d.table('job_dedupe')} (
      dedupe_key ${text} not null,
      plugin ${text} not null,
      command ${text} not null,
      job_id ${text} not null,
      blocks_until ${text},
      primary key (dedupe_key, plugin, command)
    )`,
    `create index job_dedupe_expiry on ${d.table('job_dedupe')} (blocks_until)
      where blocks_until is not null`,
  ];
}

function history(d: Dialect): string[] {
  const { int, text, identity, transaction } = d.types;
  return [
    `create table ${d.table('job_log')} (
      seq ${identity},
      id ${text} not null unique,
      job_id ${text} not null,
      plugin ${text} not null,
      command ${text} not null,
      status ${text} not null check (status in ('succeeded', 'failed', 'timed_out', 'crashed',
        'released', 'cancelled')),
      cause ${text} not null,
      result ${text},
      attempt ${int} not null,
      submitted_by ${text} not null,
      created_at ${text} not null,
      started_at ${text},
      completed_at ${text} not null,
      last_error ${text},
      stderr ${text},
      stderr_truncated ${int} not null default 0,
      exit_code ${int},
      signal ${text},
      pid ${int},
      queue_ms ${int},
      spawn_ms ${int},
      run_ms ${int},
      settle_ms ${int},
      process_id ${text},
      claim_token ${text},
      parent_job_id ${text},
      source_event_id ${text},
      tx ${transaction}
    )`,
    `create index job_log_completed on ${d.table('job_log')} (completed_at)`,
    ...order(d, 'job_log'),
  ];
}

/**
 * The index by which a reader follows the rows without missing one. With several writers, the order of
 * numbers isn't the order of commits, so each row has its transaction.
 */
function order(d: Dialect, table: 'job_log' | 'signals'): string[] {
  if (d.settledBelow === undefined) return [];
  return [`create index ${table}_order on ${d.table(table)} (tx, seq)`];
}

function signals(d: Dialect): string[] {
  const { int, text, identity, transaction } = d.types;
  const signal = d.table('signals');
  return [
    `create table ${signal} (
      seq ${identity},
      id ${text} not null unique,
      type ${text} not null,
      source ${text} not null,
      subject_type ${text},
      subject_id ${text},
      data ${text} not null,
      metadata ${text} not null default '{}',
      hops ${int} not null default 0,
      correlation_id ${text} not null,
      causation_id ${text},
      visibility ${text} not null default 'internal',
      occurred_at ${text} not null,
      inserted_at ${text} not null,
      dedupe_key ${text},
      source_event_id ${text},
      job_id ${text},
      job_attempt ${int},
      event_index ${int},
      tx ${transaction}
    )`,
    `create unique index signals_emitted on ${signal} (job_id, job_attempt, event_index)
      where job_id is not null`,
    `create unique index signals_dedupe on ${signal} (source, dedupe_key)
      where dedupe_key is not null`,
    `create unique index signals_provider on ${signal} (source, source_event_id)
      where source_event_id is not null`,
    `create index signals_cause on ${signal} (causation_id) where causation_id is not null`,
    `create index signals_subject on ${signal} (subject_type, subject_id)
      where subject_id is not null`,
    `create index signals_occurred on ${signal} (occurred_at)`,
    `create index signals_type on ${signal} (type, seq)`,
    `create index signals_correlation on ${signal} (correlation_id)`,
    `create index signals_inserted on ${signal} (inserted_at)`,
    ...order(d, 'signals'),
  ];
}

function memory(d: Dialect): string[] {
  const { int, text, identity } = d.types;
  return [
    `create table ${d.table('plugin_state')} (
      plugin_name ${text} primary key,
      state ${text} not null default '{}',
      updated_at ${text} not null
    )`,
    `create table ${d.table('plugin_facts')} (
      id ${identity},
      seq ${int} not null unique,
      plugin_name ${text} not null,
      fact_type ${text} not null,
      job_id ${text},
      command ${text},
      fact_json ${text} not null,
      created_at ${text} not null
    )`,
    `create index plugin_facts_plugin on ${d.table('plugin_facts')} (plugin_name, seq)`,
    `create index plugin_facts_created on ${d.table('plugin_facts')} (created_at)`,
    `create table ${d.table('storage_sequences')} (
      name ${text} primary key,
      value ${int} not null
    )`,
    `insert into ${d.table('storage_sequences')} (name, value) values ('plugin_facts', 0)`,
    `create table ${d.table('event_context')} (
      id ${text} primary key,
      parent_id ${text},
      pipeline_name ${text},
      step_id ${text},
      accumulated_json ${text} not null,
      created_at ${text} not null
    )`,
    `create index event_context_created on ${d.table('event_context')} (created_at)`,
  ];
}

function operation(d: Dialect): string[] {
  const { int, text } = d.types;
  return [
    `create table ${d.table('processes')} (
      id ${text} primary key,
      host ${text} not null,
      pid ${int} not null,
      version ${text} not null,
      slots ${int} not null,
      spawner ${text} not null,
      plugins ${text} not null,
      started_at ${text} not null,
      last_heartbeat_at ${text} not null
    )`,
    `create table ${d.table('ledger_meta')} (
      key ${text} primary key,
      value ${text} not null
    )`,
  ];
}
