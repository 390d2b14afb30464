import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { DuctileError, messageOf } from '../base/errors.ts';
import type {
  Dialect,
  Row,
  RowsStatement,
  Session,
  Store,
  Transaction,
  Value,
  VerbName,
} from './dialect.ts';
import { afterCommit, beforeCommit } from './fault.ts';
import { compileRows } from './rows.ts';
import { openReader, openWriter, sqliteCode } from './sqlite-file.ts';

const NOW = `strftime('%Y-%m-%dT%H:%M:%fZ', 'now')`;

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  table: (name) => name,
  types: { int: 'integer', text: 'text', identity: 'integer primary key autoincrement' },
  now: NOW,
  nowPlus: (ms) => `strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (${ms} / 1000.0) || ' seconds')`,
  forUpdate: '',
  skipLocked: '',
  lockClaims: undefined,
  rowsOf: 'loop',
};

export interface SqliteStore extends Store {
  readonly path: string;
  /** The writing connection, for what only it can do: backup and checks. */
  readonly writer: DatabaseSync;
}

interface Unit {
  readonly names: readonly VerbName[];
  readonly work: (tx: Transaction) => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * One file, one writing connection, one reading one. The writes of one turn of the event loop share
 * one transaction, each in a savepoint of its own; whoever asked is answered after the commit.
 */
export function openSqlite(path: string): SqliteStore {
  const writer = openWriter(path);
  const transaction = { ...makeSession(writer), again: false };
  let reader: Session | undefined;
  let readerDb: DatabaseSync | undefined;
  let waiting: Unit[] = [];
  let flushing: Promise<void> | undefined;

  const flush = async (): Promise<void> => {
    while (waiting.length > 0) {
      const units = waiting;
      waiting = [];
      await runGroup(writer, transaction, units);
    }
    flushing = undefined;
  };

  return {
    dialect: sqliteDialect,
    path,
    writer,
    async read(work) {
      // Opened late: before the first migration there is nothing to read.
      readerDb ??= openReader(path);
      reader ??= makeSession(readerDb);
      try {
        return await work(reader);
      } catch (error) {
        throw classify(error);
      }
    },
    write<T>(names: readonly VerbName[], work: (tx: Transaction) => Promise<T>) {
      return new Promise<T>((resolve, reject) => {
        waiting.push({ names, work, resolve: resolve as (value: unknown) => void, reject });
        flushing ??= new Promise<void>((done) => setImmediate(done)).then(flush);
      });
    },
    async close() {
      await flushing;
      readerDb?.close();
      writer.close();
    },
  };
}

type Result = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: unknown };

/** Runs a turn's units in one transaction; if the database itself gives up on it, one by one. */
async function runGroup(db: DatabaseSync, tx: Transaction, units: readonly Unit[]): Promise<void> {
  try {
    const results = await runTogether(db, tx, units);
    for (const { names } of units) afterCommit(names);
    units.forEach((unit, index) => answer(unit, results[index]));
  } catch (error) {
    rollback(db);
    if (units.length === 1) units.forEach((unit) => unit.reject(classify(error)));
    else for (const unit of units) await runGroup(db, tx, [unit]);
  }
}

async function runTogether(
  db: DatabaseSync,
  tx: Transaction,
  units: readonly Unit[],
): Promise<Result[]> {
  db.exec('begin immediate');
  const results: Result[] = [];
  for (const unit of units) {
    if (units.length > 1) db.exec('savepoint unit');
    try {
      results.push({ ok: true, value: await unit.work(tx) });
      if (units.length > 1) db.exec('release unit');
    } catch (error) {
      // A full disk or an I/O error may have ended the whole transaction, not only this unit.
      if (units.length === 1 || !db.isTransaction) throw error;
      db.exec('rollback to unit');
      db.exec('release unit');
      results.push({ ok: false, error: classify(error) });
    }
  }
  units.forEach((unit, index) => results[index]?.ok === true && beforeCommit(unit.names));
  db.exec('commit');
  return results;
}

function answer(unit: Unit, result: Result | undefined): void {
  if (result?.ok === true) unit.resolve(result.value);
  else unit.reject(result?.error);
}

function rollback(db: DatabaseSync): void {
  if (!db.isTransaction) return;
  try {
    db.exec('rollback');
  } catch {
    // Some errors roll back by themselves; then there is nothing left to undo.
  }
}

function makeSession(db: DatabaseSync): Session {
  const statements = new Map<string, StatementSync>();
  const prepare = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (statement === undefined) statements.set(sql, (statement = db.prepare(sql)));
    return statement;
  };
  return {
    dialect: sqliteDialect,
    run: (sql, values = []) => attempt(() => prepare(sql).all(...values) as Row[]),
    each: (definition: RowsStatement, rows, common: readonly Value[] = []) =>
      attempt(() => {
        if (rows.length === 0) return [];
        const { text, bind } = compileRows(sqliteDialect, definition);
        const statement = prepare(text);
        const found: Row[] = [];
        for (const values of bind(rows, common) as Value[][]) {
          for (const row of statement.all(...values)) found.push(row as Row);
        }
        return found;
      }),
  };
}

/** Results and errors alike reach the caller through the promise, as they do on PostgreSQL. */
function attempt<T>(work: () => T): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (error) {
    return Promise.reject(error);
  }
}

const UNAVAILABLE = new Map([
  [5, 'busy'],
  [6, 'locked'],
  [7, 'out of memory'],
  [8, 'read-only'],
  [10, 'I/O error'],
  [13, 'disk full'],
  [14, 'cannot open'],
]);
const SQLITE_CORRUPT = 11;

function classify(error: unknown): unknown {
  const code = sqliteCode(error);
  if (code === undefined) return error;
  const known = UNAVAILABLE.get(code);
  if (known !== undefined) {
    return new DuctileError('LEDGER_UNAVAILABLE', `SQLite: ${known}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  if (code !== SQLITE_CORRUPT) return error;
  return new DuctileError('LEDGER_CORRUPT', `SQLite: ${messageOf(error)}`, { cause: error });
}
