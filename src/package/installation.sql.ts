import type { InstallationStatus } from './package.ts';
import type { Row, Session, Transaction } from '../ledger/dialect.ts';
import type { InstallationFilter, InstallationRow, Provenance } from './types.ts';
import { readMeta } from '../ledger/meta.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { Where } from '../ledger/where.ts';

export async function listInstallations(
  session: Session,
  { id, slug, withEnded }: InstallationFilter,
): Promise<InstallationRow[]> {
  const where = new Where().equals({ id, slug });
  if (withEnded !== true) where.and(`status <> 'uninstalled'`);
  const rows = await session.run(
    `select * from ${session.dialect.table('package_installations')} where ${where.text}
      order by slug, installed_at, id`,
    where.values,
  );
  return rows.map(toInstallation);
}

export async function listProvenance(
  session: Session,
  installationId: string,
): Promise<Provenance[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('installation_provisions')}
      where installation_id = ? order by kind, name, provisioned_at`,
    [installationId],
  );
  return rows.map((row) => ({
    kind: text(row, 'kind') as Provenance['kind'],
    name: text(row, 'name'),
    installationId: text(row, 'installation_id'),
    provisionedAt: text(row, 'provisioned_at'),
    removedAt: textOrNull(row, 'removed_at'),
  }));
}

export async function installationsVersion(session: Session): Promise<number> {
  return Number((await readMeta(session, 'installations_version')) ?? 0);
}

/** One that cannot be put in force has failed, until it can; neither changes what it provisions. */
export async function noteInstallation(
  tx: Transaction,
  id: string,
  error: string | null,
): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('package_installations')} set status = ?, last_error = ?,
      updated_at = ${dialect.now} where id = ? and status = ? and coalesce(last_error, '') <> ?`,
    error === null
      ? ['installed', null, id, 'failed', '']
      : ['failed', error, id, 'installed', error],
  );
}

function toInstallation(row: Row): InstallationRow {
  return {
    id: text(row, 'id'),
    slug: text(row, 'slug'),
    version: text(row, 'version'),
    hash: text(row, 'hash'),
    status: text(row, 'status') as InstallationStatus,
    config: text(row, 'config'),
    configChecksum: text(row, 'config_checksum'),
    provisioned: text(row, 'provisioned'),
    revision: int(row, 'revision'),
    directiveId: text(row, 'directive_id'),
    installedBy: text(row, 'installed_by'),
    installedAt: text(row, 'installed_at'),
    updatedAt: text(row, 'updated_at'),
    lastError: textOrNull(row, 'last_error'),
  };
}
