import { closeSync, openSync, truncateSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

export interface FileLock {
  release(): void;
}

const SQLITE_BUSY = 5;
const SQLITE_NOTADB = 26;

/**
 * A lock on a file that the kernel gives back when its holder dies; undefined when somebody else
 * holds it. Node has no file locks of its own, so it is SQLite's, on the very bytes that
 * native/lock.h locks. There is no table in the file, and nothing is written to it.
 */
export function tryFileLock(path: string): FileLock | undefined {
  closeSync(openSync(path, 'a', 0o600));
  const file = new DatabaseSync(path, { timeout: 0 });
  try {
    try {
      lockWhole(file);
    } catch (error) {
      if (codeOf(error) !== SQLITE_NOTADB) throw error;
      // What is in it was read, so nobody holds it, and nothing in it means anything.
      truncateSync(path);
      lockWhole(file);
    }
  } catch (error) {
    file.close();
    if (codeOf(error) === SQLITE_BUSY) return undefined;
    throw error;
  }
  held.add(file);
  return {
    release() {
      held.delete(file);
      file.close();
    },
  };
}

/** What is not reachable would be closed, and its lock with it. */
const held = new Set<DatabaseSync>();

function lockWhole(file: DatabaseSync): void {
  file.exec('pragma journal_mode = off');
  file.exec('begin exclusive');
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'errcode' in error ? error.errcode : undefined;
}
