import type { Worker } from 'node:worker_threads';
import { DuctileError } from '../../base/errors.ts';
import { limits } from '../../base/limits.ts';
import type { Row, Value } from '../dialect.ts';

/** The text of a statement and its values. */
export type ReadStatement = readonly [sql: string, values: readonly Value[]];

interface Reply {
  readonly id: number;
  readonly rows?: Row[];
  readonly failure?: { readonly message: string };
}

interface Pending {
  readonly resolve: (rows: Row[]) => void;
  readonly reject: (error: unknown) => void;
}

/** A thread with read-only connections that serves one read at a time. */
export interface ReaderThread {
  /** Resolves when the thread has ended, whatever the reason. */
  readonly gone: Promise<void>;
  /** False as soon as it is known that the thread ends. */
  readonly isUsable: boolean;
  run(path: string, statements: readonly ReadStatement[]): Promise<Row[]>;
  /** Ends the transaction that the first statement of a read began. */
  endRead(path: string): void;
  close(path: string): Promise<unknown>;
  /** Rejects everything that is pending with the reason. The thread ends as soon as SQLite returns. */
  terminate(reason: unknown): void;
}

/** The error of a read whose thread ended for another reason than the read. */
export class ReaderGone extends DuctileError {
  constructor(cause?: unknown) {
    super('LEDGER_UNAVAILABLE', 'a reader thread of the database ended unexpectedly', { cause });
  }
}

export async function startReaderThread(): Promise<ReaderThread> {
  const { Worker } = await import('node:worker_threads');
  const worker = new Worker(READER_PROGRAM, {
    eval: true,
    name: 'ledger reader',
    workerData: {
      filesMax: limits.readerFilesMax,
      statementsMax: limits.readerStatementsMax,
      busyTimeoutMs: limits.busyTimeoutMs,
      niceness: limits.readerNiceness,
    },
  });
  // An idle thread doesn't keep the process alive; a pending read does.
  worker.unref();
  return attach(worker);
}

function attach(worker: Worker): ReaderThread {
  const pending = new Map<number, Pending>();
  let last = 0;
  const settle = (id: number): Pending | undefined => {
    const found = pending.get(id);
    pending.delete(id);
    if (pending.size === 0) worker.unref();
    return found;
  };
  let isUsable = true;
  const fail = (reason: unknown): void => {
    isUsable = false;
    for (const id of pending.keys()) settle(id)?.reject(reason);
  };
  worker.on('message', ({ id, rows, failure }: Reply) => {
    const read = settle(id);
    if (failure === undefined) read?.resolve(rows ?? []);
    else read?.reject(Object.assign(new Error(failure.message), failure));
  });
  worker.on('error', (error) => fail(new ReaderGone(error)));
  const gone = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      fail(new ReaderGone());
      resolve();
    });
  });
  const ask = (message: object): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      const id = (last += 1);
      pending.set(id, { resolve, reject });
      worker.ref();
      worker.postMessage({ id, ...message }, []);
    });
  return {
    gone,
    get isUsable() {
      return isUsable;
    },
    run: (path, statements) => ask({ kind: 'run', path, statements }),
    endRead: (path) => worker.postMessage({ kind: 'end', path }, []),
    close: (path) => ask({ kind: 'close', path }),
    terminate(reason) {
      fail(reason);
      void worker.terminate();
    },
  };
}

/**
 * The program of a reader thread, as text, so that no file has to be found beside the bundle. Each
 * message is a list of statements for one file, or the end of a transaction, or a file to close.
 *
 * A transaction lasts from the first statement of a read to its end message: all statements of one
 * read see the same commits. On Linux a thread can lower its own priority: the service's main thread
 * goes first when there are fewer processors than threads.
 */
const READER_PROGRAM = `
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  const os = process.getBuiltinModule('node:os');
  if (process.platform === 'linux') {
    try { os.setPriority(0, workerData.niceness); } catch {}
  }
  const files = new Map();
  const open = (path) => {
    let file = files.get(path);
    if (file !== undefined) {
      files.delete(path);
    } else {
      const db = new DatabaseSync(path, { readOnly: true, timeout: workerData.busyTimeoutMs });
      db.exec('pragma trusted_schema = off; pragma cell_size_check = on; pragma mmap_size = 0');
      file = { db, statements: new Map() };
    }
    files.set(path, file);
    for (const other of files.keys()) {
      if (files.size <= workerData.filesMax) break;
      close(other);
    }
    return file;
  };
  const close = (path) => {
    files.get(path)?.db.close();
    files.delete(path);
  };
  const prepare = ({ db, statements }, sql) => {
    let statement = statements.get(sql);
    if (statement !== undefined) {
      statements.delete(sql);
    } else {
      statement = db.prepare(sql);
    }
    statements.set(sql, statement);
    for (const other of statements.keys()) {
      if (statements.size <= workerData.statementsMax) break;
      statements.delete(other);
    }
    return statement;
  };
  const run = ({ path, statements }) => {
    const file = open(path);
    if (!file.db.isTransaction) file.db.exec('begin');
    const rows = [];
    for (const [sql, values] of statements) {
      for (const row of prepare(file, sql).all(...values)) rows.push(row);
    }
    return rows;
  };
  const end = (path) => {
    const db = files.get(path)?.db;
    if (db?.isTransaction) db.exec('rollback');
  };
  parentPort.on('message', ({ id, kind, ...request }) => {
    try {
      if (kind === 'end') return end(request.path);
      if (kind === 'close') close(request.path);
      parentPort.postMessage({ id, rows: kind === 'run' ? run(request) : [] });
    } catch ({ message, errcode, code }) {
      parentPort.postMessage({ id, failure: { message, errcode, code } });
    }
  });
`;
