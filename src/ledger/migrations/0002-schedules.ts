import type { Dialect, Migration } from '../dialect.ts';

/** Schedules, their jobs, and circuit breakers. */
export const schedules: Migration = {
  version: 2,
  name: 'schedules',
  statements: (d) => [...timing(d), ...breakers(d)],
};

function timing(d: Dialect): string[] {
  const { int, text } = d.types;
  const schedule = d.table('schedules');
  const jobs = d.table('job_queue');
  return [
    `create table ${schedule} (
      plugin ${text} not null,
      schedule_id ${text} not null,
      command ${text} not null,
      mode ${text} not null,
      timing ${text} not null,
      timezone ${text} not null,
      generation ${text} not null,
      seq ${int} not null default 0,
      status ${text} not null check (status in ('active', 'paused', 'exhausted', 'invalid',
        'retired')),
      reason ${text},
      next_slot_at ${text},
      next_due_at ${text},
      first_seen_at ${text} not null,
      last_fired_at ${text},
      last_job_id ${text},
      last_skipped_at ${text},
      last_skip_reason ${text},
      paused_at ${text},
      updated_at ${text} not null,
      primary key (plugin, schedule_id)
    )`,
    `create index schedules_due on ${schedule} (next_due_at, plugin, schedule_id)
      where status = 'active'`,
    `create index schedules_retired on ${schedule} (updated_at) where status = 'retired'`,
    `alter table ${jobs} add column schedule_id ${text}`,
    `alter table ${jobs} add column schedule_slot ${text}`,
    // Each slot has one job, even if two hosts fire it.
    `create unique index job_queue_slot on ${jobs} (plugin, schedule_id, schedule_slot)
      where schedule_id is not null`,
    `create index job_queue_outstanding on ${jobs} (plugin, schedule_id)
      where schedule_id is not null and completed_at is null`,
  ];
}

function breakers(d: Dialect): string[] {
  const { int, text } = d.types;
  const transitions = d.table('circuit_breaker_transitions');
  return [
    `create table ${d.table('circuit_breakers')} (
      plugin ${text} not null,
      command ${text} not null,
      state ${text} not null check (state in ('closed', 'open', 'half_open')),
      failure_count ${int} not null default 0,
      opened_at ${text},
      last_failure_at ${text},
      last_job_id ${text},
      probe_job_id ${text},
      threshold ${int} not null,
      reset_after_ms ${int} not null,
      updated_at ${text} not null,
      primary key (plugin, command)
    )`,
    `create table ${transitions} (
      id ${text} primary key,
      plugin ${text} not null,
      command ${text} not null,
      from_state ${text},
      to_state ${text} not null,
      failure_count ${int} not null default 0,
      reason ${text} not null,
      job_id ${text},
      created_at ${text} not null
    )`,
    `create index circuit_breaker_transitions_of on ${transitions} (plugin, command, created_at)`,
    `create index circuit_breaker_transitions_created on ${transitions} (created_at)`,
  ];
}
