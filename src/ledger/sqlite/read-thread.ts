import type { Worker } from 'node:worker_threads';
import type { Row, Session } from '../dialect.ts';
import { sqliteDialect } from './session.ts';
import { toLedgerError } from './file.ts';

/** The part of a session that checks use. */
export type CheckSession = Pick<Session, 'dialect' | 'run'>;

interface ThreadReply {
  readonly rows?: Row[];
  readonly failure?: { readonly message: string; readonly errcode: unknown };
}

/** The program of the thread, as text, so that no file has to be found beside the bundle. */
const PROGRAM = `
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  let db;
  parentPort.on('message', (sql) => {
    try {
      if (db === undefined) {
        // Not opened as read-only, because then SQLite doesn't load the constraints of columns and
        // finds no value that violates one. query_only prevents writes.
        db = new DatabaseSync(workerData.path);
        db.exec('pragma query_only = on; pragma trusted_schema = off; pragma cell_size_check = on');
        db.exec('pragma mmap_size = 0');
      }
      parentPort.postMessage({ rows: db.prepare(sql).all() });
    } catch ({ message, errcode }) {
      parentPort.postMessage({ failure: { message, errcode } });
    }
  });
`;

/**
 * Reads a SQLite file in a thread of its own, because a check of a large file would block the event loop.
 * Statements run one after the other and have no values.
 */
export async function readInThread<T>(
  path: string,
  work: (reading: CheckSession) => Promise<T>,
  givenUp?: AbortSignal,
): Promise<T> {
  const { Worker } = await import('node:worker_threads');
  const worker = new Worker(PROGRAM, { eval: true, workerData: { path } });
  const stop = (): void => void worker.terminate();
  givenUp?.addEventListener('abort', stop);
  if (givenUp?.aborted === true) stop();
  const run = async (sql: string): Promise<Row[]> => {
    const { rows, failure } = await askThread<ThreadReply>(worker, sql);
    if (failure === undefined) return rows ?? [];
    throw toLedgerError(Object.assign(new Error(failure.message), failure));
  };
  try {
    return await work({ dialect: sqliteDialect, run });
  } finally {
    givenUp?.removeEventListener('abort', stop);
    await worker.terminate();
  }
}

/** Sends a request to a thread and waits for its reply. Callers send one request at a time. */
export function askThread<T>(worker: Worker, request: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const onEnd = (error: unknown): void =>
      reject(error instanceof Error ? error : new Error('a thread of the ledger has ended'));
    worker.once('error', onEnd);
    worker.once('exit', onEnd);
    worker.once('message', (reply: T) => {
      worker.off('error', onEnd);
      worker.off('exit', onEnd);
      resolve(reply);
    });
    worker.postMessage(request, []);
  });
}
