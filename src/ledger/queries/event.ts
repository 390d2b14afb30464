import { makeToken } from '../../base/ids.ts';
import type { Session, Transaction } from '../dialect.ts';
import type { AttemptEvent, EventPlace, EventRows, Position, SignalEvent } from '../ledger.ts';
import { writeMeta } from './meta.ts';
import { int, text, toAttempt } from './row.ts';
import { toSignal } from './signal.ts';

/**
 * What was recorded after a place, in an order that later commits only ever add to. Rows of a
 * transaction that is not over, or that began before one that is not, come later.
 */
export async function listEvents(
  session: Session,
  after: EventPlace,
  limit: number,
): Promise<EventRows> {
  const [signals, attempts] = await Promise.all([
    listAfter(session, 'signals', '*', after.signals, limit),
    listAfter(session, 'job_log', lightColumns, after.attempts, limit),
  ]);
  return {
    signals: signals.map((row): SignalEvent => ({ ...toSignal(row), position: toPosition(row) })),
    attempts: attempts.map((row): AttemptEvent => ({
      ...toAttempt(row),
      position: toPosition(row),
    })),
  };
}

/** The place behind everything that was recorded so far. */
export async function endOfEvents(session: Session): Promise<EventPlace> {
  const { dialect } = session;
  const { settledBelow } = dialect;
  if (settledBelow !== undefined) {
    const [row] = await session.run(`select ${settledBelow} as tx`);
    const position = { tx: int(row ?? {}, 'tx'), seq: 0 };
    return { signals: position, attempts: position };
  }
  const [row] = await session.run(
    `select (select coalesce(max(seq), 0) from ${dialect.table('signals')}) as signals,
      (select coalesce(max(seq), 0) from ${dialect.table('job_log')}) as attempts`,
  );
  return {
    signals: { tx: 0, seq: int(row ?? {}, 'signals') },
    attempts: { tx: 0, seq: int(row ?? {}, 'attempts') },
  };
}

/**
 * A schema that was brought here from another PostgreSQL has rows of transactions that this one has
 * not had yet: they would wait for them, and new rows would sort before old ones. Their order is begun
 * anew, and with a new epoch so is every place in it.
 */
export async function adoptEvents(tx: Transaction): Promise<void> {
  const { dialect } = tx;
  if (dialect.unbegun === undefined) return;
  const tables = [dialect.table('signals'), dialect.table('job_log')];
  const foreign = tables.map(
    (table) => `select 1 as one from ${table} where tx >= ${dialect.unbegun}`,
  );
  const found = await tx.run(`${foreign.join(' union all ')} limit 1`);
  if (found.length === 0) return;
  for (const table of tables) await tx.run(`update ${table} set tx = 0 where tx > 0`);
  await writeMeta(tx, 'epoch', makeToken());
}

/** What an attempt said may be large, and is for those who ask for it. */
const lightColumns = `seq, tx, id, job_id, plugin, command, status, cause, attempt, submitted_by,
  created_at, started_at, completed_at, last_error, stderr_truncated, exit_code, signal, pid,
  queue_ms, spawn_ms, run_ms, settle_ms, process_id, claim_token, parent_job_id, source_event_id`;

function listAfter(
  session: Session,
  table: 'job_log' | 'signals',
  columns: string,
  { tx, seq }: Position,
  limit: number,
) {
  const { dialect } = session;
  const { settledBelow } = dialect;
  if (settledBelow === undefined) {
    return session.run(
      `select ${columns} from ${dialect.table(table)} where seq > ? order by seq limit ?`,
      [seq, limit],
    );
  }
  return session.run(
    `select ${columns} from ${dialect.table(table)}
      where (tx, seq) > (?, ?) and tx < (select ${settledBelow}) order by tx, seq limit ?`,
    [tx, seq, limit],
  );
}

function toPosition(row: Parameters<typeof text>[0]): Position {
  return { tx: int(row, 'tx'), seq: int(row, 'seq') };
}
