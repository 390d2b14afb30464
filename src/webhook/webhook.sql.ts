import { DuctileError } from '../base/errors.ts';
import type { Row, Session, Transaction } from '../ledger/dialect.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import type { WebhookChanges } from '../package/types.ts';
import { insertRow } from '../ledger/insert.ts';
import { webhookTable, type WebhookChange, type WebhookDraft, type WebhookRow } from './types.ts';

/** Inserts a webhook, unless a webhook of this ledger or of a tenant has the same id. */
export async function createWebhook(
  tx: Transaction,
  { id, settings, sealed }: WebhookDraft,
  actor: string,
): Promise<DirectiveEnd> {
  const now = { sql: tx.dialect.now };
  const [row] = await insertRow(
    tx,
    webhookTable,
    {
      id,
      settings,
      keyId: sealed?.keyId,
      sealed: sealed?.text,
      createdBy: actor,
      createdAt: now,
      updatedBy: actor,
      updatedAt: now,
    },
    'on conflict (id) do nothing returning id',
  );
  const isTaken = row === undefined || (await isTenantWebhook(tx, id));
  if (!isTaken) return { status: 'completed', result: { id } };
  if (row !== undefined) await remove(tx, id);
  return describeTakenWebhook(id);
}

/** Only the root ledger has tenants: in other ledgers the table is empty. */
async function isTenantWebhook(tx: Transaction, id: string): Promise<boolean> {
  const rows = await tx.run(
    `select slug from ${tx.dialect.table('tenant_keys')} where kind = ? and key = ?`,
    ['hook', id],
  );
  return rows.length > 0;
}

/** Updates a webhook, unless it was changed after `seenAt`. */
export async function changeWebhook(
  tx: Transaction,
  { seenAt, ...change }: WebhookChange,
  actor: string,
): Promise<DirectiveEnd> {
  const { id } = change;
  if (await update(tx, change, actor, seenAt)) return { status: 'completed', result: { id } };
  if ((await findWebhook(tx, id)) === undefined) return describeMissing(id);
  const error = `another request changed the webhook ${id} at the same time, so nothing was done`;
  return { status: 'failed', code: 'BUSY', error };
}

/**
 * Creates, updates and deletes the webhooks of an installation, in its transaction. The caller holds
 * the lock of directives, so no other change can happen at the same time.
 */
export async function moveWebhooks(
  tx: Transaction,
  { opened, changed, closed }: WebhookChanges,
  actor: string,
): Promise<void> {
  for (const id of closed) await remove(tx, id);
  for (const change of changed) await update(tx, change, actor);
  for (const draft of opened) {
    const end = await createWebhook(tx, draft, actor);
    // Roll back the whole installation.
    if (end.status === 'failed') throw new DuctileError(end.code, end.error);
  }
}

/** Finds the first id of the new webhooks that is already taken. */
export async function findTakenWebhook(
  tx: Transaction,
  { opened }: WebhookChanges,
): Promise<string | undefined> {
  for (const { id } of opened) {
    const isTaken = (await findWebhook(tx, id)) !== undefined;
    if (isTaken || (await isTenantWebhook(tx, id))) return id;
  }
  return undefined;
}

async function update(
  tx: Transaction,
  { id, settings, sealed }: Omit<WebhookChange, 'seenAt'>,
  actor: string,
  seenAt?: string,
): Promise<boolean> {
  const { dialect: d } = tx;
  const [row] = await tx.run(
    `update ${d.table('webhooks')} set settings = coalesce(?, settings),
        key_id = coalesce(?, key_id), sealed = coalesce(?, sealed),
        updated_by = ?, updated_at = ${d.now}
      where id = ? ${seenAt === undefined ? '' : 'and updated_at = ?'} returning id`,
    [
      settings ?? null,
      sealed?.keyId ?? null,
      sealed?.text ?? null,
      actor,
      id,
      ...[seenAt ?? []].flat(),
    ],
  );
  return row !== undefined;
}

/** Deletes a webhook. Its deliveries stay. */
export async function deleteWebhook(tx: Transaction, id: string): Promise<DirectiveEnd> {
  const [row] = await remove(tx, id);
  return row === undefined ? describeMissing(id) : { status: 'completed', result: { id } };
}

export async function listWebhooks(session: Session): Promise<WebhookRow[]> {
  const rows = await session.run(`select * from ${session.dialect.table('webhooks')} order by id`);
  return rows.map(toWebhook);
}

export async function findWebhook(session: Session, id: string): Promise<WebhookRow | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('webhooks')} where id = ?`,
    [id],
  );
  return row === undefined ? undefined : toWebhook(row);
}

function remove(tx: Transaction, id: string): Promise<Row[]> {
  return tx.run(`delete from ${tx.dialect.table('webhooks')} where id = ? returning id`, [id]);
}

export function describeTakenWebhook(id: string): DirectiveEnd {
  return { status: 'failed', code: 'WEBHOOK_EXISTS', error: `the webhook ${id} already exists` };
}

function describeMissing(id: string): DirectiveEnd {
  return { status: 'failed', code: 'WEBHOOK_NOT_FOUND', error: `there is no webhook ${id}` };
}

function toWebhook(row: Row): WebhookRow {
  const { keyId, sealed, ...webhook } = webhookTable.decode(row);
  const hasSecrets = keyId !== null && sealed !== null;
  return { ...webhook, sealed: hasSecrets ? { keyId, text: sealed } : null };
}
