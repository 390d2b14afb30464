/**
 * The program of a reader thread, as text, so that no file has to be found beside the bundle. Each
 * message is a list of statements for one file, or the end of a transaction, or a file to close.
 *
 * A transaction lasts from the first statement of a read to its end message: all statements of one
 * read see the same commits. On Linux a thread can lower its own priority: the service's main thread
 * goes first when there are fewer processors than threads.
 */
export const READER_PROGRAM = `
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
  parentPort.on('message', ({ id, kind, ...asked }) => {
    try {
      if (kind === 'end') return end(asked.path);
      if (kind === 'close') close(asked.path);
      parentPort.postMessage({ id, rows: kind === 'run' ? run(asked) : [] });
    } catch ({ message, errcode, code }) {
      parentPort.postMessage({ id, failure: { message, errcode, code } });
    }
  });
`;
