import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import { copyTables, filePages, syncPath } from './backup.ts';
import { checkSqliteFile, findAll } from './check.ts';
import type { Transaction } from './dialect.ts';
import { migrate, refuseNewer, schemaVersion } from './migrate.ts';
import { openLedger, type LedgerPlace } from './open.ts';
import { openPostgres, type PostgresStore } from './postgres.ts';
import { writeMeta } from './queries/meta.ts';
import { text } from './queries/row.ts';
import { openToLook, schemaOf } from './reading.ts';
import { APPLICATION_ID, pragma } from './sqlite-file.ts';
import { readInThread } from './sqlite-thread.ts';
import { openSqlite } from './sqlite.ts';
import { removeLedger } from './tenant-place.ts';

export interface Restored {
  /** Where the record went that was there before, if there was one. */
  readonly previous: string | undefined;
}

/**
 * Puts a backup in place of a ledger. The restored record is a new one: it has a new epoch, so that
 * nobody takes its places for those of the old one, and it starts paused, because the world may have
 * moved on since the backup was made.
 */
export async function restoreLedger(from: string, place: LedgerPlace): Promise<Restored> {
  await checkBackup(from);
  if (place.kind === 'sqlite') return restoreSqlite(from, place.path);
  await atThisSchema(from, (path) => restorePostgres(path, from, place));
  return { previous: undefined };
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
    refuseNewer(Number(pragma(db, 'user_version')));
    const problems = await readInThread(path, (reading) => findAll(reading, checkSqliteFile));
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
export async function atThisSchema<T>(
  from: string,
  work: (path: string) => Promise<T>,
): Promise<T> {
  if ((await schemaOf({ kind: 'sqlite', path: from })) === schemaVersion) return await work(from);
  const directory = mkdtempSync(join(tmpdir(), 'ductile-restore-'));
  try {
    const path = join(directory, 'ledger.db');
    copyFileSync(from, path);
    chmodSync(path, 0o600);
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

/** The old file is moved aside, never overwritten. */
async function restoreSqlite(from: string, path: string): Promise<Restored> {
  let previous: string | undefined;
  if (existsSync(path)) {
    // Opening and closing folds the journal into the file, so that one file is the whole record.
    await (await openLedger({ kind: 'sqlite', path })).close();
    previous = `${path}.before-restore-${Date.now()}`;
    renameSync(path, previous);
  }
  const draft = `${path}.partial`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  copyFileSync(from, draft);
  const store = openSqlite(draft);
  try {
    await store.write(['other'], async (tx) => {
      await migrate(tx);
      await beginAnew(tx, from);
    });
  } finally {
    await store.close();
  }
  // In its place it is whole, and paused.
  syncPath(draft);
  renameSync(draft, path);
  syncPath(dirname(path));
  return { previous };
}

async function restorePostgres(
  path: string,
  from: string,
  place: Extract<LedgerPlace, { kind: 'postgres' }>,
): Promise<void> {
  if (await isUnfinished(place)) await removeLedger(place);
  await (await openLedger(place)).close();
  const store = openPostgres(place.url, place.schema);
  const file = new DatabaseSync(path, { readOnly: true });
  try {
    await refuseUsed(store);
    // Rows come in many transactions: until the last one nobody else may open it.
    await store.write(['other'], (tx) => writeMeta(tx, 'restoring', from));
    await copyTables((table) => filePages(file, table), store);
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
export async function isUnfinished(place: LedgerPlace): Promise<boolean> {
  return place.kind === 'postgres' && (await noteOf(place, 'restoring')) !== undefined;
}

/** What a ledger says of how it came to be; undefined where there is none. */
export async function noteOf(
  place: LedgerPlace,
  key: 'restoring' | 'restored_from',
): Promise<string | undefined> {
  if ((await schemaOf(place)) !== schemaVersion) return undefined;
  const own = await openToLook(place);
  try {
    return await own.meta(key);
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
  const used = await store.read((session) =>
    session.run(`select 1 as one from ${store.dialect.table('job_queue')} limit 1`),
  );
  if (used.length === 0) return;
  throw new DuctileError('BACKUP_INVALID', `the schema ${store.schema} already holds a ledger`, {
    place: 'state.url',
    hint: 'Restore into a new schema: name it with ?schema= in state.url.',
  });
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
