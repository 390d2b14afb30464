import type { Row, Session, Transaction } from '../dialect.ts';
import type { DirectiveEnd } from '../directives.ts';
import type { WebhookChange, WebhookDraft, WebhookRow } from '../webhooks.ts';
import { int, text, textOrNull } from './row.ts';
import { tenantOfKey } from './tenant.ts';

/** Its id is its address, which no other ledger of the system may have. */
export async function createWebhook(
  tx: Transaction,
  { id, settings, sealed }: WebhookDraft,
  actor: string,
): Promise<DirectiveEnd> {
  const { dialect: d } = tx;
  const [row] = await tx.run(
    `insert into ${d.table('webhooks')} (id, settings, key_id, sealed, created_by, created_at,
        updated_by, updated_at)
      values (?, ?, ?, ?, ?, ${d.now}, ?, ${d.now}) on conflict (id) do nothing returning id`,
    [id, settings, sealed?.keyId ?? null, sealed?.text ?? null, actor, actor],
  );
  const isTaken = row === undefined || (await tenantOfKey(tx, 'hook', id)) !== undefined;
  if (!isTaken) return { status: 'completed', result: { id } };
  if (row !== undefined) await remove(tx, id);
  return { status: 'failed', code: 'WEBHOOK_EXISTS', error: `there is a webhook ${id} already` };
}

export async function changeWebhook(
  tx: Transaction,
  { id, seenAt, settings, sealed }: WebhookChange,
  actor: string,
): Promise<DirectiveEnd> {
  const { dialect: d } = tx;
  const [row] = await tx.run(
    `update ${d.table('webhooks')} set settings = coalesce(?, settings),
        key_id = coalesce(?, key_id), sealed = coalesce(?, sealed),
        updated_by = ?, updated_at = ${d.now}
      where id = ? and updated_at = ? returning id`,
    [settings ?? null, sealed?.keyId ?? null, sealed?.text ?? null, actor, id, seenAt],
  );
  if (row !== undefined) return { status: 'completed', result: { id } };
  if ((await findWebhook(tx, id)) === undefined) return missing(id);
  const error = `the webhook ${id} was changed at the same moment, so this was not done`;
  return { status: 'failed', code: 'BUSY', error };
}

/** What came in through it stays on record. */
export async function deleteWebhook(tx: Transaction, id: string): Promise<DirectiveEnd> {
  const [row] = await remove(tx, id);
  return row === undefined ? missing(id) : { status: 'completed', result: { id } };
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

function missing(id: string): DirectiveEnd {
  return { status: 'failed', code: 'WEBHOOK_NOT_FOUND', error: `there is no webhook ${id}` };
}

function toWebhook(row: Row): WebhookRow {
  const keyId = textOrNull(row, 'key_id');
  return {
    id: text(row, 'id'),
    settings: text(row, 'settings'),
    sealed: keyId === null ? null : { keyId, text: text(row, 'sealed') },
    createdBy: text(row, 'created_by'),
    createdAt: text(row, 'created_at'),
    updatedBy: text(row, 'updated_by'),
    updatedAt: text(row, 'updated_at'),
    triggerCount: int(row, 'trigger_count'),
    lastTriggeredAt: textOrNull(row, 'last_triggered_at'),
    lastError: textOrNull(row, 'last_error'),
  };
}
