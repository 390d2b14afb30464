import type { Row, Session, Transaction } from '../ledger/dialect.ts';
import type { Timestamp } from '../base/clock.ts';
import { int, text } from '../ledger/row.ts';
import { WhereClause } from '../ledger/where.ts';

/** A configuration that a process starts to use. */
export interface SnapshotDraft {
  readonly id: string;
  readonly hash: string;
  /** JSON text without secrets. */
  readonly config: string;
  /** JSON text: the fingerprint of each plugin. */
  readonly plugins: string;
  readonly reason: 'start' | 'reload';
  readonly generation: number;
  readonly processId: string;
}

export type SnapshotText = Pick<SnapshotDraft, 'id' | 'config'>;

export interface ConfigSnapshot extends SnapshotDraft {
  readonly createdAt: Timestamp;
  readonly lastUsedAt: Timestamp;
}

/** The last row of a page of snapshots. */
export interface SnapshotPosition {
  readonly createdAt: string;
  readonly id: string;
}

export async function recordSnapshot(tx: Transaction, draft: SnapshotDraft): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `insert into ${dialect.table('config_snapshots')}
      (id, hash, config, plugins, reason, generation, process_id, masked, created_at, last_used_at)
      values (?, ?, ?, ?, ?, ?, ?, 1, ${dialect.now}, ${dialect.now}) on conflict (id) do nothing`,
    [
      draft.id,
      draft.hash,
      draft.config,
      draft.plugins,
      draft.reason,
      draft.generation,
      draft.processId,
    ],
  );
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
  const [row] = await session.run(
    `select * from ${session.dialect.table('config_snapshots')} where id = ?`,
    [id],
  );
  return row === undefined ? undefined : toSnapshot(row);
}

/** Lists snapshots, newest first, from those before `before`. */
export async function listSnapshots(
  session: Session,
  limit: number,
  before?: SnapshotPosition,
): Promise<ConfigSnapshot[]> {
  const where = new WhereClause();
  if (before !== undefined) where.and('(created_at, id) < (?, ?)', before.createdAt, before.id);
  const rows = await session.run(
    `select * from ${session.dialect.table('config_snapshots')} where ${where.text}
      order by created_at desc, id desc limit ?`,
    [...where.values, limit],
  );
  return rows.map(toSnapshot);
}

/** Lists snapshots of older programs, which may contain secrets. */
export async function listUnmasked(session: Session, limit: number): Promise<SnapshotText[]> {
  const rows = await session.run(
    `select id, config from ${session.dialect.table('config_snapshots')}
      where masked = 0 order by id limit ?`,
    [limit],
  );
  return rows.map((row) => ({ id: text(row, 'id'), config: text(row, 'config') }));
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

function toSnapshot(row: Row): ConfigSnapshot {
  return {
    id: text(row, 'id'),
    hash: text(row, 'hash'),
    config: text(row, 'config'),
    plugins: text(row, 'plugins'),
    reason: text(row, 'reason') as ConfigSnapshot['reason'],
    generation: int(row, 'generation'),
    processId: text(row, 'process_id'),
    createdAt: text(row, 'created_at'),
    lastUsedAt: text(row, 'last_used_at'),
  };
}
