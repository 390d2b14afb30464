import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, sep } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import { PRIVATE_DIRECTORY, writeFileAtomic } from '../base/files.ts';
import { limits } from '../base/limits.ts';
import { packArchive, unpackArchive } from './archive.ts';
import type { Entry } from './archive.ts';
import { MANIFEST_FILE } from './integrity.ts';
import { readConfig } from './load.ts';
import type { Reading } from './load.ts';
import { configInvalid } from './problem.ts';

export interface BackedUp {
  /** Relative to the directory of the configuration. */
  readonly files: readonly string[];
  /** Files that lie elsewhere, which whoever restores must have there too. */
  readonly outside: readonly string[];
}

/** Which files a backup holds: all that the configuration is made of, and its lock. */
export function listBackup({ found, files }: Reading): BackedUp {
  const paths = files.map(({ path }) => path);
  const manifest = join(found.directory, MANIFEST_FILE);
  if (existsSync(manifest)) paths.push(manifest);
  const isInside = (path: string): boolean => !relative(found.directory, path).startsWith('..');
  return {
    files: paths.filter(isInside).map((path) => relative(found.directory, path)),
    outside: paths.filter((path) => !isInside(path)),
  };
}

/** Writes the archive; a file that is there already is never replaced. */
export function writeBackup(reading: Reading, to: string, nowMs: number): BackedUp {
  if (existsSync(to)) {
    throw new DuctileError('ARCHIVE_INVALID', `${to} is there already`, {
      place: to,
      hint: 'Name a file that does not exist yet.',
    });
  }
  const listed = listBackup(reading);
  const entries = listed.files.map((path) => ({
    path: path.split(sep).join('/'),
    bytes: readFileSync(join(reading.found.directory, path)),
  }));
  writeFileAtomic(to, packArchive(entries, nowMs));
  return listed;
}

export interface Restoring {
  readonly entries: readonly Entry[];
  /** What the configuration would be. */
  readonly reading: Reading;
}

/** Reads an archive and checks what it would make of the configuration; nothing is touched. */
export function openBackup(from: string): Restoring {
  const entries = unpackArchive(readArchive(from));
  const scratch = mkdtempSync(join(tmpdir(), 'ductile-restore-'));
  try {
    for (const { path, bytes } of entries) {
      const file = join(scratch, path);
      mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIRECTORY });
      writeFileAtomic(file, bytes);
    }
    const reading = readConfig({ given: scratch });
    return { entries, reading };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/**
 * Puts the files of an archive in place. What was there is in a backup of its own first; a file
 * that the archive does not have is set aside as `<file>.bak`, so that nothing includes it again.
 */
export function restoreBackup(
  before: Reading | undefined,
  { entries, reading }: Restoring,
  directory: string,
  nowMs: number,
): { readonly previous: string | undefined; readonly aside: readonly string[] } {
  if (reading.config === undefined) throw configInvalid(reading.problems);
  const previous =
    before === undefined ? undefined : join(directory, `before-restore-${stampOf(nowMs)}.tar.gz`);
  if (before !== undefined && previous !== undefined) writeBackup(before, previous, nowMs);
  const kept = new Set(entries.map(({ path }) => path));
  const there = before === undefined ? [] : listBackup(before).files;
  const aside = there.filter((path) => !kept.has(path.split(sep).join('/')));
  for (const path of aside) renameSync(join(directory, path), join(directory, `${path}.bak`));
  for (const { path, bytes } of entries) {
    const file = join(directory, path);
    mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIRECTORY });
    writeFileAtomic(file, bytes);
  }
  return { previous, aside };
}

/** A moment as a part of a file's name. */
export function stampOf(ms: number): string {
  return new Date(ms).toISOString().replaceAll(/[-:]|\.\d+/g, '');
}

function readArchive(from: string): Buffer {
  try {
    const { size } = statSync(from);
    if (size <= limits.archiveBytesMax) return readFileSync(from);
  } catch (thrown) {
    throw new DuctileError(
      'ARCHIVE_INVALID',
      `${basename(from)} cannot be read: ${messageOf(thrown)}`,
      {
        place: from,
      },
    );
  }
  throw new DuctileError('ARCHIVE_INVALID', `${basename(from)} is too large`, { place: from });
}
