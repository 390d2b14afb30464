import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import type { Row, Session, Transaction } from '../ledger/dialect.ts';
import { insertRow } from '../ledger/insert.ts';
import {
  tenantTable,
  type DueTenants,
  type TenantDraft,
  type TenantKeyKind,
  type TenantLimits,
  type TenantRow,
  type TenantSchema,
  type TenantStatus,
} from './tenants.ts';
import { text } from '../ledger/row.ts';

export async function listTenants(session: Session): Promise<TenantRow[]> {
  const rows = await session.run(`select * from ${session.dialect.table('tenants')} order by slug`);
  return rows.map(toTenant);
}

export async function findTenant(session: Session, slug: string): Promise<TenantRow | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('tenants')} where slug = ?`,
    [slug],
  );
  return row === undefined ? undefined : toTenant(row);
}

export async function insertTenant(tx: Transaction, draft: TenantDraft): Promise<boolean> {
  const now = { sql: tx.dialect.now };
  const made = await insertRow(
    tx,
    tenantTable,
    { ...draft, ...draft.limits, status: 'creating', createdAt: now, updatedAt: now },
    'on conflict (slug) do nothing returning slug',
  );
  return made.length > 0;
}

export async function updateTenantStatus(
  tx: Transaction,
  slug: string,
  from: readonly TenantStatus[],
  to: TenantStatus,
): Promise<boolean> {
  const moved = await tx.run(
    `update ${tx.dialect.table('tenants')} set status = ?, updated_at = ${tx.dialect.now}
        ${to === 'active' ? `, due_at = ${tx.dialect.now}` : ''}
      where slug = ? and status in (${from.map(() => '?').join(', ')}) returning slug`,
    [to, slug, ...from],
  );
  return moved.length > 0;
}

export async function updateTenantLimits(
  tx: Transaction,
  slug: string,
  { workers, queueLength, signalsPerMinute, storageBytes }: TenantLimits,
): Promise<boolean> {
  const set = await tx.run(
    `update ${tx.dialect.table('tenants')} set workers = ?, queue_length = ?,
        signals_per_minute = ?, storage_bytes = ?, updated_at = ${tx.dialect.now}
      where slug = ? returning slug`,
    [workers, queueLength, signalsPerMinute, storageBytes, slug],
  );
  return set.length > 0;
}

export async function deleteTenantRow(tx: Transaction, slug: string): Promise<void> {
  await tx.run(`delete from ${tx.dialect.table('tenant_keys')} where slug = ?`, [slug]);
  await tx.run(`delete from ${tx.dialect.table('tenants')} where slug = ?`, [slug]);
}

/** The exact condition of the partial index, so that it is used. */
const mayBeDue = `due_at is not null and status in ('active', 'suspended')`;

export async function listDueTenants(session: Session, limit: number): Promise<DueTenants> {
  const { dialect: d } = session;
  const rows = await session.run(
    `select slug, due_at, (select ${d.now}) as now from ${d.table('tenants')}
      where ${mayBeDue} order by due_at, slug limit ?`,
    [limit + 1],
  );
  const isDue = (row: Row): boolean => text(row, 'due_at') <= text(row, 'now');
  const next = rows.find((row) => !isDue(row));
  const slugs = rows.filter(isDue).map((row) => text(row, 'slug'));
  return {
    slugs: slugs.slice(0, limit),
    nextInMs: next === undefined ? undefined : msUntil(next),
  };
}

/** Lists tenants that a host may have open: while one is open, its `due_at` is in the past. */
export async function listOpenTenants(session: Session): Promise<string[]> {
  const { dialect: d } = session;
  const rows = await session.run(
    `select slug from ${d.table('tenants')} where ${mayBeDue} and due_at <= (select ${d.now})`,
  );
  return rows.map((row) => text(row, 'slug'));
}

function msUntil(row: Row): number {
  return fromTimestamp(text(row, 'due_at')) - fromTimestamp(text(row, 'now'));
}

/** The next due time of a tenant, and the row from which it follows. */
export interface TenantDueTime {
  readonly at: Timestamp;
  readonly row?: Pick<TenantRow, 'updatedAt'>;
}

/**
 * Records when a tenant is due. The earliest time wins: a host that read the ledger before another one
 * made work due must not delay it. A due time in the past is replaced. If the row has changed since, the
 * due time stays: a tenant may have been resumed after it was read as suspended.
 */
export async function recordTenantDue(
  tx: Transaction,
  slug: string,
  due: 'now' | TenantDueTime | null,
): Promise<void> {
  const { dialect: d } = tx;
  if (due === 'now') {
    await tx.run(
      `update ${d.table('tenants')} set due_at = ${d.now}
        where slug = ? and (due_at is null or due_at > (select ${d.now}))`,
      [slug],
    );
    return;
  }
  const isFirst = due === null ? '' : 'and due_at < ?';
  const at = due === null ? [] : [due.at];
  const row = due?.row;
  await tx.run(
    `update ${d.table('tenants')} set due_at = case
        when due_at > (select ${d.now}) ${isFirst} then due_at
        else ${due === null ? 'null' : '?'} end
      where slug = ? ${row === undefined ? '' : 'and updated_at = ?'}`,
    [...at, ...at, slug, ...(row === undefined ? [] : [row.updatedAt])],
  );
}

export async function recordAllTenantsDue(tx: Transaction): Promise<void> {
  const { dialect: d } = tx;
  await tx.run(
    `update ${d.table('tenants')} set due_at = (select ${d.now})
      where status in ('active', 'suspended') and (due_at is null or due_at > (select ${d.now}))`,
  );
}

export async function recordTenantSchema(
  tx: Transaction,
  slug: string,
  { version, error }: TenantSchema,
): Promise<void> {
  await tx.run(
    `update ${tx.dialect.table('tenants')} set schema_version = ?, schema_error = ?,
        schema_at = ${tx.dialect.now} where slug = ?`,
    [version, error, slug],
  );
}

export async function insertTenantKey(
  tx: Transaction,
  kind: TenantKeyKind,
  key: string,
  slug: string,
): Promise<boolean> {
  const { dialect: d } = tx;
  // The root ledger has its own webhooks at the same addresses.
  if (kind === 'hook' && (await isRootWebhook(tx, key))) return false;
  await tx.run(
    `insert into ${d.table('tenant_keys')} (kind, key, slug, created_at) values (?, ?, ?, ${d.now})
      on conflict (kind, key) do nothing`,
    [kind, key, slug],
  );
  return (await findTenantByKey(tx, kind, key)) === slug;
}

async function isRootWebhook(tx: Transaction, id: string): Promise<boolean> {
  const rows = await tx.run(`select id from ${tx.dialect.table('webhooks')} where id = ?`, [id]);
  return rows.length > 0;
}

export async function deleteTenantKey(
  tx: Transaction,
  kind: TenantKeyKind,
  key: string,
): Promise<void> {
  await tx.run(`delete from ${tx.dialect.table('tenant_keys')} where kind = ? and key = ?`, [
    kind,
    key,
  ]);
}

export async function findTenantByKey(
  session: Session,
  kind: TenantKeyKind,
  key: string,
): Promise<string | undefined> {
  const [row] = await session.run(
    `select slug from ${session.dialect.table('tenant_keys')} where kind = ? and key = ?`,
    [kind, key],
  );
  return row === undefined ? undefined : text(row, 'slug');
}

function toTenant(row: Row): TenantRow {
  const { workers, queueLength, signalsPerMinute, storageBytes, ...tenant } =
    tenantTable.decode(row);
  return { ...tenant, limits: { workers, queueLength, signalsPerMinute, storageBytes } };
}
