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
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';

/** The modes of new files and directories: only the owner may read them. */
export const PRIVATE_FILE = 0o600;
export const PRIVATE_DIRECTORY = 0o700;

/** Replaces a file atomically: a reader finds the old or the new content, even after a crash. */
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
 * Creates a directory with all its parents. Node's recursive mkdir is not used: it never returns under
 * a directory that exists and can't have new entries, such as `/proc`, and blocks the event loop.
 */
export function makeDirectories(path: string): void {
  if (isDirectory(path)) return;
  const above = dirname(path);
  if (above !== path) makeDirectories(above);
  try {
    mkdirSync(path, { mode: PRIVATE_DIRECTORY });
  } catch (error) {
    // Another process may have created it meanwhile.
    if (!isDirectory(path)) throw error;
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/**
 * Gives a file that root writes the owner of the file it replaces, or of its directory. The service
 * doesn't run as root and has to read it.
 */
export function matchOwner(file: number, path: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(path, { throwIfNoEntry: false }) ?? statSync(dirname(path));
  fchownSync(file, uid, gid);
}

/**
 * Syncs all directories above a new file, so that it is found after a power failure. Any of them may be
 * new as well. The walk ends at the border of the file system: the mount point existed before.
 */
export function syncDirectoriesAbove(path: string): void {
  const { dev } = statSync(path);
  let directory = dirname(resolve(path));
  while (statSync(directory).dev === dev) {
    try {
      syncDirectory(directory);
    } catch (error) {
      // Ductile can't have created anything in a directory that it may not open.
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

/** Returns an absolute path: `~/` is the home directory, `base` is the parent of relative paths. */
export function resolvePath(path: string, base: string, home: string): string {
  if (path === '~') return home;
  return path.startsWith('~/') ? join(home, path.slice(2)) : resolve(base, path);
}

/** True if the path is the directory or inside it. */
export function isInsideDirectory(directory: string, path: string): boolean {
  const way = relative(directory, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** True if one is the other, or contains it. */
export function overlaps(one: string, other: string): boolean {
  return isInsideDirectory(one, other) || isInsideDirectory(other, one);
}
