import { DatabaseSync } from 'node:sqlite';
import { DuctileError } from '../base/errors.ts';
import { checkLedger, quickCheckLedger } from './check.ts';
import type { Store } from './dialect.ts';
import type { Ledger, LedgerSubset } from './ledger.ts';
import { migrate, requireKnownSchema, schemaVersion } from './migrate.ts';
import { silentNotifier } from './notifier.ts';
import { noRules } from './rules.ts';
import { makeFileChecks, makeLedger, type LedgerLocation } from './open.ts';
import { makeConnectionStore } from './sqlite/store.ts';
import { openReadonlyFile, pragma } from './sqlite/file.ts';

/**
 * Opens a ledger for reading while the service may be using it: nothing is locked, migrated or written.
 * A location without a ledger is read as an empty one.
 */
export async function openReadonlyLedger(location: LedgerLocation): Promise<Ledger> {
  const store = await openStore(location);
  const maintenance = (): Promise<LedgerSubset<'check' | 'quickCheck'>> =>
    makeMaintenance(location, store);
  return makeLedger(store, noRules, silentNotifier, {
    backup: () =>
      Promise.reject(new Error('a ledger that is open only for reading cannot be backed up')),
    check: async () => (await maintenance()).check(),
    quickCheck: async () => (await maintenance()).quickCheck(),
  });
}

/** Checks the rows, and for SQLite also the file: its rows may be consistent although it is damaged. */
async function makeMaintenance(
  location: LedgerLocation,
  store: Store,
): Promise<LedgerSubset<'check' | 'quickCheck'>> {
  if (location.kind === 'sqlite' && (await readSchemaVersion(location)) !== undefined)
    return makeFileChecks(location.path);
  return {
    check: () => store.read(checkLedger),
    quickCheck: () => store.read(quickCheckLedger),
  };
}

/** Reads the version of the schema at a location; undefined if there is none yet. */
export async function readSchemaVersion(location: LedgerLocation): Promise<number | undefined> {
  if (location.kind === 'sqlite') {
    const db = openReadonlyFile(location.path);
    const version = db === undefined ? 0 : Number(pragma(db, 'user_version'));
    db?.close();
    return version === 0 ? undefined : version;
  }
  const { openPostgres } = await import('./postgres/store.ts');
  const store = openPostgres(location.url, location.schema);
  try {
    return await readPostgresVersion(store, location.schema);
  } finally {
    await store.close();
  }
}

export function requireCurrentSchema(version: number): void {
  if (version >= schemaVersion) return;
  throw new DuctileError(
    'LEDGER_OLDER',
    `the ledger has schema version ${version}, this program works with version ${schemaVersion}`,
  );
}

async function openStore(location: LedgerLocation): Promise<Store> {
  if (location.kind === 'sqlite') return openFile(location.path);
  const { openPostgres } = await import('./postgres/store.ts');
  const store = openPostgres(location.url, location.schema);
  try {
    const version = await readPostgresVersion(store, location.schema);
    if (version === undefined) {
      throw new DuctileError('LEDGER_OLDER', `the schema ${location.schema} has no ledger yet`);
    }
    requireKnownSchema(version);
    requireCurrentSchema(version);
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function openFile(path: string): Promise<Store> {
  const db = openReadonlyFile(path);
  if (db === undefined) return openEmptyStore();
  try {
    // Zero: a process created the file and was stopped before the first table.
    const version = Number(pragma(db, 'user_version'));
    if (version === 0) {
      db.close();
      return await openEmptyStore();
    }
    requireCurrentSchema(version);
    return makeConnectionStore(db);
  } catch (error) {
    if (db.isOpen) db.close();
    throw error;
  }
}

async function openEmptyStore(): Promise<Store> {
  const store = makeConnectionStore(new DatabaseSync(':memory:'));
  await store.write(['other'], migrate);
  return store;
}

async function readPostgresVersion(store: Store, schema: string): Promise<number | undefined> {
  return store.read(async (session) => {
    const found = await session.run(
      `select 1 as one from pg_catalog.pg_tables where schemaname = ? and tablename = ?`,
      [schema, 'schema_migrations'],
    );
    if (found.length === 0) return undefined;
    const table = session.dialect.table('schema_migrations');
    const [row] = await session.run(`select max(version) as version from ${table}`);
    return Number(row?.['version'] ?? 0);
  });
}
