import type { Dialect, Migration } from '../dialect.ts';

/** Directives, idempotency keys, switches of plugins, and tokens. */
export const directives: Migration = {
  version: 3,
  name: 'directives',
  statements: (d) => [...intents(d), ...access(d), ...lineage(d)],
};

function intents(d: Dialect): string[] {
  const { int, text, identity } = d.types;
  const table = d.table('directives');
  return [
    `create table ${table} (
      seq ${identity},
      id ${text} not null unique,
      type ${text} not null,
      target ${text} not null,
      params ${text} not null,
      actor ${text} not null,
      actor_role ${text},
      scope ${text} not null,
      correlation_id ${text} not null,
      causation_id ${text},
      idempotency_key ${text} not null unique,
      status ${text} not null check (status in ('requested', 'running', 'completed', 'failed',
        'cancelled')),
      plan ${text} not null,
      result ${text},
      error_kind ${text},
      error_message ${text},
      error_details ${text} not null default '{}',
      awaiting_approval ${int} not null default 0,
      approved_by ${text},
      approved_at ${text},
      cancelled_by ${text},
      run_at ${text},
      progress ${text},
      attempt ${int} not null,
      max_attempts ${int} not null,
      process_id ${text} not null,
      signal_id ${text} not null,
      requested_at ${text} not null,
      started_at ${text},
      completed_at ${text},
      check ((completed_at is not null) = (status not in ('requested', 'running'))),
      check (status <> 'requested' or run_at is not null)
    )`,
    `create index directives_target on ${table} (target, seq)`,
    `create index directives_type on ${table} (type, seq)`,
    `create index directives_status on ${table} (status, seq)`,
    `create index directives_open on ${table} (process_id) where completed_at is null`,
    `create index directives_due on ${table} (run_at)
      where status = 'requested' and awaiting_approval = 0`,
    `create index directives_requested on ${table} (requested_at)`,
    `create index directives_completed on ${table} (completed_at) where completed_at is not null`,
    `create table ${d.table('plugin_switches')} (
      plugin_name ${text} primary key,
      enabled ${int} not null,
      changed_by ${text} not null,
      changed_at ${text} not null
    )`,
  ];
}

function access(d: Dialect): string[] {
  const { int, text } = d.types;
  const tokens = d.table('api_tokens');
  const keys = d.table('idempotency_keys');
  return [
    `create table ${tokens} (
      id ${text} primary key,
      name ${text} not null,
      digest ${text} not null unique,
      role ${text} not null,
      scopes ${text} not null,
      created_by ${text} not null,
      created_at ${text} not null,
      expires_at ${text},
      rotated_at ${text},
      last_used_at ${text},
      revoked_at ${text}
    )`,
    `create index api_tokens_ended on ${tokens} (coalesce(revoked_at, expires_at))`,
    `create unique index api_tokens_name on ${tokens} (name) where revoked_at is null`,
    `create table ${keys} (
      actor ${text} not null,
      route ${text} not null,
      key ${text} not null,
      body_digest ${text} not null,
      subject_id ${text} not null,
      status ${int},
      answer ${text},
      created_at ${text} not null,
      primary key (actor, route, key)
    )`,
    `create index idempotency_keys_created on ${keys} (created_at)`,
  ];
}

/** The indexes for trees of jobs and for retries. */
function lineage(d: Dialect): string[] {
  return [
    `create index job_queue_retry on ${d.table('job_queue')} (retry_of)
      where retry_of is not null`,
    `create index job_log_parent on ${d.table('job_log')} (parent_job_id)
      where parent_job_id is not null`,
  ];
}
