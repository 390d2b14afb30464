import type { DatabaseSync } from 'node:sqlite';
import type { Worker } from 'node:worker_threads';
import { limits } from '../../base/limits.ts';
import { askThread } from './read-thread.ts';

/** Keeps the journal of a file short without blocking writes. */
interface Checkpoints {
  /** Called after a commit, while no transaction is open. */
  afterCommit(): void;
  /** Stops. Resolves when only the caller has the file open. */
  end(): Promise<void>;
}

/** SQLite's result of a checkpoint: the pages of the journal, and how many of them are in the file. */
interface Journal {
  readonly busy: number;
  readonly log: number;
  readonly checkpointed: number;
}

/**
 * The program of the checkpoint thread, as text, so that no file has to be found beside the bundle.
 * Full sync makes it safe to restart the journal: by then the file has everything.
 */
const PROGRAM = `
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  const db = new DatabaseSync(workerData.path);
  db.exec('pragma trusted_schema = off; pragma mmap_size = 0; pragma synchronous = full');
  const pass = db.prepare('pragma wal_checkpoint(passive)');
  parentPort.on('message', (request) => {
    if (request === 'pass') return parentPort.postMessage(pass.get());
    db.close();
    parentPort.close();
  });
`;

/**
 * Checkpoints the journal in a thread when it is long. SQLite alone would do it within a commit and block
 * the event loop. The first pass runs while writes continue. A second pass copies what was written
 * meanwhile, and writes wait for it. Without that wait the whole journal would never be in the file, so it
 * couldn't restart and would grow as long as there are writes. If the thread fails, SQLite checkpoints
 * within commits again. `between` runs work while no transaction is open, and blocks writes until then.
 */
export function makeCheckpoints(
  path: string,
  writer: DatabaseSync,
  between: (work: () => Promise<void>) => Promise<void>,
  warn: (message: string, error: unknown) => void,
): Checkpoints {
  const readJournal = writer.prepare('pragma wal_checkpoint(noop)');
  const thread = makeThread(path);
  let inProgress: Promise<void> | undefined;
  let dueAt: number = limits.journalPages;
  let pages = 0;
  let commits = 0;
  let uncheckedCommits = 0;
  let pausedUntil = 0;
  let ended = false;
  setAutoCheckpoint(writer, limits.journalPagesMax);

  const checkpoint = async (): Promise<void> => {
    let journal = await thread.pass();
    // A long read can keep the first pass from finishing. Then the writes would wait in vain.
    if (isComplete(journal) && !ended)
      await between(async () => void (journal = await thread.pass()));
    dueAt = limits.journalPages + (isComplete(journal) ? 0 : journal.log);
    if (pausedUntil > 0) setAutoCheckpoint(writer, limits.journalPagesMax);
    pausedUntil = 0;
  };
  const fail = (error: unknown): void => {
    if (ended) return;
    pausedUntil = performance.now() + limits.checkpointRetryMs;
    setAutoCheckpoint(writer, limits.journalPages);
    warn('the checkpoint thread failed; commits shorten the journal of the ledger for now', error);
  };
  const isDue = (): boolean => {
    commits += 1;
    if (commits <= uncheckedCommits) return false;
    const { log } = readJournal.get() as unknown as Journal;
    // The journal has restarted.
    if (log < limits.journalPages) dueAt = limits.journalPages;
    // Reading the length costs as much as a statement, so skip it while similar commits can't make it due.
    const pagesPerCommit = Math.max(1, log < pages ? log : log - pages) / commits;
    uncheckedCommits = Math.min(
      limits.journalCommitsUncheckedMax,
      Math.floor((dueAt - log) / pagesPerCommit / 2),
    );
    pages = log;
    commits = 0;
    return log >= dueAt;
  };

  return {
    afterCommit() {
      if (ended || inProgress !== undefined || performance.now() < pausedUntil) return;
      try {
        if (!isDue()) return;
      } catch (error) {
        // The commit has succeeded, even if its journal can't be read.
        fail(error);
        return;
      }
      inProgress = checkpoint()
        .catch(fail)
        .finally(() => (inProgress = undefined));
    },
    async end() {
      ended = true;
      await inProgress;
      await thread.end();
    },
  };
}

function isComplete({ log, checkpointed }: Journal): boolean {
  return checkpointed === log;
}

/** Sets the length of the journal at which a commit itself checkpoints. */
function setAutoCheckpoint(writer: DatabaseSync, pages: number): void {
  writer.exec(`pragma wal_autocheckpoint = ${pages}`);
}

interface Thread {
  pass(): Promise<Journal>;
  end(): Promise<void>;
}

/** Makes a thread that starts on demand and ends after some idle time. It keeps no process alive. */
function makeThread(path: string): Thread {
  let worker: Worker | undefined;
  let idle: NodeJS.Timeout | undefined;
  const alive = new Set<Promise<void>>();
  const start = async (): Promise<Worker> => {
    const { Worker } = await import('node:worker_threads');
    const started = new Worker(PROGRAM, { eval: true, workerData: { path } });
    const ended = new Promise<void>((resolve) => started.once('exit', () => resolve()));
    alive.add(ended);
    // The caller that waits for a pass gets the error; without a listener it would end the process.
    started.on('error', () => undefined);
    void ended.then(() => {
      alive.delete(ended);
      if (worker === started) worker = undefined;
    });
    return started;
  };
  const endWorker = (): void => {
    worker?.ref();
    worker?.postMessage('leave', []);
    worker = undefined;
  };
  return {
    async pass() {
      clearTimeout(idle);
      worker ??= await start();
      const current = worker;
      current.ref();
      try {
        return await askThread<Journal>(current, 'pass');
      } finally {
        current.unref();
        idle = setTimeout(endWorker, limits.checkpointIdleMs).unref();
      }
    },
    async end() {
      clearTimeout(idle);
      endWorker();
      await Promise.all(alive);
    },
  };
}
