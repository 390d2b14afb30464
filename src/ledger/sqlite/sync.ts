import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { DuctileError, messageOf } from '../../base/errors.ts';
import { limits } from '../../base/limits.ts';

/** Brings what was committed to the disk, while the event loop goes on. */
export interface JournalSync {
  /** What is visible but not yet on the disk; it is there, or known not to be, when this resolves. */
  readonly underWay: Promise<void> | undefined;
  /** To be called after every commit; when it resolves, a power failure does not undo it. */
  readonly committed: () => Promise<void>;
  /** Before the next transaction: makes good for a sync that failed, or throws. */
  readonly mend: () => void;
  readonly close: () => void;
}

/** How a file is synced: here, while everything stands still, or elsewhere; and how long that takes. */
export interface DiskSync {
  readonly here: (file: number) => void;
  readonly elsewhere: (file: number) => Promise<void>;
  readonly nowMs: () => number;
}

const realDisk: DiskSync = {
  here: fdatasyncSync,
  elsewhere: promisify(fdatasync),
  nowMs: () => performance.now(),
};

/**
 * In full sync SQLite would have the event loop stand still for the disk in every commit. In normal
 * sync a commit is written to the journal and no more; the order on the disk is SQLite's own, and it
 * still syncs around its checkpoints. So it is enough to sync the journal before anybody is answered.
 */
export function makeJournalSync(
  path: string,
  writer: DatabaseSync,
  { here, elsewhere, nowMs }: DiskSync = realDisk,
): JournalSync {
  const file = openJournal(path, writer);
  writer.exec('pragma synchronous = normal');
  // Of rows; the one thing that is written without any, the number of the schema, is so at every opening.
  const changes = writer.prepare('select total_changes() as changes');
  let synced: unknown;
  let underWay: Promise<void> | undefined;
  let lastMs = Infinity;
  let hasFailed = false;

  const sync = async (): Promise<void> => {
    const since = nowMs();
    try {
      // A quick disk is quicker than another thread.
      if (lastMs < limits.inlineSyncMs) here(file);
      else await elsewhere(file);
      lastMs = nowMs() - since;
    } catch (error) {
      hasFailed = true;
      lastMs = Infinity;
      throw new DuctileError(
        'LEDGER_UNAVAILABLE',
        `the disk did not take what was written: ${messageOf(error)}`,
        { cause: error },
      );
    }
  };

  return {
    get underWay() {
      return underWay;
    },
    async committed() {
      const reached = changes.get()?.['changes'];
      // Whoever looks for work and finds none has written nothing.
      if (reached === synced) return;
      const syncing = sync();
      underWay = syncing.catch(() => undefined);
      try {
        await syncing;
      } finally {
        underWay = undefined;
      }
      synced = reached;
    },
    mend() {
      if (!hasFailed) return;
      // The system may take for written what the disk refused, and never try it again. What is copied
      // into the file is written anew, and synced there.
      const { busy } = writer.prepare('pragma wal_checkpoint(truncate)').get() ?? {};
      if (busy !== 0) throw new DuctileError('LEDGER_UNAVAILABLE', 'a sync of the disk failed');
      hasFailed = false;
    },
    close: () => closeSync(file),
  };
}

/** The connection keeps its journal as long as it is open: it is the same file to the end. */
function openJournal(path: string, writer: DatabaseSync): number {
  try {
    return openSync(`${path}-wal`, 'r+');
  } catch (error) {
    writer.close();
    const message = `cannot open the journal of the ledger: ${messageOf(error)}`;
    throw new DuctileError('LEDGER_UNAVAILABLE', message, { place: path, cause: error });
  }
}
