import type { Dialect, Migration } from '../dialect.ts';

/** Installed packages, and the names that each of them provides. */
export const packages: Migration = {
  version: 7,
  name: 'packages',
  statements: installations,
};

function installations(d: Dialect): string[] {
  const { int, text } = d.types;
  const table = d.table('package_installations');
  const provisions = d.table('installation_provisions');
  return [
    `create table ${table} (
      id ${text} primary key,
      slug ${text} not null,
      version ${text} not null,
      hash ${text} not null,
      status ${text} not null check (status in ('installed', 'disabled', 'failed', 'uninstalled')),
      config ${text} not null,
      config_checksum ${text} not null,
      provisioned ${text} not null,
      revision ${int} not null,
      directive_id ${text} not null,
      installed_by ${text} not null,
      installed_at ${text} not null,
      updated_at ${text} not null,
      last_error ${text}
    )`,
    `create unique index package_installations_slug on ${table} (slug)
      where status <> 'uninstalled'`,
    // A name belongs to one installation at a time. Earlier provisions stay on record.
    `create table ${provisions} (
      installation_id ${text} not null,
      kind ${text} not null,
      name ${text} not null,
      provisioned_at ${text} not null,
      removed_at ${text}
    )`,
    `create unique index installation_provisions_name on ${provisions} (kind, name)
      where removed_at is null`,
    `create index installation_provisions_of on ${provisions} (installation_id)`,
  ];
}
