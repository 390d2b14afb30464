import type { Migration } from '../dialect.ts';

/**
 * Records for `doctor`: counts of refused calls and suppressed jobs, the configuration of each process,
 * and how often in a row a schedule was skipped.
 */
export const observations: Migration = {
  version: 18,
  name: 'observations',
  statements: (d) => {
    const { int, text } = d.types;
    const processes = d.table('processes');
    return [
      `create table ${d.table('observations')} (
        kind ${text} not null,
        key ${text} not null,
        bucket ${text} not null,
        count ${int} not null,
        first_at ${text} not null,
        last_at ${text} not null,
        detail ${text} not null,
        primary key (kind, key, bucket)
      )`,
      `alter table ${processes} add column config_file ${text}`,
      `alter table ${processes} add column config_digest ${text}`,
      `alter table ${d.table('schedules')} add column skipped_in_row ${int} not null default 0`,
    ];
  },
};
