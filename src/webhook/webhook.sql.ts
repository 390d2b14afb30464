import { DuctileError } from '../base/errors.ts';
import type { Row, Session, Transaction } from '../ledger/dialect.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import type { WebhookMoves } from '../package/types.ts';
import type { WebhookChange, WebhookDraft, WebhookRow } from './types.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { tenantOfKey } from '../tenant/tenant.sql.ts';

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
  return taken(id);
}

export async function changeWebhook(
  tx: Transaction,
  { seenAt, ...change }: WebhookChange,
  actor: string,
): Promise<DirectiveEnd> {
  const { id } = change;
  if (await update(tx, change, actor, seenAt)) return { status: 'completed', result: { id } };
  if ((await findWebhook(tx, id)) === undefined) return missing(id);
  const error = `the webhook ${id} was changed at the same moment, so this was not done`;
  return { status: 'failed', code: 'BUSY', error };
}

/** With the installation that brings them; whoever has the lock of directives alone changes them. */
export async function moveWebhooks(
  tx: Transaction,
  { opened, changed, closed }: WebhookMoves,
  actor: string,
): Promise<void> {
  for (const id of closed) await remove(tx, id);
  for (const change of changed) await update(tx, change, actor);
  for (const draft of opened) {
    const end = await createWebhook(tx, draft, actor);
    // Half an installation must not be: the whole of it is undone.
    if (end.status === 'failed') throw new DuctileError(end.code, end.error);
  }
}

/** The first address among those to be opened that somebody else has. */
export async function findTakenWebhook(
  tx: Transaction,
  { opened }: WebhookMoves,
): Promise<string | undefined> {
  for (const { id } of opened) {
    const isTaken = (await findWebhook(tx, id)) !== undefined;
    if (isTaken || (await tenantOfKey(tx, 'hook', id)) !== undefined) return id;
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

export function taken(id: string): DirectiveEnd {
  return { status: 'failed', code: 'WEBHOOK_EXISTS', error: `there is a webhook ${id} already` };
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
