import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import { tryFileLock, type FileLock } from '../base/file-lock.ts';
import { makeDirectories } from '../base/files.ts';

/**
 * One process on one state directory. `ductile.lock` tells people who it is; the lock itself is on a
 * file beside it, so that reading the note can never disturb it. No age, no heartbeat: it is held or
 * it is free.
 */
export function takeInstanceLock(directory: string): FileLock {
  makeDirectories(directory);
  const note = join(directory, 'ductile.lock');
  const lock = tryLock(join(directory, '.ductile.lock'));
  if (lock === undefined) throw lockedBy(readHolder(note), note);
  writeFileSync(note, `${process.pid}\n`, { mode: 0o600 });
  return {
    release() {
      rmSync(note, { force: true });
      lock.release();
    },
  };
}

function tryLock(path: string): FileLock | undefined {
  try {
    return tryFileLock(path);
  } catch (error) {
    const message = `the state directory cannot be locked: ${messageOf(error)}`;
    const hint = 'Remove the file that is named, or make its directory writable.';
    throw new DuctileError('LEDGER_UNAVAILABLE', message, { place: path, hint, cause: error });
  }
}

function lockedBy(holder: number | undefined, note: string): DuctileError {
  const who = holder === undefined ? 'another Ductile process' : `process ${holder}`;
  return new DuctileError('INSTANCE_LOCKED', `${who} holds the lock of this state directory`, {
    place: note,
    details: { pid: holder ?? null },
  });
}

/** The process that holds the lock, if its note can be read. */
function readHolder(note: string): number | undefined {
  try {
    const pid = Number(readFileSync(note, 'utf8').trim());
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}
