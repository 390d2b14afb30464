import type { Worker } from 'node:worker_threads';
import type { Row, Session } from '../dialect.ts';
import { sqliteDialect } from './session.ts';
import { toLedgerError } from './file.ts';

/** What can be asked of a file beside those who work with it. */
export type CheckSession = Pick<Session, 'dialect' | 'run'>;

interface Told {
  readonly rows?: Row[];
  readonly failure?: { readonly message: string; readonly errcode: unknown };
}

/** As text, so that no file has to be found beside the program that this is bundled into. */
const PROGRAM = `
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  let db;
  parentPort.on('message', (sql) => {
    try {
      if (db === undefined) {
        // Opened to be written, which nobody may: where it is opened to be read alone, SQLite does not
        // know the constraints of columns and finds no value that breaks one.
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
 * Reads a SQLite file in a thread of its own: what looks at all of a large file would otherwise keep
 * everybody waiting. Statements are asked for one after the other, without values.
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
    const { rows, failure } = await askThread<Told>(worker, sql);
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

/** One question and its answer; whoever asks waits for that before the next one. */
export function askThread<T>(worker: Worker, question: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const onEnd = (error: unknown): void =>
      reject(error instanceof Error ? error : new Error('the thread beside the ledger has ended'));
    worker.once('error', onEnd);
    worker.once('exit', onEnd);
    worker.once('message', (answer: T) => {
      worker.off('error', onEnd);
      worker.off('exit', onEnd);
      resolve(answer);
    });
    worker.postMessage(question, []);
  });
}
