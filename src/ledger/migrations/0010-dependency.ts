import type { Dialect, Migration } from '../dialect.ts';

/** Dependency keys: only one job of a key may run at a time, even if the plugins differ. */
export const dependency: Migration = {
  version: 10,
  name: 'dependency',
  statements: (d) => [
    `alter table ${d.table('job_queue')} add column dependency_key ${d.types.text}`,
    ...queue(d),
    ...keys(d),
  ],
};

/** Orders jobs with a key after the others of their plugin, so that a claim doesn't scan them. */
function queue(d: Dialect): string[] {
  return [
    `drop index ${d.table('job_queue_ready')}`,
    `create index job_queue_ready on ${d.table('job_queue')}
      (plugin, coalesce(dependency_key, ''), seq, next_retry_at)
      where status = 'queued' and next_retry_at is null`,
  ];
}

/**
 * The queue of each key, and the queued jobs with a key by plugin. The unique index guarantees that no two
 * jobs of a key run at the same time, even if a claim misses one.
 */
function keys(d: Dialect): string[] {
  const jobs = d.table('job_queue');
  return [
    `create index job_queue_keyed on ${jobs} (dependency_key, ready_at, seq)
      where status = 'queued' and next_retry_at is null and dependency_key is not null`,
    `create index job_queue_in_line on ${jobs} (plugin, (seq + 0))
      where status = 'queued' and next_retry_at is null and dependency_key is not null`,
    `create unique index job_queue_dependency on ${jobs} (dependency_key)
      where status = 'running' and dependency_key is not null`,
  ];
}
