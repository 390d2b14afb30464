import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DuctileError } from '../base/errors.ts';
import { sqliteCode } from './sqlite-file.ts';

export interface InstanceLock {
  release(): void;
}

const SQLITE_BUSY = 5;

/**
 * One process on one state directory. `ductile.lock` tells people who it is; the lock itself is one
 * that the kernel gives back at death, held on a file beside it through SQLite, because Node has no
 * file locks of its own. No age, no heartbeat: it is held or it is free.
 */
export function takeInstanceLock(directory: string): InstanceLock {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const name = join(directory, 'ductile.lock');
  const db = lockFile(join(directory, '.ductile.lock.db'), name);
  writeFileSync(name, `${process.pid}\n`, { mode: 0o600 });
  return {
    release() {
      rmSync(name, { force: true });
      db.close();
    },
  };
}

/** The process that holds the lock, if its note can be read. */
export function lockHolder(directory: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(directory, 'ductile.lock'), 'utf8').trim());
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

function lockFile(path: string, note: string): DatabaseSync {
  const db = new DatabaseSync(path);
  try {
    db.exec('pragma locking_mode = exclusive');
    db.exec('begin exclusive');
    return db;
  } catch (error) {
    db.close();
    if (sqliteCode(error) !== SQLITE_BUSY) throw error;
    const holder = lockHolder(join(note, '..'));
    throw new DuctileError(
      'INSTANCE_LOCKED',
      holder === undefined
        ? 'another Ductile process holds the lock of this state directory'
        : `process ${holder} holds the lock of this state directory`,
      { place: note, details: { pid: holder ?? null }, cause: error },
    );
  }
}
