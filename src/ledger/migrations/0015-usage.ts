import type { Migration } from '../dialect.ts';

/** The resources that an attempt used; null where the spawner couldn't measure them. */
export const usage: Migration = {
  version: 15,
  name: 'usage',
  statements: (d) => [
    `alter table ${d.table('job_log')} add column cpu_ms ${d.types.int}`,
    `alter table ${d.table('job_log')} add column memory_peak_bytes ${d.types.int}`,
  ],
};
