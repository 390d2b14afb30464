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
  /** Where the record went that was there before, if there was one. */
  readonly previous: string | undefined;
}

/**
 * Puts a backup in place of a ledger. The restored record is a new one: it has a new epoch, so that
 * nobody takes its places for those of the old one, and it starts paused, because the world may have
 * moved on since the backup was made.
 */
export async function restoreLedger(from: string, place: LedgerLocation): Promise<RestoreResult> {
  await checkBackup(from);
  if (place.kind === 'sqlite') return restoreSqlite(from, place.path);
  await withCurrentSchema(from, (path) => restorePostgres(path, from, place));
  return { previous: undefined };
}

/** What a restore would do, checked as far as it can be without doing it. */
export async function planRestore(from: string, place: LedgerLocation): Promise<string[]> {
  await checkBackup(from);
  return [
    `${from} is sound: ${describeBackup(from)}.`,
    await planPlace(place),
    'It would be paused until `ductile system resume`.',
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
    return `it has ${int(row, 'jobs')} jobs, ${int(row, 'open')} of them open, the latest of ${text(row, 'latest')}`;
  } finally {
    db.close();
  }
}

async function planPlace(place: LedgerLocation): Promise<string> {
  if (place.kind === 'sqlite') {
    if (!existsSync(place.path)) return `It would be written to ${place.path}.`;
    refuseForeign(place.path);
    return `It would take the place of ${place.path}, which would be kept beside it.`;
  }
  if (!(await isRestoreUnfinished(place))) {
    const store = openPostgres(place.url, place.schema);
    try {
      await refuseUsed(store);
    } finally {
      await store.close();
    }
  }
  return `It would be written into the schema ${place.schema}.`;
}

async function checkBackup(path: string): Promise<void> {
  if (!existsSync(path)) {
    const hint = 'Name a file that `ductile system backup` wrote.';
    throw new DuctileError('BACKUP_INVALID', 'there is no such file', { place: path, hint });
  }
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    if (pragma(db, 'application_id') !== APPLICATION_ID) throw new Error('it is not a ledger');
    requireKnownSchema(Number(pragma(db, 'user_version')));
    const problems = await readInThread(path, (reading) =>
      collectProblems(reading, checkSqliteFile),
    );
    if (problems.length > 0) throw new Error(problems.join('; '));
  } catch (error) {
    if (error instanceof DuctileError) throw error;
    throw new DuctileError('BACKUP_INVALID', `not a sound backup: ${messageOf(error)}`, {
      place: path,
      hint: 'Choose another backup.',
      cause: error,
    });
  } finally {
    db?.close();
  }
}

/** Hands over a file with the rows of a backup as this program has them: a copy, if it is older. */
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

/** The restored file is whole before the old one is touched, which is kept and never overwritten. */
async function restoreSqlite(from: string, path: string): Promise<RestoreResult> {
  const isThere = existsSync(path);
  if (isThere) refuseForeign(path);
  const draft = `${path}.partial`;
  try {
    makeDirectories(dirname(path));
    // What a restore that was killed has left beside it would be read as a part of this one.
    removeDatabase(draft);
    await copyFile(from, draft);
    const store = openSqlite(draft);
    try {
      await store.write(['other'], async (tx) => {
        await migrate(tx);
        await beginAnew(tx, from);
      });
    } finally {
      await store.close();
    }
    syncPath(draft, path);
    const previous = isThere ? setAside(path) : undefined;
    renameSync(draft, path);
    syncPath(dirname(path));
    return { previous };
  } catch (error) {
    removeDatabase(draft);
    if (error instanceof DuctileError) throw error;
    throw new DuctileError('BACKUP_INVALID', `the restore failed: ${messageOf(error)}`, {
      place: draft,
      hint: 'The ledger is as it was. Make room for a copy of the backup beside it, then try again.',
      cause: error,
    });
  }
}

/** A ledger that is damaged, or newer than this program, is what people restore for. */
function refuseForeign(path: string): void {
  try {
    openReadonlyFile(path)?.close();
  } catch (error) {
    if (!(error instanceof DuctileError)) throw error;
    if (error.code !== 'LEDGER_CORRUPT' && error.code !== 'LEDGER_NEWER') throw error;
  }
}

/** Gives the ledger that is there a second name; the first is its own until another file takes it. */
function setAside(path: string): string {
  const previous = `${path}.before-restore-${Date.now()}`;
  foldJournal(path);
  for (const suffix of SIDE_FILES) {
    if (existsSync(path + suffix)) renameSync(path + suffix, previous + suffix);
  }
  try {
    linkSync(path, previous);
  } catch {
    // Not every file system has files with two names.
    renameSync(path, previous);
  }
  return previous;
}

/** So that one file is the whole record; where that cannot be, its journal goes with it. */
function foldJournal(path: string): void {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path);
    db.exec('pragma wal_checkpoint(truncate)');
  } catch {
    // It is damaged, and is kept as it is.
  } finally {
    db?.close();
  }
}

async function restorePostgres(
  path: string,
  from: string,
  place: Extract<LedgerLocation, { kind: 'postgres' }>,
): Promise<void> {
  const isBegun = await isRestoreUnfinished(place);
  // One that somebody was stopped while filling is opened by nobody, and has all its tables.
  if (!isBegun) await (await openLedger(place, noRules)).close();
  const store = openPostgres(place.url, place.schema);
  const file = new DatabaseSync(path, { readOnly: true });
  try {
    if (!isBegun) await refuseUsed(store);
    // Rows come in many transactions: until the last one nobody else may open it.
    await store.write(['other'], async (tx) => {
      await empty(tx);
      await writeMeta(tx, 'restoring', from);
    });
    await copyTables((table) => readFilePages(file, table), store);
    await store.write(['other'], async (tx) => {
      await continueIdentities(tx, store.schema);
      await beginAnew(tx, from);
      await tx.run(`delete from ${tx.dialect.table('ledger_meta')} where key = 'restoring'`);
    });
  } finally {
    file.close();
    await store.close();
  }
}

/** Whether somebody was stopped while they filled it. */
export async function isRestoreUnfinished(place: LedgerLocation): Promise<boolean> {
  return place.kind === 'postgres' && (await readRestoreNote(place, 'restoring')) !== undefined;
}

/** What a ledger says of how it came to be; undefined where there is none. */
export async function readRestoreNote(
  place: LedgerLocation,
  key: 'restoring' | 'restored_from',
): Promise<string | undefined> {
  if ((await readSchemaVersion(place)) !== schemaVersion) return undefined;
  const own = await openReadonlyLedger(place);
  try {
    return await own.meta.read(key);
  } finally {
    await own.close();
  }
}

async function beginAnew(tx: Transaction, from: string): Promise<void> {
  await writeMeta(tx, 'epoch', makeToken());
  await writeMeta(tx, 'paused', '1');
  await writeMeta(tx, 'restored_from', from);
  await tx.run(`delete from ${tx.dialect.table('processes')}`);
}

async function refuseUsed(store: PostgresStore): Promise<void> {
  if (!(await isLedgerUsed(store))) return;
  throw new DuctileError('BACKUP_INVALID', `the schema ${store.schema} already holds a ledger`, {
    place: 'state.url',
    hint: 'Restore into a new schema: name it with ?schema= in state.url.',
  });
}

/** What a start alone has written would meet the same rows of the backup. */
async function empty(tx: Transaction): Promise<void> {
  const ours = tables.filter((table) => table !== 'schema_migrations');
  await tx.run(`truncate ${ours.map((table) => tx.dialect.table(table)).join(', ')}`);
}

/** Rows were copied with their numbers; new ones must come after them. */
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

/** What a start writes by itself, or what tells of the place and not of what was done there. */
const OF_A_START: ReadonlySet<TableName> = new Set([
  'storage_sequences',
  'schedules',
  'config_snapshots',
  'token_names',
  'pipeline_definitions',
  'processes',
  'ledger_meta',
  'schema_migrations',
]);

/** Whether a schema holds anything that somebody would miss, whichever program made its tables. */
export async function isLedgerUsed(store: PostgresStore): Promise<boolean> {
  return store.read(async (session) => {
    const found = await session.run(
      'select tablename from pg_catalog.pg_tables where schemaname = ?',
      [store.schema],
    );
    const there = new Set(found.map((row) => text(row, 'tablename')));
    for (const table of tables) {
      if (OF_A_START.has(table) || !there.has(table)) continue;
      const sql = `select 1 as one from ${session.dialect.table(table)} limit 1`;
      if ((await session.run(sql)).length > 0) return true;
    }
    return false;
  });
}
