import type { Dialect, Migration } from '../dialect.ts';

/** Runs of pipelines, and the columns of their jobs. */
export const runs: Migration = {
  version: 5,
  name: 'runs',
  statements: (d) => [
    ...definitions(d),
    ...run(d),
    ...branches(d),
    ...advancements(d),
    ...steps(d),
    ...jobs(d),
  ],
};

function definitions(d: Dialect): string[] {
  const { text } = d.types;
  const table = d.table('pipeline_definitions');
  return [
    `create table ${table} (
      hash ${text} primary key,
      name ${text} not null,
      graph ${text} not null,
      created_at ${text} not null,
      last_used_at ${text} not null
    )`,
    `create index pipeline_definitions_used on ${table} (last_used_at)`,
  ];
}

function run(d: Dialect): string[] {
  const { int, text, identity } = d.types;
  const table = d.table('pipeline_runs');
  return [
    `create table ${table} (
      seq ${identity},
      id ${text} not null unique,
      pipeline ${text} not null,
      definition_hash ${text} not null,
      status ${text} not null check (status in ('queued', 'running', 'succeeded', 'halted',
        'cancelled')),
      payload ${text} not null,
      output ${text},
      halt_reason ${text},
      halt_message ${text},
      halted_at_step ${text},
      submitted_by ${text} not null,
      actor ${text} not null,
      source_event_id ${text},
      parent_job_id ${text},
      first_job_id ${text} not null,
      root_job_id ${text} not null,
      lineage ${text} not null,
      hops ${int} not null default 0,
      runtime_caused ${int} not null default 0,
      event_context_id ${text},
      concurrency_key ${text},
      concurrency_limit ${int},
      revived_from ${text},
      awaited_by ${text},
      end_tx ${int},
      due_at ${text},
      dedupe_key ${text},
      dedupe_ttl_ms ${int},
      held_key ${text},
      held_until ${text},
      created_at ${text} not null,
      started_at ${text},
      completed_at ${text},
      check ((completed_at is not null) = (status not in ('queued', 'running'))),
      check ((status = 'halted') = (halt_reason is not null)),
      check (due_at is null or status = 'queued'),
      check (held_key is null or (status in ('queued', 'running') and held_until is null)
        or (status = 'succeeded' and held_until is not null))
    )`,
    `create unique index pipeline_runs_revived on ${table} (revived_from)
      where revived_from is not null`,
    `create index pipeline_runs_pipeline on ${table} (pipeline, seq)`,
    `create index pipeline_runs_root on ${table} (root_job_id)`,
    `create index pipeline_runs_definition on ${table} (definition_hash)`,
    `create index pipeline_runs_cause on ${table} (source_event_id)
      where source_event_id is not null`,
    `create index pipeline_runs_context on ${table} (event_context_id)
      where event_context_id is not null`,
    `create index pipeline_runs_open on ${table} (status, seq) where completed_at is null`,
    // A run with a later due time doesn't wait for its key yet.
    `create index pipeline_runs_keyed on ${table} (concurrency_key, status, seq)
      where concurrency_key is not null and completed_at is null and due_at is null`,
    `create index pipeline_runs_due on ${table} (due_at) where due_at is not null`,
    // Only one run at a time has a dedupe key of its pipeline, on all hosts.
    `create unique index pipeline_runs_held on ${table} (held_key, pipeline)
      where held_key is not null`,
    `create index pipeline_runs_completed on ${table} (completed_at)
      where completed_at is not null`,
    // A reader follows the ends by their transaction or, with one writer, by a counter.
    `create index pipeline_runs_ends on ${table} (end_tx, seq) where end_tx is not null`,
  ];
}

function branches(d: Dialect): string[] {
  const { int, text } = d.types;
  const table = d.table('run_branches');
  return [
    // The id of a branch starts with its parent's, and a root branch has the id of its run. So one index
    // finds the branches of a run or block in their order, and no branch can start twice.
    `create table ${table} (
      id ${text} primary key,
      run_id ${text} not null,
      parent_id ${text},
      parent_moves ${int},
      idx ${int} not null default 0,
      label ${text},
      path ${text} not null,
      node ${text} not null,
      stop ${text},
      status ${text} not null check (status in ('running', 'waiting', 'advancing', 'succeeded',
        'halted', 'cancelled')),
      payload ${text} not null,
      payload_ref ${text},
      is_whole ${int} not null default 0,
      event_context_id ${text},
      job_id ${text},
      moves ${int} not null default 0,
      block ${text},
      width ${int} not null default 0,
      cursor ${int} not null default 0,
      pending ${int} not null default 0,
      halted ${int} not null default 0,
      concurrency ${int},
      output ${text},
      outcome ${text},
      due_at ${text},
      deadline_at ${text},
      waits_for ${text},
      wake_from ${int},
      claim_token ${text},
      claimed_by ${text},
      tries ${int} not null default 0,
      crashes ${int} not null default 0,
      halt_reason ${text},
      halt_message ${text},
      last_step_id ${text},
      created_at ${text} not null,
      completed_at ${text},
      check ((completed_at is not null) = (status in ('succeeded', 'halted', 'cancelled'))),
      check (completed_at is null or (due_at is null and waits_for is null and claim_token is null))
    )`,
    // For a claimed branch, the time after which its claim counts as lost.
    `create index run_branches_due on ${table} (due_at) where due_at is not null`,
    `create index run_branches_claimed on ${table} (claimed_by) where claim_token is not null`,
    `create index run_branches_signal on ${table} (waits_for) where waits_for is not null`,
    // Large payloads have their own table while their branch only counts others: SQLite writes whole rows.
    `create table ${d.table('run_payloads')} (
      id ${text} primary key,
      run_id ${text} not null,
      payload ${text} not null
    )`,
    `create index run_payloads_run on ${d.table('run_payloads')} (run_id)`,
  ];
}

function advancements(d: Dialect): string[] {
  const { int, text } = d.types;
  return [
    `create table ${d.table('run_advancements')} (
      id ${text} primary key,
      run_id ${text} not null,
      branch_id ${text} not null,
      node ${text} not null,
      process_id ${text} not null,
      started_at ${text} not null,
      completed_at ${text},
      error ${text},
      crashed ${int} not null default 0
    )`,
    `create index run_advancements_run on ${d.table('run_advancements')} (run_id, id)`,
    `create index run_advancements_open on ${d.table('run_advancements')} (branch_id)
      where completed_at is null`,
  ];
}

function steps(d: Dialect): string[] {
  const { text } = d.types;
  return [
    `create table ${d.table('run_steps')} (
      run_id ${text} not null,
      id ${text} not null,
      branch_id ${text} not null,
      node ${text} not null,
      kind ${text} not null,
      status ${text} not null check (status in ('waiting', 'succeeded', 'failed', 'skipped',
        'cancelled')),
      job_id ${text},
      output ${text},
      error ${text},
      note ${text},
      next_node ${text},
      source_step_id ${text},
      started_at ${text} not null,
      due_at ${text},
      completed_at ${text},
      primary key (run_id, id)
    )`,
    `create index run_steps_waiting on ${d.table('run_steps')} (run_id, branch_id)
      where status = 'waiting'`,
    `create view ${d.table('run_transitions')} as
      select run_id, branch_id, id as step_id, node as from_node, next_node as to_node,
        completed_at as created_at
      from ${d.table('run_steps')} where completed_at is not null`,
  ];
}

function jobs(d: Dialect): string[] {
  const { int, text } = d.types;
  const table = d.table('job_queue');
  return [
    ...['run_id', 'branch_id', 'step_id', 'base_key', 'awaited_by'].map(
      (column) => `alter table ${table} add column ${column} ${text}`,
    ),
    `alter table ${table} add column timeout_ms ${int}`,
    `alter table ${table} add column backoff_ms ${int}`,
  ];
}
