import type { Session, Transaction } from '../ledger/dialect.ts';
import { insertRow } from '../ledger/insert.ts';
import { readRows } from '../ledger/row.ts';
import { columnOf, table, type RowOf } from '../ledger/table.ts';
import { WhereClause } from '../ledger/where.ts';

const snapshotTable = table('config_snapshots', {
  id: 'text',
  hash: 'text',
  /** JSON text without secrets. */
  config: 'text',
  /** JSON text: the fingerprint of each plugin. */
  plugins: 'text',
  reason: columnOf<'start' | 'reload'>('text'),
  generation: 'int',
  processId: 'text',
  /** False for snapshots of older programs, which may contain secrets. */
  masked: 'flag',
  createdAt: 'time',
  lastUsedAt: 'time',
});

export type ConfigSnapshot = Omit<RowOf<typeof snapshotTable>, 'masked'>;

/** A configuration that a process starts to use. */
export type SnapshotDraft = Omit<ConfigSnapshot, 'createdAt' | 'lastUsedAt'>;

export type SnapshotText = Pick<SnapshotDraft, 'id' | 'config'>;

/** The last row of a page of snapshots. */
export interface SnapshotPosition {
  readonly createdAt: string;
  readonly id: string;
}

export async function recordSnapshot(tx: Transaction, draft: SnapshotDraft): Promise<void> {
  const now = { sql: tx.dialect.now };
  const row = { ...draft, masked: true, createdAt: now, lastUsedAt: now };
  await insertRow(tx, snapshotTable, row, 'on conflict (id) do nothing');
}

/** Notes that jobs are claimed with this snapshot, so that it isn't pruned before them. */
export async function touchSnapshot(tx: Transaction, id: string): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('config_snapshots')} set last_used_at = ${dialect.now} where id = ?`,
    [id],
  );
}

export async function findSnapshot(
  session: Session,
  id: string,
): Promise<ConfigSnapshot | undefined> {
  const [snapshot] = await readRows(session, snapshotTable, 'where id = ?', [id]);
  return snapshot;
}

/** Lists snapshots, newest first, from those before `before`. */
export async function listSnapshots(
  session: Session,
  limit: number,
  before?: SnapshotPosition,
): Promise<ConfigSnapshot[]> {
  const where = new WhereClause();
  if (before !== undefined) where.and('(created_at, id) < (?, ?)', before.createdAt, before.id);
  const rest = `where ${where.text} order by created_at desc, id desc limit ?`;
  return await readRows(session, snapshotTable, rest, [...where.values, limit]);
}

/** Lists snapshots of older programs, which may contain secrets. */
export async function listUnmasked(session: Session, limit: number): Promise<SnapshotText[]> {
  const texts = snapshotTable.pick('id', 'config');
  return await readRows(session, texts, 'where masked = 0 order by id limit ?', [limit]);
}

export async function maskSnapshots(
  tx: Transaction,
  masked: readonly SnapshotText[],
): Promise<void> {
  for (const { id, config } of masked) {
    await tx.run(
      `update ${tx.dialect.table('config_snapshots')} set config = ?, masked = 1 where id = ?`,
      [config, id],
    );
  }
}
