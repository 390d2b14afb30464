import type { Dialect, Migration } from '../dialect.ts';

/** Sealed secrets: the credentials of plugins, and the unmasked data of signals. */
export const credentials: Migration = {
  version: 6,
  name: 'credentials',
  statements: (d) => [...named(d), ...payloads(d)],
};

function named(d: Dialect): string[] {
  const { text } = d.types;
  const table = d.table('credentials');
  return [
    `create table ${table} (
      id ${text} primary key,
      name ${text} not null unique,
      provider ${text},
      key_id ${text} not null,
      sealed ${text} not null,
      created_by ${text} not null,
      created_at ${text} not null,
      updated_by ${text} not null,
      updated_at ${text} not null,
      last_used_at ${text},
      expires_at ${text}
    )`,
    `create index credentials_key on ${table} (key_id, name)`,
  ];
}

/** The data of signals before masking, for replays. */
function payloads(d: Dialect): string[] {
  const { text } = d.types;
  const table = d.table('sealed_payloads');
  return [
    `create table ${table} (
      signal_id ${text} primary key,
      key_id ${text} not null,
      sealed ${text} not null
    )`,
    `create index sealed_payloads_key on ${table} (key_id, signal_id)`,
  ];
}
