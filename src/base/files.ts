import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fchownSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Only the owner may read what we write. */
export const PRIVATE_FILE = 0o600;
export const PRIVATE_DIRECTORY = 0o700;

/** Puts the whole content in place at once: a reader, also after a crash, finds the old or the new. */
export function writeFileAtomic(path: string, content: string | Uint8Array): void {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    const file = openSync(temporary, 'wx', PRIVATE_FILE);
    try {
      writeFileSync(file, content);
      matchOwner(file, path);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncDirectory(dirname(path));
}

/**
 * A directory with all above it. What Node has for that never ends where a directory is there and takes
 * nothing new, as in `/proc`, and everybody else waits for it.
 */
export function makeDirectories(path: string): void {
  if (isDirectory(path)) return;
  const above = dirname(path);
  if (above !== path) makeDirectories(above);
  try {
    mkdirSync(path, { mode: PRIVATE_DIRECTORY });
  } catch (error) {
    // Somebody else may have made it meanwhile.
    if (!isDirectory(path)) throw error;
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/**
 * What root writes belongs to whom the file or its directory belonged to before: the service, which
 * is not root, has to read it.
 */
export function matchOwner(file: number, path: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(path, { throwIfNoEntry: false }) ?? statSync(dirname(path));
  fchownSync(file, uid, gid);
}

/**
 * What is new can be found after a power cut only when every directory above it is on the disk with its
 * name in it. Any of them may have been made a moment ago, by whoever; of another file system none was.
 */
export function syncDirectoriesAbove(path: string): void {
  const { dev } = statSync(path);
  let directory = dirname(resolve(path));
  while (statSync(directory).dev === dev) {
    try {
      syncDirectory(directory);
    } catch (error) {
      // Where we may not even look we made nothing.
      if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
    }
    if (directory === dirname(directory)) return;
    directory = dirname(directory);
  }
}

function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
