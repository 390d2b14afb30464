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
import { gunzipSync, gzipSync } from 'node:zlib';
import { DuctileError, messageOf } from '../base/errors.ts';
import { PRIVATE_DIRECTORY, writeFileAtomic, PRIVATE_FILE } from '../base/files.ts';
import { limits } from '../base/limits.ts';
import { LOCK_FILE } from './integrity.ts';
import { readConfig, type ConfigReading } from './load.ts';
import { configInvalid } from './problem.ts';

interface BackupFiles {
  /** Paths relative to the directory of the configuration. */
  readonly files: readonly string[];
  /** Files elsewhere, which the archive doesn't hold. */
  readonly outside: readonly string[];
}

/** Lists all files of the configuration and its lock. */
export function listBackup({ found, files }: ConfigReading): BackupFiles {
  const paths = files.map(({ path }) => path);
  const manifest = join(found.directory, LOCK_FILE);
  if (existsSync(manifest)) paths.push(manifest);
  const isInside = (path: string): boolean => !relative(found.directory, path).startsWith('..');
  return {
    files: paths.filter(isInside).map((path) => relative(found.directory, path)),
    outside: paths.filter((path) => !isInside(path)),
  };
}

/** Writes the archive. An existing file is never replaced. */
export function writeBackup(reading: ConfigReading, to: string, nowMs: number): BackupFiles {
  if (existsSync(to)) {
    throw new DuctileError('ARCHIVE_INVALID', `${to} already exists`, {
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

export interface RestorePlan {
  readonly entries: readonly ArchiveEntry[];
  /** The configuration after a restore. */
  readonly reading: ConfigReading;
}

/** Reads an archive and checks the configuration in it, without changing any file. */
export function openBackup(from: string): RestorePlan {
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
 * Restores the files of an archive. First, the current files go to a backup of their own. A file
 * that the archive doesn't have is renamed to `<file>.bak`, so that no include finds it.
 */
export function restoreBackup(
  before: ConfigReading | undefined,
  { entries, reading }: RestorePlan,
  directory: string,
  nowMs: number,
): { readonly previous: string | undefined; readonly aside: readonly string[] } {
  if (reading.config === undefined) throw configInvalid(reading.problems);
  const previous =
    before === undefined
      ? undefined
      : join(directory, `before-restore-${formatStamp(nowMs)}.tar.gz`);
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

/** Formats a time for a file name. */
export function formatStamp(ms: number): string {
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

/** A file in an archive; the path is relative, with `/` between its parts. */
interface ArchiveEntry {
  readonly path: string;
  readonly bytes: Buffer;
}

const BLOCK = 512;
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;

/** Packs the files as `.tar.gz`. */
export function packArchive(entries: readonly ArchiveEntry[], modifiedMs: number): Buffer {
  checkTotals(entries);
  const blocks = entries.flatMap(({ path, bytes }) => [
    header(path, bytes.length, modifiedMs),
    bytes,
    Buffer.alloc(padding(bytes.length)),
  ]);
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]));
}

/**
 * Unpacks the files. Refuses the whole archive if it holds anything but plain files inside the
 * directory.
 */
export function unpackArchive(archive: Buffer): ArchiveEntry[] {
  const tar = inflate(archive);
  const entries: ArchiveEntry[] = [];
  for (let at = 0; at + BLOCK <= tar.length;) {
    const block = tar.subarray(at, at + BLOCK);
    if (block.every((byte) => byte === 0)) break;
    const { path, size, type } = readHeader(block);
    at += BLOCK;
    if (at + size > tar.length) throw invalid(`it ends in the middle of ${path}`);
    if (type === 'file') entries.push({ path, bytes: Buffer.from(tar.subarray(at, at + size)) });
    else if (type !== 'directory') throw invalid(`${path} is neither a file nor a directory`);
    if (entries.length > limits.archiveEntriesMax) checkTotals(entries);
    at += size + padding(size);
  }
  checkTotals(entries);
  return entries;
}

function checkTotals(entries: readonly ArchiveEntry[]): void {
  const seen = new Set<string>();
  let total = 0;
  for (const { path, bytes } of entries) {
    checkPath(path);
    if (seen.has(path)) throw invalid(`it contains ${path} twice`);
    seen.add(path);
    if (bytes.length > limits.archiveFileBytesMax) throw invalid(`${path} is too large`);
    total += bytes.length;
  }
  if (entries.length > limits.archiveEntriesMax) throw invalid('it has too many files');
  if (total > limits.archiveBytesMax) throw invalid('it is too large');
}

function checkPath(path: string): void {
  const parts = path.split('/');
  const isInside = !path.startsWith('/') && !parts.some((part) => ['', '.', '..'].includes(part));
  if (!isInside || path.includes('\\') || path.includes('\u0000')) {
    throw invalid(`${JSON.stringify(path)} leads out of the directory`);
  }
}

function inflate(archive: Buffer): Buffer {
  // Each entry also has a header and padding.
  const maxOutputLength = limits.archiveBytesMax + (limits.archiveEntriesMax + 2) * 2 * BLOCK;
  try {
    return gunzipSync(archive, { maxOutputLength });
  } catch (thrown) {
    throw invalid(`it cannot be unpacked: ${messageOf(thrown)}`);
  }
}

function header(path: string, size: number, modifiedMs: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const { name, prefix } = splitName(path);
  block.write(name, 0, 'utf8');
  writeOctal(block, 100, 8, PRIVATE_FILE);
  writeOctal(block, 108, 8, 0);
  writeOctal(block, 116, 8, 0);
  writeOctal(block, 124, 12, size);
  writeOctal(block, 136, 12, Math.floor(modifiedMs / 1000));
  block.fill(' ', 148, 156);
  block.write('0', 156, 'latin1');
  block.write('ustar\u000000', 257, 'latin1');
  block.write(prefix, 345, 'utf8');
  writeOctal(block, 148, 7, checksum(block));
  return block;
}

function splitName(path: string): { name: string; prefix: string } {
  if (Buffer.byteLength(path) <= NAME_BYTES) return { name: path, prefix: '' };
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    const fits = Buffer.byteLength(name) <= NAME_BYTES && Buffer.byteLength(prefix) <= PREFIX_BYTES;
    if (fits) return { name, prefix };
  }
  throw invalid(`${path} has a name that is too long`);
}

function readHeader(block: Buffer): { path: string; size: number; type: string } {
  const expected = readOctal(block, 148, 8);
  const blank = Buffer.from(block).fill(' ', 148, 156);
  if (checksum(blank) !== expected) throw invalid('a header in it is damaged');
  const isUstar = block.toString('latin1', 257, 262) === 'ustar';
  const prefix = isUstar ? readText(block, 345, PREFIX_BYTES) : '';
  const name = readText(block, 0, NAME_BYTES);
  const flag = String.fromCodePoint(block[156] ?? 0);
  const path = (prefix === '' ? name : `${prefix}/${name}`).replace(/^\.\//, '');
  const kinds: Readonly<Record<string, string>> = {
    '0': 'file',
    '\u0000': 'file',
    '5': 'directory',
  };
  return { path, size: readOctal(block, 124, 12), type: kinds[flag] ?? 'other' };
}

function readText(block: Buffer, at: number, length: number): string {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end === -1 ? length : end);
}

function readOctal(block: Buffer, at: number, length: number): number {
  const text = readText(block, at, length).trim();
  if (!/^[0-7]{1,11}$/.test(text)) throw invalid('a header in it is damaged');
  return Number.parseInt(text, 8);
}

function writeOctal(block: Buffer, at: number, length: number, value: number): void {
  block.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
}

function checksum(block: Buffer): number {
  return block.reduce((sum, byte) => sum + byte, 0);
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function invalid(message: string): DuctileError {
  return new DuctileError('ARCHIVE_INVALID', `the archive cannot be used: ${message}`);
}
