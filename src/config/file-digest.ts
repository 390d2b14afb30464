import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { blake3 } from '../base/blake3.ts';
import type { ConfigFile } from './config.ts';

type HashedFile = Pick<ConfigFile, 'path' | 'hash'>;

/** One digest of all files of a configuration, to tell whether any of them has changed. */
export function digestConfigFiles(files: readonly HashedFile[]): string {
  const rows = files.map(({ path, hash }) => `${path} ${hash}`).toSorted();
  return createHash('sha256').update(rows.join('\n')).digest('hex');
}

/** The same files as they are on disk now; a missing one has the hash ''. */
export function rehashFiles(files: readonly HashedFile[]): HashedFile[] {
  return files.map(({ path }) => ({ path, hash: hashOf(path) }));
}

function hashOf(path: string): string {
  try {
    return blake3(readFileSync(path));
  } catch {
    return '';
  }
}

/** When the newest of the files was written; undefined if none is there. */
export function lastWritten(files: readonly Pick<ConfigFile, 'path'>[]): number | undefined {
  const times = files.flatMap(
    ({ path }) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? [],
  );
  return times.length === 0 ? undefined : Math.max(...times);
}
