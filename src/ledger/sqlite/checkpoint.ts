import type { DatabaseSync } from 'node:sqlite';
import type { Worker } from 'node:worker_threads';
import { limits } from '../../base/limits.ts';
import { askThread } from './read-thread.ts';

/** Keeps the journal of a file short without holding up whoever writes. */
export interface Checkpoints {
  /** To be called after a commit, while no transaction is open. */
  committed(): void;
  /** Resolves when nothing beside the caller has the file open. */
  end(): Promise<void>;
}

/** What SQLite says of the journal: its pages, and how many of them are in the file as well. */
interface Journal {
  readonly busy: number;
  readonly log: number;
  readonly checkpointed: number;
}

/**
 * As text, so that no file has to be found beside the program that this is bundled into. Syncing in
 * full is what makes it safe to begin the journal anew: the file has everything by then.
 */
const PROGRAM = `
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  const db = new DatabaseSync(workerData.path);
  db.exec('pragma trusted_schema = off; pragma mmap_size = 0; pragma synchronous = full');
  const pass = db.prepare('pragma wal_checkpoint(passive)');
  parentPort.on('message', (asked) => {
    if (asked === 'pass') return parentPort.postMessage(pass.get());
    db.close();
    parentPort.close();
  });
`;

/**
 * SQLite would put the journal into the file within some commit, and the event loop would stand still
 * for it. Here a thread does it when the journal is long: first beside the writer, which goes on; then
 * what was written meanwhile, while the writes wait. Without that wait the journal would never be in
 * the file as a whole, so it could not begin anew and would grow as long as somebody writes. The
 * thread is there while it is needed; when it fails, SQLite does it as it always did. `between` runs
 * work while no transaction is open; nothing is written until that resolves.
 */
export function makeCheckpoints(
  path: string,
  writer: DatabaseSync,
  between: (work: () => Promise<void>) => Promise<void>,
  warn: (message: string, error: unknown) => void,
): Checkpoints {
  const look = writer.prepare('pragma wal_checkpoint(noop)');
  const thread = makeThread(path);
  let underWay: Promise<void> | undefined;
  let dueAt: number = limits.journalPages;
  let pages = 0;
  let commits = 0;
  let unseen = 0;
  let restsUntil = 0;
  let ended = false;
  setNet(writer, limits.journalPagesMax);

  const fold = async (): Promise<void> => {
    let journal = await thread.pass();
    // Somebody who reads for long is in the way: the writes would wait for nothing.
    if (isFolded(journal) && !ended)
      await between(async () => void (journal = await thread.pass()));
    dueAt = limits.journalPages + (isFolded(journal) ? 0 : journal.log);
    if (restsUntil > 0) setNet(writer, limits.journalPagesMax);
    restsUntil = 0;
  };
  const fail = (error: unknown): void => {
    if (ended) return;
    restsUntil = performance.now() + limits.checkpointRetryMs;
    setNet(writer, limits.journalPages);
    warn('no thread keeps the journal of the ledger short for now; commits do it', error);
  };
  const isDue = (): boolean => {
    commits += 1;
    if (commits <= unseen) return false;
    const { log } = look.get() as unknown as Journal;
    // It has begun anew since.
    if (log < limits.journalPages) dueAt = limits.journalPages;
    // A look costs as much as a statement: none while commits like those before cannot make it due.
    const ofCommit = Math.max(1, log < pages ? log : log - pages) / commits;
    unseen = Math.min(limits.journalCommitsUncheckedMax, Math.floor((dueAt - log) / ofCommit / 2));
    pages = log;
    commits = 0;
    return log >= dueAt;
  };

  return {
    committed() {
      if (ended || underWay !== undefined || performance.now() < restsUntil) return;
      try {
        if (!isDue()) return;
      } catch (error) {
        // What was committed is committed, whatever becomes of its journal.
        fail(error);
        return;
      }
      underWay = fold()
        .catch(fail)
        .finally(() => (underWay = undefined));
    },
    async end() {
      ended = true;
      await underWay;
      await thread.end();
    },
  };
}

function isFolded({ log, checkpointed }: Journal): boolean {
  return checkpointed === log;
}

/** From how many pages on a commit does it itself. */
function setNet(writer: DatabaseSync, pages: number): void {
  writer.exec(`pragma wal_autocheckpoint = ${pages}`);
}

interface Thread {
  pass(): Promise<Journal>;
  end(): Promise<void>;
}

/** Started when it is asked, gone when nobody asked for a while; it keeps no process alive. */
function makeThread(path: string): Thread {
  let worker: Worker | undefined;
  let idle: NodeJS.Timeout | undefined;
  const alive = new Set<Promise<void>>();
  const start = async (): Promise<Worker> => {
    const { Worker } = await import('node:worker_threads');
    const started = new Worker(PROGRAM, { eval: true, workerData: { path } });
    const gone = new Promise<void>((resolve) => started.once('exit', () => resolve()));
    alive.add(gone);
    // Whoever waits for an answer is told; nobody else needs to know.
    started.on('error', () => undefined);
    void gone.then(() => {
      alive.delete(gone);
      if (worker === started) worker = undefined;
    });
    return started;
  };
  const leave = (): void => {
    worker?.ref();
    worker?.postMessage('leave', []);
    worker = undefined;
  };
  return {
    async pass() {
      clearTimeout(idle);
      worker ??= await start();
      const asked = worker;
      asked.ref();
      try {
        return await askThread<Journal>(asked, 'pass');
      } finally {
        asked.unref();
        idle = setTimeout(leave, limits.checkpointIdleMs).unref();
      }
    },
    async end() {
      clearTimeout(idle);
      leave();
      await Promise.all(alive);
    },
  };
}
