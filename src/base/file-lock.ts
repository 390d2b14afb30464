import { closeSync, openSync, truncateSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

export interface FileLock {
  release(): void;
}

const SQLITE_BUSY = 5;
const SQLITE_NOTADB = 26;

/**
 * Locks a file, or returns undefined if another process holds the lock. The kernel releases the lock
 * when its holder dies. Node has no file locks, so this uses SQLite's, on the same bytes that
 * native/lock.h locks. The file has no tables, and nothing is written to it.
 */
export function tryFileLock(path: string): FileLock | undefined {
  closeSync(openSync(path, 'a', 0o600));
  const file = new DatabaseSync(path, { timeout: 0 });
  try {
    try {
      lockWhole(file);
    } catch (error) {
      if (codeOf(error) !== SQLITE_NOTADB) throw error;
      // SQLite could read the content, so no process holds the lock. The content has no meaning.
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

/** Keeps locked files reachable: the garbage collector would close them and so release their locks. */
const held = new Set<DatabaseSync>();

function lockWhole(file: DatabaseSync): void {
  file.exec('pragma journal_mode = off');
  file.exec('begin exclusive');
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'errcode' in error ? error.errcode : undefined;
}
