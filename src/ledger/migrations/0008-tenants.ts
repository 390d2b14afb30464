import type { Dialect, Migration } from '../dialect.ts';

/** The tenants in the root ledger. In all other ledgers these tables stay empty. */
export const tenants: Migration = {
  version: 8,
  name: 'tenants',
  statements: (d) => [...tenantRows(d), ...tenantKeys(d)],
};

function tenantRows(d: Dialect): string[] {
  const { int, text } = d.types;
  const table = d.table('tenants');
  return [
    `create table ${table} (
      slug ${text} primary key,
      title ${text} not null,
      status ${text} not null check (status in ('creating', 'active', 'suspended', 'deleting')),
      workers ${int},
      queue_length ${int},
      signals_per_minute ${int},
      storage_bytes ${int},
      due_at ${text},
      schema_version ${int},
      schema_error ${text},
      schema_at ${text},
      created_by ${text} not null,
      created_at ${text} not null,
      updated_at ${text} not null
    )`,
    `create index tenants_due on ${table} (due_at, slug)
      where due_at is not null and status in ('active', 'suspended')`,
  ];
}

function tenantKeys(d: Dialect): string[] {
  const { text } = d.types;
  const table = d.table('tenant_keys');
  return [
    `create table ${table} (
      kind ${text} not null check (kind in ('token', 'hook')),
      key ${text} not null,
      slug ${text} not null,
      created_at ${text} not null,
      primary key (kind, key)
    )`,
    `create index tenant_keys_slug on ${table} (slug)`,
  ];
}
