import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { DuctileError, messageOf } from '../base/errors.ts';
import { matchOwner } from '../base/files.ts';
import { checkSqliteFile, collectProblems } from './check.ts';
import { tables, type Row, type Store, type TableName } from './dialect.ts';
import type { CopyDirective } from '../directive/types.ts';
import { migrate, schemaVersion } from './migrate.ts';
import { derivedColumns } from './migrations/0012-words.ts';
import type { PostgresStore } from './postgres/store.ts';
import { readInThread } from './sqlite/read-thread.ts';
import { openSqlite, type SqliteStore } from './sqlite/store.ts';

const PAGES_PER_STEP = 256;
/** As many as a file of SQLite may have, as far as a step can count. */
const PAGES_MAX = 2 ** 31 - 1;
const ROWS_PER_PAGE = 1000;

/** Copies a running ledger through its own writing connection, checks the copy, then names it. */
export async function backupSqlite(
  store: SqliteStore,
  target: string,
  directive?: CopyDirective,
): Promise<void> {
  await writeChecked(target, directive, async (draft) => {
    let copied: Promise<unknown> = Promise.resolve();
    // Later steps wait for a transaction to end, but Node gives up when the first one meets one.
    await store.between(async () => {
      await new Promise<void>((begun) => {
        copied = backup(store.writer, draft, { rate: PAGES_PER_STEP, progress: () => begun() });
        copied.then(
          () => begun(),
          () => begun(),
        );
      });
    });
    await copied;
  });
}

/**
 * Copies the file of a ledger that somebody else may be writing, over a connection that only reads: in
 * one step, because between two of them a write of theirs would make it begin anew.
 */
export async function copySqlite(reader: DatabaseSync, target: string): Promise<void> {
  await writeChecked(target, undefined, async (draft) => {
    await backup(reader, draft, { rate: PAGES_MAX });
  });
}

/**
 * A PostgreSQL ledger is copied into a SQLite ledger file, from one snapshot: the same tables, so
 * the copy can be looked into, checked and restored with nothing but this program.
 */
export async function backupPostgres(
  store: PostgresStore,
  target: string,
  directive?: CopyDirective,
): Promise<void> {
  await writeChecked(target, directive, async (draft) => {
    const copy = openSqlite(draft);
    try {
      await copy.write(['other'], async (tx) => {
        await migrate(tx);
        await tx.run(`pragma user_version = ${schemaVersion}`);
      });
      await store.snapshot((pagesOf) => copyTables(pagesOf, copy));
    } finally {
      await copy.close();
    }
  });
}

async function writeChecked(
  target: string,
  directive: CopyDirective | undefined,
  write: (draft: string) => Promise<void>,
): Promise<void> {
  if (existsSync(target)) {
    throw new DuctileError('BACKUP_INVALID', 'the target exists already', {
      place: target,
      hint: 'Name a file that does not exist yet.',
    });
  }
  const draft = `${target}.partial`;
  try {
    removeDatabase(draft);
    // Made before it is filled: at no time may others read it.
    closeSync(openSync(draft, 'wx', 0o600));
  } catch (error) {
    throw failed(target, error);
  }
  try {
    await write(draft);
    if (directive !== undefined) completeIn(draft, directive);
    await checkCopy(draft);
    renameSync(draft, target);
    syncPath(dirname(target));
  } catch (error) {
    removeDatabase(draft);
    throw failed(target, error);
  }
}

function failed(place: string, error: unknown): DuctileError {
  if (error instanceof DuctileError) return error;
  const message = `the backup failed: ${messageOf(error)}`;
  return new DuctileError('BACKUP_INVALID', message, { place, cause: error });
}

/**
 * A copy is made while its directive is running, so it would hold one that never ended and fail it
 * where it is opened. A copy that can be read proves that its directive completed.
 */
function completeIn(path: string, { id, result }: CopyDirective): void {
  const db = new DatabaseSync(path);
  try {
    db.prepare(
      `update directives set status = 'completed', result = ?,
        completed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') where id = ? and status = 'running'`,
    ).run(result, id);
  } finally {
    db.close();
  }
}

/** A copy that is not proven is no backup. One file is left: its journal is folded in. */
async function checkCopy(path: string): Promise<void> {
  const db = new DatabaseSync(path);
  try {
    db.exec('pragma journal_mode = delete');
  } finally {
    db.close();
  }
  const problems = await readInThread(path, (reading) => collectProblems(reading, checkSqliteFile));
  if (problems.length === 0) return;
  throw new DuctileError('BACKUP_INVALID', `the copy is not sound: ${problems.join('; ')}`);
}

/**
 * Without it a power cut may take back what a file holds, or the name that a directory has for it. A
 * draft gets the owner that is right for the place it is for.
 */
export function syncPath(path: string, draftOf?: string): void {
  const descriptor = openSync(path, 'r');
  try {
    if (draftOf !== undefined) matchOwner(descriptor, draftOf);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** What SQLite keeps beside a file. */
export const SIDE_FILES = ['-wal', '-shm', '-journal'] as const;

export function removeDatabase(path: string): void {
  for (const suffix of ['', ...SIDE_FILES]) rmSync(path + suffix, { force: true });
}

/** Copies a file that nobody writes to, with what its journal has; only its owner may read the copy. */
export async function copyFile(from: string, to: string): Promise<void> {
  closeSync(openSync(to, 'wx', 0o600));
  const reader = new DatabaseSync(from, { readOnly: true });
  try {
    await backup(reader, to, { rate: PAGES_MAX });
  } finally {
    reader.close();
  }
}

/** Brings one table in pages, all from the same snapshot. */
export type ReadPages = (table: TableName) => AsyncIterable<Row[]>;

/** The pages of a ledger that is a file. */
export async function* readFilePages(db: DatabaseSync, table: TableName): AsyncGenerator<Row[]> {
  let page: Row[] = [];
  for (const row of db.prepare(`select * from ${table}`).iterate()) {
    page.push(row as Row);
    if (page.length < ROWS_PER_PAGE) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

/** Liveness and the schema's own history belong to the place, not to the record. */
const LEFT_OUT: ReadonlySet<TableName> = new Set(['processes', 'schema_migrations']);

/** Rows that a new ledger already has, and that the copied ones replace. */
const REPLACED: Partial<Record<TableName, string>> = {
  ledger_meta: 'key',
  storage_sequences: 'name',
};

/** Copies a whole record into an empty ledger of either kind. */
export async function copyTables(pagesOf: ReadPages, into: Store): Promise<void> {
  for (const table of tables) {
    if (LEFT_OUT.has(table)) continue;
    for await (const rows of pagesOf(table)) await insertPage(into, table, rows);
  }
}

/** Transactions are numbered by each database for itself, and some columns it makes of others. */
function unwritten(table: TableName): ReadonlySet<string> {
  const derived: Partial<Record<TableName, object>> = derivedColumns;
  return new Set(['tx', ...Object.keys(derived[table] ?? {})]);
}

async function insertPage(into: Store, table: TableName, rows: readonly Row[]): Promise<void> {
  const left = unwritten(table);
  const columns = Object.keys(rows[0] ?? {}).filter((column) => !left.has(column));
  const key = REPLACED[table];
  const conflict =
    key === undefined ? '' : `on conflict (${key}) do update set value = excluded.value`;
  const sql = `insert into ${into.dialect.table(table)} (${columns.join(', ')})
    values (${columns.map(() => '?').join(', ')}) ${conflict}`;
  await into.write(['other'], async (tx) => {
    for (const row of rows)
      await tx.run(
        sql,
        columns.map((column) => row[column] ?? null),
      );
  });
}
