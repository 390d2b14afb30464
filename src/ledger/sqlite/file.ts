import { chmodSync, closeSync, existsSync, openSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DuctileError, messageOf } from '../../base/errors.ts';
import { makeDirectories, syncDirectoriesAbove } from '../../base/files.ts';
import { limits } from '../../base/limits.ts';
import { requireKnownSchema } from '../migrate.ts';

/** "DUCT": marks the files of Ductile, so that it never writes into a database of another program. */
export const APPLICATION_ID = 0x44554354;

/** Before this version, two connections could corrupt a database in WAL mode. */
const SQLITE_SAFE = [3, 51, 3] as const;

/** Locks and shared memory of SQLite do not work across a network. */
const NETWORK_FILE_SYSTEMS = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x5346414f, 'AFS'],
  [0x0bd00bd0, 'Lustre'],
]);

/** Opens the file of a ledger for writing, after checking that it may be used, and configures it. */
export function openWriter(path: string): DatabaseSync {
  requireSafeSqlite(process.versions['sqlite'] ?? '0.0.0');
  let db: DatabaseSync | undefined;
  try {
    const directory = dirname(path);
    makeDirectories(directory);
    requireLocalDisk(directory, path);
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
    const file = statSync(path);
    if (!file.isFile()) throw makeForeignError('it is not a file', path);
    if (file.size === 0) syncDirectoriesAbove(path);
    db = openDatabase(path, false);
    requireOwnFile(db, path);
    // Only now the file is known to be Ductile's. The journal files get the same mode.
    chmodSync(path, 0o600);
    db.exec('pragma journal_mode = wal');
    db.exec('pragma synchronous = full');
    db.exec('pragma temp_store = memory');
    if (pragma(db, 'journal_mode') !== 'wal' || pragma(db, 'synchronous') !== 2) {
      throw new DuctileError('LEDGER_UNSUITABLE', 'SQLite cannot use WAL with full sync here', {
        place: path,
      });
    }
    db.exec(`pragma application_id = ${APPLICATION_ID}`);
    return db;
  } catch (error) {
    db?.close();
    throw toFileError(error, path);
  }
}

/** Opens a second connection for reading, so that reads never see a transaction in progress. */
export function openReader(path: string): DatabaseSync {
  return openDatabase(path, true);
}

/** Opens the file of a ledger for reading; undefined if nothing was ever written there. */
export function openReadonlyFile(path: string): DatabaseSync | undefined {
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return undefined;
  const db = openDatabase(path, true);
  try {
    requireOwnFile(db, path);
    return db;
  } catch (error) {
    db.close();
    throw toFileError(error, path);
  }
}

export function pragma(db: DatabaseSync, name: string): unknown {
  const row = db.prepare(`pragma ${name}`).get();
  return row === undefined ? undefined : Object.values(row)[0];
}

function openDatabase(path: string, readOnly: boolean): DatabaseSync {
  try {
    const db = new DatabaseSync(path, { readOnly, timeout: limits.busyTimeoutMs });
    db.exec('pragma trusted_schema = off');
    db.exec('pragma cell_size_check = on');
    db.exec('pragma mmap_size = 0');
    return db;
  } catch (error) {
    throw toFileError(error, path);
  }
}

export function requireSafeSqlite(version: string): void {
  const parts = version.split('.').map(Number);
  const first = SQLITE_SAFE.findIndex((part, index) => parts[index] !== part);
  if (first < 0 || (parts[first] ?? 0) > (SQLITE_SAFE[first] ?? 0)) return;
  throw new DuctileError(
    'LEDGER_UNSUITABLE',
    `SQLite ${version} can corrupt a database in WAL mode; ${SQLITE_SAFE.join('.')} is the first safe one`,
    { hint: 'Use Node.js 24.15 or newer.' },
  );
}

function requireLocalDisk(directory: string, path: string): void {
  const name = findNetworkFileSystem(statfsSync(directory).type);
  if (name === undefined) return;
  throw new DuctileError(
    'LEDGER_UNSUITABLE',
    `${directory} is on a network file system (${name})`,
    {
      place: path,
    },
  );
}

/** Returns the name of a network file system by the kernel's number for its type. */
export function findNetworkFileSystem(type: number): string | undefined {
  // Some numbers arrive as negative, with their highest bit read as a sign.
  return NETWORK_FILE_SYSTEMS.get(type >>> 0);
}

function requireOwnFile(db: DatabaseSync, path: string): void {
  const id = pragma(db, 'application_id');
  if (id === APPLICATION_ID) {
    requireKnownSchema(Number(pragma(db, 'user_version')));
    return;
  }
  const tables = db.prepare('select count(*) as n from sqlite_schema').get();
  if (id === 0 && tables?.['n'] === 0) return;
  throw makeForeignError('the file is a database of another program', path);
}

function makeForeignError(message: string, path: string): DuctileError {
  return new DuctileError('LEDGER_FOREIGN', message, { place: path });
}

const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;
/** SQLITE_PERM, SQLITE_READONLY and SQLITE_CANTOPEN. */
const SQLITE_DENIED: ReadonlySet<number | undefined> = new Set([3, 8, 14]);

function toFileError(error: unknown, path: string): unknown {
  if (error instanceof DuctileError) return error;
  const code = sqliteCode(error);
  if (code === SQLITE_NOTADB || code === SQLITE_CORRUPT) {
    return new DuctileError('LEDGER_CORRUPT', `not a valid SQLite database: ${messageOf(error)}`, {
      place: path,
      cause: error,
    });
  }
  const { code: name } = error as { readonly code?: unknown };
  const isDenied = SQLITE_DENIED.has(code) || name === 'EACCES' || name === 'EPERM';
  return new DuctileError('LEDGER_UNAVAILABLE', `cannot open the ledger: ${messageOf(error)}`, {
    place: path,
    ...(isDenied
      ? { hint: 'Run Ductile as the owner of the file, with write access to its directory.' }
      : {}),
    cause: error,
  });
}

const UNAVAILABLE_CODES = new Map([
  [5, 'busy'],
  [6, 'locked'],
  [7, 'out of memory'],
  [8, 'read-only'],
  [10, 'I/O error'],
  [13, 'disk full'],
  [14, 'cannot open'],
]);
const CORRUPT_CODES: ReadonlySet<number> = new Set([11, 26]);
const SQLITE_ERROR = 1;
/** Statements of Ductile fail like this only if another program changed the schema or its migrations. */
const CHANGED_SCHEMA =
  /^(no such (table|column|function)|unknown function|duplicate column)\b|^(table|index|view) .* already exists$/;

/** Converts an error of SQLite to an error of the catalogue; other errors stay as they are. */
export function toLedgerError(error: unknown): unknown {
  const code = sqliteCode(error);
  if (code === undefined) return error;
  const known = UNAVAILABLE_CODES.get(code);
  if (known !== undefined) {
    return new DuctileError('LEDGER_UNAVAILABLE', `SQLite: ${known}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const isSchemaChanged = code === SQLITE_ERROR && CHANGED_SCHEMA.test(messageOf(error));
  if (!CORRUPT_CODES.has(code) && !isSchemaChanged) return error;
  return new DuctileError('LEDGER_CORRUPT', `SQLite: ${messageOf(error)}`, { cause: error });
}

/** Returns the primary result code of an error from SQLite; undefined for any other error. */
function sqliteCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | undefined)?.errcode;
  return typeof code === 'number' ? code & 0xff : undefined;
}
