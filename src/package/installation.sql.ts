import { installationActor } from './package.ts';
import type { Session, Transaction } from '../ledger/dialect.ts';
import { defineInsert, insertRow } from '../ledger/insert.ts';
import {
  installationTable,
  provisionTable,
  type InstallationFilter,
  type InstallationRow,
  type ProvisionRow,
  type InstallationChange,
  type InstallationDraft,
  type WebhookChanges,
} from './types.ts';
import { readMeta, writeMeta } from '../ledger/meta.ts';
import { int, readRows, text } from '../ledger/row.ts';
import { WhereClause } from '../ledger/where.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import type { JsonObject } from '../base/json.ts';
import type { Provision } from './provision.ts';
import { describeTakenWebhook, findTakenWebhook, moveWebhooks } from '../webhook/webhook.sql.ts';

export async function listInstallations(
  session: Session,
  { id, slug, withEnded }: InstallationFilter,
): Promise<InstallationRow[]> {
  const where = new WhereClause().equals({ id, slug });
  if (withEnded !== true) where.and(`status <> 'uninstalled'`);
  const rest = `where ${where.text} order by slug, installed_at, id`;
  return await readRows(session, installationTable, rest, where.values);
}

export async function listProvisionRows(
  session: Session,
  installationId: string,
): Promise<ProvisionRow[]> {
  return await readRows(
    session,
    provisionTable,
    'where installation_id = ? order by kind, name, provisioned_at',
    [installationId],
  );
}

export async function readInstallationsVersion(session: Session): Promise<number> {
  return Number((await readMeta(session, 'installations_version')) ?? 0);
}

/** Marks an installation as failed, or as installed again. What it provides doesn't change. */
export async function recordInstallationError(
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

/** Inserts an installation. The caller holds the lock of directives, so no other one changes meanwhile. */
export async function insertInstallation(
  tx: Transaction,
  draft: InstallationDraft,
  actor: string,
): Promise<DirectiveEnd> {
  const { dialect } = tx;
  const { id, slug, version, provisions } = draft;
  const table = dialect.table('package_installations');
  const [existing] = await tx.run(
    `select id, version from ${table} where slug = ? and status <> 'uninstalled'`,
    [slug],
  );
  if (existing !== undefined) {
    const error = `${slug} is installed already, at version ${text(existing, 'version')}`;
    return { status: 'failed', code: 'PACKAGE_INSTALLED', error };
  }
  const refused = (await refuseTaken(tx, draft)) ?? (await advanceVersion(tx, draft.plannedAt));
  if (refused !== undefined) return refused;
  const now = { sql: dialect.now };
  await insertRow(tx, installationTable, {
    ...draft,
    status: 'installed',
    revision: 1,
    installedBy: actor,
    installedAt: now,
    updatedAt: now,
  });
  insertProvisions(tx, id, provisions);
  await moveWebhooks(tx, draft.webhooks, installationActor(slug));
  return {
    status: 'completed',
    result: { ...toResultName(draft), version, ...describeContent(draft) },
  };
}

/** Upgrades, enables, disables or uninstalls. The rows of its provisions stay as a record. */
export async function changeInstallation(
  tx: Transaction,
  change: InstallationChange,
): Promise<DirectiveEnd> {
  const { dialect } = tx;
  const { id, slug, to, content } = change;
  const refused = (await refuseTaken(tx, change)) ?? (await advanceVersion(tx, change.plannedAt));
  if (refused !== undefined) return refused;
  const values =
    content === undefined
      ? []
      : [
          content.version,
          content.hash,
          content.config,
          content.configChecksum,
          content.provisioned,
        ];
  const [row] = await tx.run(
    `update ${dialect.table('package_installations')} set status = ?, directive_id = ?,
      ${content === undefined ? '' : 'version = ?, hash = ?, config = ?, config_checksum = ?, provisioned = ?,'}
      revision = revision + 1, last_error = null, updated_at = ${dialect.now}
      where id = ? and status <> 'uninstalled' returning version, revision`,
    [to, change.directiveId, ...values, id],
  );
  if (row === undefined) {
    const error = `${slug} is no longer installed`;
    return { status: 'failed', code: 'INSTALLATION_NOT_FOUND', error };
  }
  if (content !== undefined || to === 'uninstalled') {
    const kept = new Set(content?.provisions.map(keyOf));
    await removeProvisions(tx, id, kept);
    insertProvisions(tx, id, content?.provisions ?? []);
  }
  await moveWebhooks(tx, change.webhooks, installationActor(slug));
  const purged = await purge(tx, change.purge ?? []);
  const version = text(row, 'version');
  const more = describeContent({ provisions: content?.provisions, webhooks: change.webhooks });
  const result = { ...toResultName(change), version, revision: int(row, 'revision'), ...more };
  return { status: 'completed', result: { ...result, status: to, ...purged } };
}

/** Deletes the state and facts of plugins. Their jobs and signals stay as history. */
async function purge(
  tx: Transaction,
  plugins: readonly string[],
): Promise<{ readonly purged_facts?: number }> {
  if (plugins.length === 0) return {};
  let facts = 0;
  for (const plugin of plugins) {
    await tx.run(`delete from ${tx.dialect.table('plugin_state')} where plugin_name = ?`, [plugin]);
    const table = tx.dialect.table('plugin_facts');
    const deleted = await tx.run(`delete from ${table} where plugin_name = ? returning 1 as one`, [
      plugin,
    ]);
    facts += deleted.length;
  }
  return { purged_facts: facts };
}

/**
 * Refuses a change that was planned for an older version: another host changed an installation since.
 * Otherwise it increments the version, by which other processes notice the change.
 */
async function advanceVersion(
  tx: Transaction,
  plannedAt: number,
): Promise<DirectiveEnd | undefined> {
  const now = await readInstallationsVersion(tx);
  if (now !== plannedAt) {
    const error = 'another installation was changed at the same time, so nothing was done';
    return { status: 'failed', code: 'BUSY', error };
  }
  await writeMeta(tx, 'installations_version', String(now + 1));
  return undefined;
}

function insertProvisions(
  tx: Transaction,
  installationId: string,
  provisions: readonly Provision[],
): void {
  tx.send(
    insertProvision,
    provisions.map(({ kind, name }) => ({ installationId, kind, name })),
  );
}

const insertProvision = defineInsert(provisionTable, {
  properties: ['installationId', 'kind', 'name'],
  sql: (_, d) => ({ provisionedAt: d.now }),
  rest: 'on conflict (kind, name) where removed_at is null do nothing',
});

/** Marks the provisions as removed that aren't kept. */
async function removeProvisions(
  tx: Transaction,
  installationId: string,
  kept: ReadonlySet<string>,
): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('installation_provisions');
  const rows = await tx.run(
    `select kind, name from ${table} where installation_id = ? and removed_at is null`,
    [installationId],
  );
  for (const row of rows) {
    const provision = { kind: text(row, 'kind'), name: text(row, 'name') };
    if (kept.has(keyOf(provision))) continue;
    await tx.run(
      `update ${table} set removed_at = ${dialect.now}
        where kind = ? and name = ? and installation_id = ? and removed_at is null`,
      [provision.kind, provision.name, installationId],
    );
  }
}

function keyOf({ kind, name }: { readonly kind: string; readonly name: string }): string {
  return `${kind} ${name}`;
}

function toResultName({ id, slug }: { readonly id: string; readonly slug: string }) {
  return { installation_id: id, package_slug: slug };
}

/** Returns the part of the result that counts the provisions and lists webhooks. */
function describeContent({
  provisions,
  webhooks: { closed },
}: {
  readonly provisions: readonly Provision[] | undefined;
  readonly webhooks: WebhookChanges;
}): JsonObject {
  const added = (provisions ?? []).filter(({ kind }) => kind === 'webhook');
  return {
    ...(provisions === undefined ? {} : { provisioned: countKinds(provisions) }),
    ...(added.length === 0 ? {} : { webhooks: added.map(({ name }) => name) }),
    ...(closed.length === 0 ? {} : { closed_webhooks: [...closed] }),
  };
}

async function refuseTaken(
  tx: Transaction,
  { webhooks }: { readonly webhooks: WebhookChanges },
): Promise<DirectiveEnd | undefined> {
  const id = await findTakenWebhook(tx, webhooks);
  return id === undefined ? undefined : describeTakenWebhook(id);
}

function countKinds(provisions: readonly Provision[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of provisions) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
