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
/** More pages than a file of SQLite has, so that one step copies all of them. */
const PAGES_MAX = 2 ** 31 - 1;
const ROWS_PER_PAGE = 1000;

/** Copies a ledger in use through its own writing connection, checks the copy, then renames it to its target. */
export async function backupSqlite(
  store: SqliteStore,
  target: string,
  directive?: CopyDirective,
): Promise<void> {
  await writeCheckedCopy(target, directive, async (draft) => {
    let copied: Promise<unknown> = Promise.resolve();
    // Later steps wait for the end of a transaction, but Node fails if one is open at the first step.
    await store.between(async () => {
      await new Promise<void>((started) => {
        copied = backup(store.writer, draft, { rate: PAGES_PER_STEP, progress: () => started() });
        copied.then(
          () => started(),
          () => started(),
        );
      });
    });
    await copied;
  });
}

/**
 * Copies the file of a ledger over a read-only connection while another process may be writing. It takes
 * one step: after a write between two steps, SQLite would start the copy from the beginning.
 */
export async function copySqlite(reader: DatabaseSync, target: string): Promise<void> {
  await writeCheckedCopy(target, undefined, async (draft) => {
    await backup(reader, draft, { rate: PAGES_MAX });
  });
}

/**
 * Copies a PostgreSQL ledger from one snapshot into a SQLite ledger file with the same tables. So Ductile
 * alone can read, check and restore the copy.
 */
export async function backupPostgres(
  store: PostgresStore,
  target: string,
  directive?: CopyDirective,
): Promise<void> {
  await writeCheckedCopy(target, directive, async (draft) => {
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

async function writeCheckedCopy(
  target: string,
  directive: CopyDirective | undefined,
  write: (draft: string) => Promise<void>,
): Promise<void> {
  if (existsSync(target)) {
    throw new DuctileError('BACKUP_INVALID', 'the target already exists', {
      place: target,
      hint: 'Name a file that does not exist yet.',
    });
  }
  const draft = `${target}.partial`;
  try {
    removeDatabase(draft);
    // Created with its mode before it is filled, so that other users can never read it.
    closeSync(openSync(draft, 'wx', 0o600));
  } catch (error) {
    throw toBackupError(target, error);
  }
  try {
    await write(draft);
    if (directive !== undefined) completeDirective(draft, directive);
    await checkCopy(draft);
    renameSync(draft, target);
    syncPath(dirname(target));
  } catch (error) {
    removeDatabase(draft);
    throw toBackupError(target, error);
  }
}

function toBackupError(place: string, error: unknown): DuctileError {
  if (error instanceof DuctileError) return error;
  const message = `the backup failed: ${messageOf(error)}`;
  return new DuctileError('BACKUP_INVALID', message, { place, cause: error });
}

/**
 * Completes the directive of a copy inside the copy, which was made while the directive was running.
 * Otherwise the directive would fail when the copy is opened, although the copy proves that it completed.
 */
function completeDirective(path: string, { id, result }: CopyDirective): void {
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

/** Checks a copy, after moving its journal into the file so that the copy is one file. */
async function checkCopy(path: string): Promise<void> {
  const db = new DatabaseSync(path);
  try {
    db.exec('pragma journal_mode = delete');
  } finally {
    db.close();
  }
  const problems = await readInThread(path, (reading) => collectProblems(reading, checkSqliteFile));
  if (problems.length === 0) return;
  throw new DuctileError('BACKUP_INVALID', `the copy is damaged: ${problems.join('; ')}`);
}

/**
 * Syncs a file or directory, so that a power failure can't undo its content or the names in it. A draft
 * also gets the owner of the path that it is a draft of.
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

/** The suffixes of files that SQLite creates beside a database. */
export const SIDE_FILES = ['-wal', '-shm', '-journal'] as const;

export function removeDatabase(path: string): void {
  for (const suffix of ['', ...SIDE_FILES]) rmSync(path + suffix, { force: true });
}

/** Copies a file without writers, including its journal. Only the owner may read the copy. */
export async function copyFile(from: string, to: string): Promise<void> {
  closeSync(openSync(to, 'wx', 0o600));
  const reader = new DatabaseSync(from, { readOnly: true });
  try {
    await backup(reader, to, { rate: PAGES_MAX });
  } finally {
    reader.close();
  }
}

/** Reads one table in pages, all from the same snapshot. */
export type ReadPages = (table: TableName) => AsyncIterable<Row[]>;

/** Reads one table of a SQLite file in pages. */
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

/** Tables that belong to a location and not to the record: live processes, and the history of the schema. */
const EXCLUDED: ReadonlySet<TableName> = new Set(['processes', 'schema_migrations']);

/** Tables in which a new ledger already has rows, with the key by which copied rows replace them. */
const REPLACED: Partial<Record<TableName, string>> = {
  ledger_meta: 'key',
  storage_sequences: 'name',
};

/** Copies all tables into an empty ledger of either kind. */
export async function copyTables(pagesOf: ReadPages, into: Store): Promise<void> {
  for (const table of tables) {
    if (EXCLUDED.has(table)) continue;
    for await (const rows of pagesOf(table)) await insertPage(into, table, rows);
  }
}

/** Lists columns that the target database writes: its own transaction number, and generated columns. */
function listOwnColumns(table: TableName): ReadonlySet<string> {
  const derived: Partial<Record<TableName, object>> = derivedColumns;
  return new Set(['tx', ...Object.keys(derived[table] ?? {})]);
}

async function insertPage(into: Store, table: TableName, rows: readonly Row[]): Promise<void> {
  const own = listOwnColumns(table);
  const columns = Object.keys(rows[0] ?? {}).filter((column) => !own.has(column));
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
