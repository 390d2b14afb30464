import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { DuctileError, messageOf } from '../../base/errors.ts';
import { limits } from '../../base/limits.ts';

/** Syncs commits to the disk without blocking the event loop. */
export interface JournalSync {
  /** The sync in progress, of commits that are visible but not on the disk yet. It never rejects. */
  readonly inProgress: Promise<void> | undefined;
  /** Called after every commit. When it resolves, a power failure can't undo the commit. */
  readonly syncCommit: () => Promise<void>;
  /** Called before a transaction: recovers from a failed sync, or throws. */
  readonly recover: () => void;
  readonly close: () => void;
}

/** The ways to sync a file: `syncNow` blocks the event loop, and `syncInThread` uses another thread. */
export interface DiskSync {
  readonly syncNow: (file: number) => void;
  readonly syncInThread: (file: number) => Promise<void>;
  readonly nowMs: () => number;
}

const realDisk: DiskSync = {
  syncNow: fdatasyncSync,
  syncInThread: promisify(fdatasync),
  nowMs: () => performance.now(),
};

/**
 * Syncs the journal itself. With full sync, SQLite would block the event loop for the disk in every commit.
 * With normal sync, a commit only writes to the journal, in SQLite's own order, and checkpoints still
 * sync. So it is enough to sync the journal before a write resolves.
 */
export function makeJournalSync(
  path: string,
  writer: DatabaseSync,
  { syncNow, syncInThread, nowMs }: DiskSync = realDisk,
): JournalSync {
  const file = openJournal(path, writer);
  writer.exec('pragma synchronous = normal');
  // Counts changed rows. Only the schema version is written without any, and every start writes it again.
  const changes = writer.prepare('select total_changes() as changes');
  let synced: unknown;
  let inProgress: Promise<void> | undefined;
  let lastMs = Infinity;
  let hasFailed = false;

  const sync = async (): Promise<void> => {
    const since = nowMs();
    try {
      // A sync of a fast disk takes less time than another thread.
      if (lastMs < limits.inlineSyncMs) syncNow(file);
      else await syncInThread(file);
      lastMs = nowMs() - since;
    } catch (error) {
      hasFailed = true;
      lastMs = Infinity;
      throw new DuctileError(
        'LEDGER_UNAVAILABLE',
        `the disk did not sync the last writes: ${messageOf(error)}`,
        { cause: error },
      );
    }
  };

  return {
    get inProgress() {
      return inProgress;
    },
    async syncCommit() {
      const reached = changes.get()?.['changes'];
      // A transaction that found no work has written nothing.
      if (reached === synced) return;
      const syncing = sync();
      inProgress = syncing.catch(() => undefined);
      try {
        await syncing;
      } finally {
        inProgress = undefined;
      }
      synced = reached;
    },
    recover() {
      if (!hasFailed) return;
      // After a failed sync, the system may consider the pages written and never retry them. A
      // checkpoint writes them again into the file, and syncs the file.
      const { busy } = writer.prepare('pragma wal_checkpoint(truncate)').get() ?? {};
      if (busy !== 0) throw new DuctileError('LEDGER_UNAVAILABLE', 'a sync of the disk failed');
      hasFailed = false;
    },
    close: () => closeSync(file),
  };
}

/** Opens the journal. The connection keeps the same journal file until it is closed. */
function openJournal(path: string, writer: DatabaseSync): number {
  try {
    return openSync(`${path}-wal`, 'r+');
  } catch (error) {
    writer.close();
    const message = `cannot open the journal of the ledger: ${messageOf(error)}`;
    throw new DuctileError('LEDGER_UNAVAILABLE', message, { place: path, cause: error });
  }
}
