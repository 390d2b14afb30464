import { noRules } from './rules.ts';
import { existsSync, linkSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeDirectories } from '../base/files.ts';
import { makeToken } from '../base/ids.ts';
import {
  copyFile,
  copyTables,
  readFilePages,
  removeDatabase,
  SIDE_FILES,
  syncPath,
} from './backup.ts';
import { checkSqliteFile, collectProblems } from './check.ts';
import { tables, type Row, type Transaction, type TableName } from './dialect.ts';
import { migrate, requireKnownSchema, schemaVersion } from './migrate.ts';
import { openLedger, type LedgerLocation } from './open.ts';
import { openPostgres, type PostgresStore } from './postgres/store.ts';
import { writeMeta } from './meta.ts';
import { int, text } from './row.ts';
import { openReadonlyLedger, readSchemaVersion } from './open-readonly.ts';
import { APPLICATION_ID, openReadonlyFile, pragma } from './sqlite/file.ts';
import { readInThread } from './sqlite/read-thread.ts';
import { openSqlite } from './sqlite/store.ts';

export interface RestoreResult {
  /** The new path of the previous ledger, if there was one. */
  readonly previous: string | undefined;
}

/**
 * Replaces a ledger with a backup. The restored ledger has a new epoch, so that cursors of the old one
 * are refused. It starts paused, because other systems have changed since the backup was made.
 */
export async function restoreLedger(
  from: string,
  location: LedgerLocation,
): Promise<RestoreResult> {
  await checkBackup(from);
  if (location.kind === 'sqlite') return restoreSqlite(from, location.path);
  await withCurrentSchema(from, (path) => restorePostgres(path, from, location));
  return { previous: undefined };
}

/** Describes what a restore would do, with all checks that are possible without changes. */
export async function planRestore(from: string, location: LedgerLocation): Promise<string[]> {
  await checkBackup(from);
  return [
    `${from} is valid: ${describeBackup(from)}.`,
    await describeTarget(location),
    'The service will be paused until you run `ductile system resume`.',
  ];
}

function describeBackup(path: string): string {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    const row = db
      .prepare(
        `select count(*) as jobs, max(created_at) as latest,
          count(case when status in ('queued', 'running') then 1 end) as open from job_queue`,
      )
      .get() as Row;
    if (row['latest'] === null) return 'it has no jobs';
    return `it has ${int(row, 'jobs')} jobs, ${int(row, 'open')} of them open, the latest from ${text(row, 'latest')}`;
  } finally {
    db.close();
  }
}

async function describeTarget(location: LedgerLocation): Promise<string> {
  if (location.kind === 'sqlite') {
    if (!existsSync(location.path)) return `It will be written to ${location.path}.`;
    requireLedgerFile(location.path);
    return `It will replace ${location.path}. The old file will be kept beside it.`;
  }
  if (!(await isRestoreUnfinished(location))) {
    const store = openPostgres(location.url, location.schema);
    try {
      await requireUnused(store);
    } finally {
      await store.close();
    }
  }
  return `It will be written into the schema ${location.schema}.`;
}

async function checkBackup(path: string): Promise<void> {
  if (!existsSync(path)) {
    const hint = 'Name a file that `ductile system backup` wrote.';
    throw new DuctileError('BACKUP_INVALID', 'there is no such file', { place: path, hint });
  }
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    if (pragma(db, 'application_id') !== APPLICATION_ID)
      throw new Error('it is not a Ductile database');
    requireKnownSchema(Number(pragma(db, 'user_version')));
    const problems = await readInThread(path, (reading) =>
      collectProblems(reading, checkSqliteFile),
    );
    if (problems.length > 0) throw new Error(problems.join('; '));
  } catch (error) {
    if (error instanceof DuctileError) throw error;
    throw new DuctileError('BACKUP_INVALID', `not a valid backup: ${messageOf(error)}`, {
      place: path,
      hint: 'Choose another backup.',
      cause: error,
    });
  } finally {
    db?.close();
  }
}

/** Calls `work` with a file that has the rows of a backup at the current schema: a migrated copy, if it is older. */
export async function withCurrentSchema<T>(
  from: string,
  work: (path: string) => Promise<T>,
): Promise<T> {
  if ((await readSchemaVersion({ kind: 'sqlite', path: from })) === schemaVersion)
    return await work(from);
  const directory = mkdtempSync(join(tmpdir(), 'ductile-restore-'));
  try {
    const path = join(directory, 'ledger.db');
    await copyFile(from, path);
    const store = openSqlite(path);
    try {
      await store.write(['other'], async (tx) => {
        await migrate(tx);
      });
    } finally {
      await store.close();
    }
    return await work(path);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Completes the restored file before it touches the old one, which is renamed and never overwritten. */
async function restoreSqlite(from: string, path: string): Promise<RestoreResult> {
  const exists = existsSync(path);
  if (exists) requireLedgerFile(path);
  const draft = `${path}.partial`;
  try {
    makeDirectories(dirname(path));
    // Remove the draft of a killed restore: SQLite would read its journal as a part of the new one.
    removeDatabase(draft);
    await copyFile(from, draft);
    const store = openSqlite(draft);
    try {
      await store.write(['other'], async (tx) => {
        await migrate(tx);
        await startNewEpoch(tx, from);
      });
    } finally {
      await store.close();
    }
    syncPath(draft, path);
    const previous = exists ? renamePrevious(path) : undefined;
    renameSync(draft, path);
    syncPath(dirname(path));
    return { previous };
  } catch (error) {
    removeDatabase(draft);
    if (error instanceof DuctileError) throw error;
    throw new DuctileError('BACKUP_INVALID', `the restore failed: ${messageOf(error)}`, {
      place: draft,
      hint: 'The database is unchanged. Free disk space for a copy of the backup beside it, then retry.',
      cause: error,
    });
  }
}

/** Throws if the file isn't a ledger. A damaged ledger, or one of a newer version, may be replaced. */
function requireLedgerFile(path: string): void {
  try {
    openReadonlyFile(path)?.close();
  } catch (error) {
    if (!(error instanceof DuctileError)) throw error;
    if (error.code !== 'LEDGER_CORRUPT' && error.code !== 'LEDGER_NEWER') throw error;
  }
}

/** Gives the old ledger a second name. It keeps the first one until the restored file replaces it. */
function renamePrevious(path: string): string {
  const previous = `${path}.before-restore-${Date.now()}`;
  moveJournalIntoFile(path);
  for (const suffix of SIDE_FILES) {
    if (existsSync(path + suffix)) renameSync(path + suffix, previous + suffix);
  }
  try {
    linkSync(path, previous);
  } catch {
    // Some file systems have no hard links.
    renameSync(path, previous);
  }
  return previous;
}

/** Moves the journal into the file, so that one file is the whole ledger. If that fails, the journal is renamed too. */
function moveJournalIntoFile(path: string): void {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path);
    db.exec('pragma wal_checkpoint(truncate)');
  } catch {
    // The ledger is damaged and stays as it is.
  } finally {
    db?.close();
  }
}

async function restorePostgres(
  path: string,
  from: string,
  location: Extract<LedgerLocation, { kind: 'postgres' }>,
): Promise<void> {
  const isUnfinished = await isRestoreUnfinished(location);
  // An interrupted restore has all its tables, and `openLedger` would refuse it.
  if (!isUnfinished) await (await openLedger(location, noRules)).close();
  const store = openPostgres(location.url, location.schema);
  const file = new DatabaseSync(path, { readOnly: true });
  try {
    if (!isUnfinished) await requireUnused(store);
    // Rows are written in many transactions. Until the last one, no other process may open the ledger.
    await store.write(['other'], async (tx) => {
      await deleteRows(tx);
      await writeMeta(tx, 'restoring', from);
    });
    await copyTables((table) => readFilePages(file, table), store);
    await store.write(['other'], async (tx) => {
      await continueIdentities(tx, store.schema);
      await startNewEpoch(tx, from);
      await tx.run(`delete from ${tx.dialect.table('ledger_meta')} where key = 'restoring'`);
    });
  } finally {
    file.close();
    await store.close();
  }
}

/** Checks whether a restore into this location was interrupted. */
export async function isRestoreUnfinished(location: LedgerLocation): Promise<boolean> {
  return (
    location.kind === 'postgres' && (await readRestoreNote(location, 'restoring')) !== undefined
  );
}

/** Reads a note about the origin of a ledger; undefined without a ledger or a note. */
export async function readRestoreNote(
  location: LedgerLocation,
  key: 'restoring' | 'restored_from',
): Promise<string | undefined> {
  if ((await readSchemaVersion(location)) !== schemaVersion) return undefined;
  const ledger = await openReadonlyLedger(location);
  try {
    return await ledger.meta.read(key);
  } finally {
    await ledger.close();
  }
}

async function startNewEpoch(tx: Transaction, from: string): Promise<void> {
  await writeMeta(tx, 'epoch', makeToken());
  await writeMeta(tx, 'paused', '1');
  await writeMeta(tx, 'restored_from', from);
  await tx.run(`delete from ${tx.dialect.table('processes')}`);
}

async function requireUnused(store: PostgresStore): Promise<void> {
  if (!(await isLedgerUsed(store))) return;
  throw new DuctileError('BACKUP_INVALID', `the schema ${store.schema} already holds a ledger`, {
    place: 'state.url',
    hint: 'Restore into a new schema: name it with ?schema= in state.url.',
  });
}

/** Deletes the rows that a first start wrote, because the backup may have rows with the same keys. */
async function deleteRows(tx: Transaction): Promise<void> {
  const ownTables = tables.filter((table) => table !== 'schema_migrations');
  await tx.run(`truncate ${ownTables.map((table) => tx.dialect.table(table)).join(', ')}`);
}

/** Continues identity columns after the copied rows, which keep their numbers. */
async function continueIdentities(tx: Transaction, schema: string): Promise<void> {
  const found = await tx.run(
    `select table_name, column_name from information_schema.columns
      where table_schema = ? and is_identity = 'YES' order by table_name`,
    [schema],
  );
  for (const row of found) {
    const [table, column] = [text(row, 'table_name'), text(row, 'column_name')];
    await tx.run(
      `select setval(pg_get_serial_sequence('"${schema}".${table}', '${column}'),
        (select coalesce(max(${column}), 0) + 1 from "${schema}".${table}), false)`,
    );
  }
}

/** Tables that a first start fills, or that describe the location and not the work done there. */
const STARTUP_TABLES: ReadonlySet<TableName> = new Set([
  'storage_sequences',
  'schedules',
  'config_snapshots',
  'token_names',
  'pipeline_definitions',
  'processes',
  'ledger_meta',
  'schema_migrations',
]);

/** Returns whether a schema has rows besides those that a start writes, even if its version is older. */
async function isLedgerUsed(store: PostgresStore): Promise<boolean> {
  return store.read(async (session) => {
    const found = await session.run(
      'select tablename from pg_catalog.pg_tables where schemaname = ?',
      [store.schema],
    );
    const existing = new Set(found.map((row) => text(row, 'tablename')));
    for (const table of tables) {
      if (STARTUP_TABLES.has(table) || !existing.has(table)) continue;
      const sql = `select 1 as one from ${session.dialect.table(table)} limit 1`;
      if ((await session.run(sql)).length > 0) return true;
    }
    return false;
  });
}
