import type { Migration } from './migration.ts';

/** What an attempt used; empty where the spawner could not tell. */
export const usage: Migration = {
  version: 15,
  name: 'usage',
  statements: (d) => [
    `alter table ${d.table('job_log')} add column cpu_ms ${d.types.int}`,
    `alter table ${d.table('job_log')} add column memory_peak_bytes ${d.types.int}`,
  ],
};
