import type { Dialect, Migration } from '../dialect.ts';

/** Webhooks and their deliveries. */
export const webhooks: Migration = {
  version: 9,
  name: 'webhooks',
  statements: (d) => [...webhooksTable(d), ...deliveriesTable(d)],
};

function webhooksTable(d: Dialect): string[] {
  const { int, text } = d.types;
  const table = d.table('webhooks');
  return [
    `create table ${table} (
      id ${text} primary key,
      settings ${text} not null,
      key_id ${text},
      sealed ${text},
      created_by ${text} not null,
      created_at ${text} not null,
      updated_by ${text} not null,
      updated_at ${text} not null,
      trigger_count ${int} not null default 0,
      last_triggered_at ${text},
      last_error ${text},
      check ((key_id is null) = (sealed is null))
    )`,
    `create index webhooks_key on ${table} (key_id, id) where key_id is not null`,
  ];
}

/** Only an accepted delivery blocks its duplicates: a sender may repeat one that failed. */
function deliveriesTable(d: Dialect): string[] {
  const { identity, int, text } = d.types;
  const table = d.table('webhook_deliveries');
  return [
    `create table ${table} (
      seq ${identity},
      id ${text} not null unique,
      hook_id ${text} not null,
      verdict ${text} not null check (verdict in ('accepted', 'failed', 'refused')),
      reason ${text},
      delivery_id ${text},
      replay_key ${text},
      source ${text} not null,
      headers ${text} not null,
      body_bytes ${int} not null,
      signal_id ${text},
      duplicates ${int} not null default 0,
      received_at ${text} not null
    )`,
    `create unique index webhook_deliveries_id on ${table} (hook_id, delivery_id)
      where verdict = 'accepted' and delivery_id is not null`,
    `create unique index webhook_deliveries_replay on ${table} (hook_id, replay_key)
      where verdict = 'accepted' and replay_key is not null`,
    `create index webhook_deliveries_hook on ${table} (hook_id, seq)`,
    `create index webhook_deliveries_age on ${table} (received_at)`,
  ];
}
