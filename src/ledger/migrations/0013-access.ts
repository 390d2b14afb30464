import type { Dialect, Migration } from '../dialect.ts';

/** The owners of requests, of names of tokens and of test deliveries. */
export const access: Migration = {
  version: 13,
  name: 'access',
  statements: (d) => [...names(d), ...requests(d), ...tests(d)],
};

/** A token's name identifies its holder in every record, so no second token ever gets it. */
function names(d: Dialect): string[] {
  const { text } = d.types;
  const table = d.table('token_names');
  return [
    `create table ${table} (
      name ${text} primary key,
      source ${text} not null check (source in ('config', 'ledger')),
      taken_at ${text} not null
    )`,
    `insert into ${table} (name, source, taken_at)
      select name, 'ledger', min(created_at) from ${d.table('api_tokens')} group by name`,
    `create index api_tokens_creator on ${d.table('api_tokens')} (created_by)`,
  ];
}

/** The digest of the request as its caller sent it, with which a repeated idempotency key is compared. */
function requests(d: Dialect): string[] {
  return [`alter table ${d.table('directives')} add column asked_digest ${d.types.text}`];
}

/** The actor whose `webhook.test` made a delivery; null for one that a sender made. */
function tests(d: Dialect): string[] {
  return [`alter table ${d.table('webhook_deliveries')} add column test_by ${d.types.text}`];
}
