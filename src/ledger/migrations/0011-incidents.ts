import type { Dialect, Migration } from '../dialect.ts';

/** Incidents: each has a kind, a start and an end. */
export const incidents: Migration = {
  version: 11,
  name: 'incidents',
  statements: (d) => table(d),
};

function table(d: Dialect): string[] {
  const { identity, int, text } = d.types;
  const name = d.table('incidents');
  return [
    `create table ${name} (
      seq ${identity},
      id ${text} not null unique,
      kind ${text} not null,
      key ${text} not null,
      opened_at ${text} not null,
      last_seen_at ${text} not null,
      closed_at ${text},
      count ${int} not null,
      detail ${text} not null
    )`,
    // Each kind and key has one open incident, even if several hosts detect it.
    `create unique index incidents_open on ${name} (kind, key) where closed_at is null`,
    `create index incidents_closed on ${name} (closed_at) where closed_at is not null`,
  ];
}
