import type { Migration } from '../dialect.ts';

/** Marks configurations of older versions, which may show secrets of payloads and steps. The next start masks them. */
export const snapshots: Migration = {
  version: 17,
  name: 'snapshots',
  statements: (d) => {
    const table = d.table('config_snapshots');
    return [
      `alter table ${table} add column masked ${d.types.int} not null default 0`,
      `create index config_snapshots_unmasked on ${table} (id) where masked = 0`,
    ];
  },
};
