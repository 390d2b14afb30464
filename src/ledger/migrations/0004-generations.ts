import type { Dialect, Migration } from '../dialect.ts';

/** The configurations that processes used, and the health of plugins under them. */
export const generations: Migration = {
  version: 4,
  name: 'generations',
  statements: (d) => [...snapshots(d), ...health(d)],
};

function snapshots(d: Dialect): string[] {
  const { int, text } = d.types;
  const table = d.table('config_snapshots');
  return [
    `create table ${table} (
      id ${text} primary key,
      hash ${text} not null,
      config ${text} not null,
      plugins ${text} not null,
      reason ${text} not null,
      generation ${int} not null,
      process_id ${text} not null,
      created_at ${text} not null,
      last_used_at ${text} not null
    )`,
    `create index config_snapshots_used on ${table} (last_used_at)`,
    `alter table ${d.table('job_queue')} add column config_snapshot_id ${text}`,
    // An attempt can be kept longer than its job.
    `alter table ${d.table('job_log')} add column config_snapshot_id ${text}`,
    // The time of the last change of its list of plugins.
    `alter table ${d.table('processes')} add column plugins_since ${text}`,
  ];
}

function health(d: Dialect): string[] {
  const { text } = d.types;
  const jobs = d.table('job_queue');
  return [
    `create table ${d.table('plugin_health')} (
      plugin_name ${text} not null,
      kind ${text} not null check (kind in ('init', 'health')),
      fingerprint ${text} not null,
      status ${text} not null check (status in ('pending', 'healthy', 'unhealthy')),
      reason ${text},
      job_id ${text} not null,
      updated_at ${text} not null,
      seen_at ${text} not null,
      primary key (plugin_name, kind, fingerprint)
    )`,
    `create index plugin_health_seen on ${d.table('plugin_health')} (seen_at)`,
    // The configuration of an init. Processes with another one must not run it.
    `alter table ${jobs} add column init_for ${text}`,
    `create index job_queue_care on ${jobs} (plugin, seq)
      where status = 'queued' and next_retry_at is null and command in ('init', 'health')`,
  ];
}
