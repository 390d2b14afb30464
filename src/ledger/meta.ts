import type { Session, Transaction } from './dialect.ts';
import { text } from './row.ts';

export type MetaKey =
  | 'attempts_pruned_to'
  | 'epoch'
  | 'incidents_watched_at'
  | 'installations_version'
  | 'paused'
  | 'pruned_at'
  | 'schedules'
  | 'restored_from'
  | 'restoring'
  | 'tenant_of';

export async function readMeta(session: Session, key: MetaKey): Promise<string | undefined> {
  const [row] = await session.run(
    `select value from ${session.dialect.table('ledger_meta')} where key = ?`,
    [key],
  );
  return row === undefined ? undefined : text(row, 'value');
}

export async function writeMeta(tx: Transaction, key: MetaKey, value: string): Promise<void> {
  await tx.run(
    `insert into ${tx.dialect.table('ledger_meta')} (key, value) values (?, ?)
      on conflict (key) do update set value = excluded.value`,
    [key, value],
  );
}
