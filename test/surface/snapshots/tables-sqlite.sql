-- 1 core
create table job_queue (
      tx integer not null default 0,
      seq integer primary key autoincrement,
      id text not null unique,
      plugin text not null,
      command text not null,
      payload text not null default '{}',
      status text not null check (status in ('queued', 'running', 'succeeded', 'failed',
        'timed_out', 'dead', 'cancelled', 'skipped')),
      attempt integer not null default 1,
      max_attempts integer not null default 4,
      retry_count integer not null default 0,
      crash_count integer not null default 0,
      interrupt_count integer not null default 0,
      suspect integer not null default 0,
      submitted_by text not null,
      actor text not null,
      dedupe_key text,
      dedupe_ttl_ms integer,
      created_at text not null,
      ready_at text not null,
      started_at text,
      completed_at text,
      next_retry_at text,
      last_error text,
      reason text,
      parent_job_id text,
      source_event_id text,
      root_job_id text not null,
      retry_of text,
      idempotency_key text not null,
      hops integer not null default 0,
      runtime_caused integer not null default 0,
      event_context_id text,
      claim_token text,
      claimed_by text,
      claim_expires_at text,
      cancel_requested_at text,
      check ((status = 'running') = (claim_token is not null)),
      check ((completed_at is not null) = (status not in ('queued', 'running')))
    )
create index job_queue_ready on job_queue (plugin, seq, next_retry_at)
      where status = 'queued' and next_retry_at is null
create index job_queue_delayed on job_queue (next_retry_at)
      where status = 'queued' and next_retry_at is not null
create index job_queue_running on job_queue (plugin, claimed_by) where status = 'running'
create unique index job_queue_exclusive on job_queue (dedupe_key, plugin, command)
      where status = 'running' and dedupe_key is not null
create index job_queue_completed on job_queue (completed_at) where completed_at is not null
create index job_queue_root on job_queue (root_job_id) where root_job_id <> id
create index job_queue_parent on job_queue (parent_job_id) where parent_job_id is not null
create index job_queue_cause on job_queue (source_event_id) where source_event_id is not null
create index job_queue_context on job_queue (event_context_id)
      where event_context_id is not null
create table job_dedupe (
      dedupe_key text not null,
      plugin text not null,
      command text not null,
      job_id text not null,
      blocks_until text,
      primary key (dedupe_key, plugin, command)
    )
create index job_dedupe_expiry on job_dedupe (blocks_until)
      where blocks_until is not null
create table job_log (
      seq integer primary key autoincrement,
      id text not null unique,
      job_id text not null,
      plugin text not null,
      command text not null,
      status text not null check (status in ('succeeded', 'failed', 'timed_out', 'crashed',
        'released', 'cancelled')),
      cause text not null,
      result text,
      attempt integer not null,
      submitted_by text not null,
      created_at text not null,
      started_at text,
      completed_at text not null,
      last_error text,
      stderr text,
      stderr_truncated integer not null default 0,
      exit_code integer,
      signal text,
      pid integer,
      queue_ms integer,
      spawn_ms integer,
      run_ms integer,
      settle_ms integer,
      process_id text,
      claim_token text,
      parent_job_id text,
      source_event_id text,
      tx integer not null default 0
    )
create index job_log_completed on job_log (completed_at)
create table signals (
      seq integer primary key autoincrement,
      id text not null unique,
      type text not null,
      source text not null,
      subject_type text,
      subject_id text,
      data text not null,
      metadata text not null default '{}',
      hops integer not null default 0,
      correlation_id text not null,
      causation_id text,
      visibility text not null default 'internal',
      occurred_at text not null,
      inserted_at text not null,
      dedupe_key text,
      source_event_id text,
      job_id text,
      job_attempt integer,
      event_index integer,
      tx integer not null default 0
    )
create unique index signals_emitted on signals (job_id, job_attempt, event_index)
      where job_id is not null
create unique index signals_dedupe on signals (source, dedupe_key)
      where dedupe_key is not null
create unique index signals_provider on signals (source, source_event_id)
      where source_event_id is not null
create index signals_cause on signals (causation_id) where causation_id is not null
create index signals_subject on signals (subject_type, subject_id)
      where subject_id is not null
create index signals_occurred on signals (occurred_at)
create index signals_type on signals (type, seq)
create index signals_correlation on signals (correlation_id)
create index signals_inserted on signals (inserted_at)
create table plugin_state (
      plugin_name text primary key,
      state text not null default '{}',
      updated_at text not null
    )
create table plugin_facts (
      id integer primary key autoincrement,
      seq integer not null unique,
      plugin_name text not null,
      fact_type text not null,
      job_id text,
      command text,
      fact_json text not null,
      created_at text not null
    )
create index plugin_facts_plugin on plugin_facts (plugin_name, seq)
create index plugin_facts_created on plugin_facts (created_at)
create table storage_sequences (
      name text primary key,
      value integer not null
    )
insert into storage_sequences (name, value) values ('plugin_facts', 0)
create table event_context (
      id text primary key,
      parent_id text,
      pipeline_name text,
      step_id text,
      accumulated_json text not null,
      created_at text not null
    )
create index event_context_created on event_context (created_at)
create table processes (
      id text primary key,
      host text not null,
      pid integer not null,
      version text not null,
      slots integer not null,
      spawner text not null,
      plugins text not null,
      started_at text not null,
      last_heartbeat_at text not null
    )
create table ledger_meta (
      key text primary key,
      value text not null
    )
-- 2 schedules
create table schedules (
      plugin text not null,
      schedule_id text not null,
      command text not null,
      mode text not null,
      timing text not null,
      timezone text not null,
      generation text not null,
      seq integer not null default 0,
      status text not null check (status in ('active', 'paused', 'exhausted', 'invalid',
        'retired')),
      reason text,
      next_slot_at text,
      next_due_at text,
      first_seen_at text not null,
      last_fired_at text,
      last_job_id text,
      last_skipped_at text,
      last_skip_reason text,
      paused_at text,
      updated_at text not null,
      primary key (plugin, schedule_id)
    )
create index schedules_due on schedules (next_due_at, plugin, schedule_id)
      where status = 'active'
create index schedules_retired on schedules (updated_at) where status = 'retired'
alter table job_queue add column schedule_id text
alter table job_queue add column schedule_slot text
create unique index job_queue_slot on job_queue (plugin, schedule_id, schedule_slot)
      where schedule_id is not null
create index job_queue_outstanding on job_queue (plugin, schedule_id)
      where schedule_id is not null and completed_at is null
create table circuit_breakers (
      plugin text not null,
      command text not null,
      state text not null check (state in ('closed', 'open', 'half_open')),
      failure_count integer not null default 0,
      opened_at text,
      last_failure_at text,
      last_job_id text,
      probe_job_id text,
      threshold integer not null,
      reset_after_ms integer not null,
      updated_at text not null,
      primary key (plugin, command)
    )
create table circuit_breaker_transitions (
      id text primary key,
      plugin text not null,
      command text not null,
      from_state text,
      to_state text not null,
      failure_count integer not null default 0,
      reason text not null,
      job_id text,
      created_at text not null
    )
create index circuit_breaker_transitions_of on circuit_breaker_transitions (plugin, command, created_at)
create index circuit_breaker_transitions_created on circuit_breaker_transitions (created_at)
-- 3 directives
create table directives (
      seq integer primary key autoincrement,
      id text not null unique,
      type text not null,
      target text not null,
      params text not null,
      actor text not null,
      actor_role text,
      scope text not null,
      correlation_id text not null,
      causation_id text,
      idempotency_key text not null unique,
      status text not null check (status in ('requested', 'running', 'completed', 'failed',
        'cancelled')),
      plan text not null,
      result text,
      error_kind text,
      error_message text,
      error_details text not null default '{}',
      awaiting_approval integer not null default 0,
      approved_by text,
      approved_at text,
      cancelled_by text,
      run_at text,
      progress text,
      attempt integer not null,
      max_attempts integer not null,
      process_id text not null,
      signal_id text not null,
      requested_at text not null,
      started_at text,
      completed_at text,
      check ((completed_at is not null) = (status not in ('requested', 'running'))),
      check (status <> 'requested' or run_at is not null)
    )
create index directives_target on directives (target, seq)
create index directives_type on directives (type, seq)
create index directives_status on directives (status, seq)
create index directives_open on directives (process_id) where completed_at is null
create index directives_due on directives (run_at)
      where status = 'requested' and awaiting_approval = 0
create index directives_requested on directives (requested_at)
create index directives_completed on directives (completed_at) where completed_at is not null
create table plugin_switches (
      plugin_name text primary key,
      enabled integer not null,
      changed_by text not null,
      changed_at text not null
    )
create table api_tokens (
      id text primary key,
      name text not null,
      digest text not null unique,
      role text not null,
      scopes text not null,
      created_by text not null,
      created_at text not null,
      expires_at text,
      rotated_at text,
      last_used_at text,
      revoked_at text
    )
create index api_tokens_ended on api_tokens (coalesce(revoked_at, expires_at))
create unique index api_tokens_name on api_tokens (name) where revoked_at is null
create table idempotency_keys (
      actor text not null,
      route text not null,
      key text not null,
      body_digest text not null,
      subject_id text not null,
      status integer,
      answer text,
      created_at text not null,
      primary key (actor, route, key)
    )
create index idempotency_keys_created on idempotency_keys (created_at)
create index job_queue_retry on job_queue (retry_of)
      where retry_of is not null
create index job_log_parent on job_log (parent_job_id)
      where parent_job_id is not null
-- 4 generations
create table config_snapshots (
      id text primary key,
      hash text not null,
      config text not null,
      plugins text not null,
      reason text not null,
      generation integer not null,
      process_id text not null,
      created_at text not null,
      last_used_at text not null
    )
create index config_snapshots_used on config_snapshots (last_used_at)
alter table job_queue add column config_snapshot_id text
alter table job_log add column config_snapshot_id text
alter table processes add column plugins_since text
create table plugin_health (
      plugin_name text not null,
      kind text not null check (kind in ('init', 'health')),
      fingerprint text not null,
      status text not null check (status in ('pending', 'healthy', 'unhealthy')),
      reason text,
      job_id text not null,
      updated_at text not null,
      seen_at text not null,
      primary key (plugin_name, kind, fingerprint)
    )
create index plugin_health_seen on plugin_health (seen_at)
alter table job_queue add column init_for text
create index job_queue_care on job_queue (plugin, seq)
      where status = 'queued' and next_retry_at is null and command in ('init', 'health')
-- 5 runs
create table pipeline_definitions (
      hash text primary key,
      name text not null,
      graph text not null,
      created_at text not null,
      last_used_at text not null
    )
create index pipeline_definitions_used on pipeline_definitions (last_used_at)
create table pipeline_runs (
      seq integer primary key autoincrement,
      id text not null unique,
      pipeline text not null,
      definition_hash text not null,
      status text not null check (status in ('queued', 'running', 'succeeded', 'halted',
        'cancelled')),
      payload text not null,
      output text,
      halt_reason text,
      halt_message text,
      halted_at_step text,
      submitted_by text not null,
      actor text not null,
      source_event_id text,
      parent_job_id text,
      first_job_id text not null,
      root_job_id text not null,
      lineage text not null,
      hops integer not null default 0,
      runtime_caused integer not null default 0,
      event_context_id text,
      concurrency_key text,
      concurrency_limit integer,
      revived_from text,
      awaited_by text,
      end_tx integer,
      due_at text,
      dedupe_key text,
      dedupe_ttl_ms integer,
      held_key text,
      held_until text,
      created_at text not null,
      started_at text,
      completed_at text,
      check ((completed_at is not null) = (status not in ('queued', 'running'))),
      check ((status = 'halted') = (halt_reason is not null)),
      check (due_at is null or status = 'queued'),
      check (held_key is null or (status in ('queued', 'running') and held_until is null)
        or (status = 'succeeded' and held_until is not null))
    )
create unique index pipeline_runs_revived on pipeline_runs (revived_from)
      where revived_from is not null
create index pipeline_runs_pipeline on pipeline_runs (pipeline, seq)
create index pipeline_runs_root on pipeline_runs (root_job_id)
create index pipeline_runs_definition on pipeline_runs (definition_hash)
create index pipeline_runs_cause on pipeline_runs (source_event_id)
      where source_event_id is not null
create index pipeline_runs_context on pipeline_runs (event_context_id)
      where event_context_id is not null
create index pipeline_runs_open on pipeline_runs (status, seq) where completed_at is null
create index pipeline_runs_keyed on pipeline_runs (concurrency_key, status, seq)
      where concurrency_key is not null and completed_at is null and due_at is null
create index pipeline_runs_due on pipeline_runs (due_at) where due_at is not null
create unique index pipeline_runs_held on pipeline_runs (held_key, pipeline)
      where held_key is not null
create index pipeline_runs_completed on pipeline_runs (completed_at)
      where completed_at is not null
create index pipeline_runs_ends on pipeline_runs (end_tx, seq) where end_tx is not null
create table run_branches (
      id text primary key,
      run_id text not null,
      parent_id text,
      parent_moves integer,
      idx integer not null default 0,
      label text,
      path text not null,
      node text not null,
      stop text,
      status text not null check (status in ('running', 'waiting', 'advancing', 'succeeded',
        'halted', 'cancelled')),
      payload text not null,
      payload_ref text,
      is_whole integer not null default 0,
      event_context_id text,
      job_id text,
      moves integer not null default 0,
      block text,
      width integer not null default 0,
      cursor integer not null default 0,
      pending integer not null default 0,
      halted integer not null default 0,
      concurrency integer,
      output text,
      outcome text,
      due_at text,
      deadline_at text,
      waits_for text,
      wake_from integer,
      claim_token text,
      claimed_by text,
      tries integer not null default 0,
      crashes integer not null default 0,
      halt_reason text,
      halt_message text,
      last_step_id text,
      created_at text not null,
      completed_at text,
      check ((completed_at is not null) = (status in ('succeeded', 'halted', 'cancelled'))),
      check (completed_at is null or (due_at is null and waits_for is null and claim_token is null))
    )
create index run_branches_due on run_branches (due_at) where due_at is not null
create index run_branches_claimed on run_branches (claimed_by) where claim_token is not null
create index run_branches_signal on run_branches (waits_for) where waits_for is not null
create table run_payloads (
      id text primary key,
      run_id text not null,
      payload text not null
    )
create index run_payloads_run on run_payloads (run_id)
create table run_advancements (
      id text primary key,
      run_id text not null,
      branch_id text not null,
      node text not null,
      process_id text not null,
      started_at text not null,
      completed_at text,
      error text,
      crashed integer not null default 0
    )
create index run_advancements_run on run_advancements (run_id, id)
create index run_advancements_open on run_advancements (branch_id)
      where completed_at is null
create table run_steps (
      run_id text not null,
      id text not null,
      branch_id text not null,
      node text not null,
      kind text not null,
      status text not null check (status in ('waiting', 'succeeded', 'failed', 'skipped',
        'cancelled')),
      job_id text,
      output text,
      error text,
      note text,
      next_node text,
      source_step_id text,
      started_at text not null,
      due_at text,
      completed_at text,
      primary key (run_id, id)
    )
create index run_steps_waiting on run_steps (run_id, branch_id)
      where status = 'waiting'
create view run_transitions as
      select run_id, branch_id, id as step_id, node as from_node, next_node as to_node,
        completed_at as created_at
      from run_steps where completed_at is not null
alter table job_queue add column run_id text
alter table job_queue add column branch_id text
alter table job_queue add column step_id text
alter table job_queue add column base_key text
alter table job_queue add column awaited_by text
alter table job_queue add column timeout_ms integer
alter table job_queue add column backoff_ms integer
-- 6 credentials
create table credentials (
      id text primary key,
      name text not null unique,
      provider text,
      key_id text not null,
      sealed text not null,
      created_by text not null,
      created_at text not null,
      updated_by text not null,
      updated_at text not null,
      last_used_at text,
      expires_at text
    )
create index credentials_key on credentials (key_id, name)
create table sealed_payloads (
      signal_id text primary key,
      key_id text not null,
      sealed text not null
    )
create index sealed_payloads_key on sealed_payloads (key_id, signal_id)
-- 7 packages
create table package_installations (
      id text primary key,
      slug text not null,
      version text not null,
      hash text not null,
      status text not null check (status in ('installed', 'disabled', 'failed', 'uninstalled')),
      config text not null,
      config_checksum text not null,
      provisioned text not null,
      revision integer not null,
      directive_id text not null,
      installed_by text not null,
      installed_at text not null,
      updated_at text not null,
      last_error text
    )
create unique index package_installations_slug on package_installations (slug)
      where status <> 'uninstalled'
create table installation_provisions (
      installation_id text not null,
      kind text not null,
      name text not null,
      provisioned_at text not null,
      removed_at text
    )
create unique index installation_provisions_name on installation_provisions (kind, name)
      where removed_at is null
create index installation_provisions_of on installation_provisions (installation_id)
-- 8 tenants
create table tenants (
      slug text primary key,
      title text not null,
      status text not null check (status in ('creating', 'active', 'suspended', 'deleting')),
      workers integer,
      queue_length integer,
      signals_per_minute integer,
      storage_bytes integer,
      due_at text,
      schema_version integer,
      schema_error text,
      schema_at text,
      created_by text not null,
      created_at text not null,
      updated_at text not null
    )
create index tenants_due on tenants (due_at, slug)
      where due_at is not null and status in ('active', 'suspended')
create table tenant_keys (
      kind text not null check (kind in ('token', 'hook')),
      key text not null,
      slug text not null,
      created_at text not null,
      primary key (kind, key)
    )
create index tenant_keys_slug on tenant_keys (slug)
-- 9 webhooks
create table webhooks (
      id text primary key,
      settings text not null,
      key_id text,
      sealed text,
      created_by text not null,
      created_at text not null,
      updated_by text not null,
      updated_at text not null,
      trigger_count integer not null default 0,
      last_triggered_at text,
      last_error text,
      check ((key_id is null) = (sealed is null))
    )
create index webhooks_key on webhooks (key_id, id) where key_id is not null
create table webhook_deliveries (
      seq integer primary key autoincrement,
      id text not null unique,
      hook_id text not null,
      verdict text not null check (verdict in ('accepted', 'failed', 'refused')),
      reason text,
      delivery_id text,
      replay_key text,
      source text not null,
      headers text not null,
      body_bytes integer not null,
      signal_id text,
      duplicates integer not null default 0,
      received_at text not null
    )
create unique index webhook_deliveries_id on webhook_deliveries (hook_id, delivery_id)
      where verdict = 'accepted' and delivery_id is not null
create unique index webhook_deliveries_replay on webhook_deliveries (hook_id, replay_key)
      where verdict = 'accepted' and replay_key is not null
create index webhook_deliveries_hook on webhook_deliveries (hook_id, seq)
create index webhook_deliveries_age on webhook_deliveries (received_at)
-- 10 dependency
alter table job_queue add column dependency_key text
drop index job_queue_ready
create index job_queue_ready on job_queue
      (plugin, coalesce(dependency_key, ''), seq, next_retry_at)
      where status = 'queued' and next_retry_at is null
create index job_queue_keyed on job_queue (dependency_key, ready_at, seq)
      where status = 'queued' and next_retry_at is null and dependency_key is not null
create index job_queue_in_line on job_queue (plugin, (seq + 0))
      where status = 'queued' and next_retry_at is null and dependency_key is not null
create unique index job_queue_dependency on job_queue (dependency_key)
      where status = 'running' and dependency_key is not null
-- 11 incidents
create table incidents (
      seq integer primary key autoincrement,
      id text not null unique,
      kind text not null,
      key text not null,
      opened_at text not null,
      last_seen_at text not null,
      closed_at text,
      count integer not null,
      detail text not null
    )
create unique index incidents_open on incidents (kind, key) where closed_at is null
create index incidents_closed on incidents (closed_at) where closed_at is not null
-- 12 words
alter table signals add column updated_at text
        generated always as (inserted_at) virtual
alter table directives add column actor_user_id text
        generated always as (actor) virtual
alter table directives add column inserted_at text
        generated always as (requested_at) virtual
alter table directives add column updated_at text
        generated always as (coalesce(completed_at, started_at, approved_at, requested_at)) virtual
-- 13 access
create table token_names (
      name text primary key,
      source text not null check (source in ('config', 'ledger')),
      taken_at text not null
    )
insert into token_names (name, source, taken_at)
      select name, 'ledger', min(created_at) from api_tokens group by name
create index api_tokens_creator on api_tokens (created_by)
alter table directives add column asked_digest text
alter table webhook_deliveries add column test_by text
-- 14 lists
create index job_queue_ended on job_queue (plugin, command, submitted_by, seq, status)
      where completed_at is not null
create index job_queue_rare on job_queue (status, seq) where status in ('failed', 'timed_out', 'dead', 'cancelled', 'skipped')
create index job_queue_rare_of on job_queue (plugin, status, seq)
      where status in ('failed', 'timed_out', 'dead', 'cancelled', 'skipped')
create index job_queue_delayed_of on job_queue (plugin, seq)
      where status = 'queued' and next_retry_at is not null
create index job_log_plugin on job_log (plugin, completed_at, id)
create index job_log_rare on job_log (status, completed_at, id) where status <> 'succeeded'
drop index signals_subject
create index signals_subject on signals (subject_id, seq) where subject_id is not null
create index signals_source on signals (source, seq)
create index directives_actor on directives (actor, seq)
create index pipeline_runs_ended on pipeline_runs (status, seq)
      where completed_at is not null
create index webhook_deliveries_untaken on webhook_deliveries (verdict, seq)
      where verdict <> 'accepted'
create index webhook_deliveries_skipped on webhook_deliveries (seq)
      where verdict = 'accepted' and reason is not null
create index incidents_kind on incidents (kind, seq)
create index plugin_facts_type on plugin_facts (plugin_name, fact_type, seq)
create index circuit_breaker_transitions_plugin on circuit_breaker_transitions
      (plugin, created_at, id)
-- 15 usage
alter table job_log add column cpu_ms integer
alter table job_log add column memory_peak_bytes integer
-- 16 chains
drop index signals_correlation
create index signals_correlation on signals (correlation_id, seq)
drop index signals_cause
create index signals_cause on signals (causation_id, seq) where causation_id is not null
create index job_log_rare_of on job_log (plugin, status, completed_at, id)
      where status <> 'succeeded'
-- 17 snapshots
alter table config_snapshots add column masked integer not null default 0
create index config_snapshots_unmasked on config_snapshots (id) where masked = 0
-- 18 observations
create table observations (
        kind text not null,
        key text not null,
        bucket text not null,
        count integer not null,
        first_at text not null,
        last_at text not null,
        detail text not null,
        primary key (kind, key, bucket)
      )
alter table processes add column config_file text
alter table processes add column config_digest text
alter table schedules add column skipped_in_row integer not null default 0
-- 19 questions
create index run_steps_asking on run_steps (run_id, branch_id)
      where status = 'waiting' and kind = 'approve'
