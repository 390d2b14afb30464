import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import type { Dirent } from 'node:fs';
import { extname, join, relative } from 'node:path';
import { blake3 } from '../base/blake3.ts';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { makeProblem, type Problem } from './problem.ts';

export interface PackageFiles {
  /** BLAKE3 over the names and contents of all files. */
  readonly hash: string;
  readonly problems: readonly Problem[];
}

/** What a package may be made of: words for people and for Ductile, nothing that runs. */
const allowed: ReadonlySet<string> = new Set(['.yaml', '.yml', '.json', '.md', '.txt']);
/** What has no ending and is not code. */
const plain: ReadonlySet<string> = new Set(['LICENSE', 'NOTICE', 'README', 'CHANGELOG']);

const EXECUTABLE = 0o111;
const WORLD_WRITABLE = 0o002;

/** Reads a package's directory as a whole; whatever could be code is a problem. */
export function readPackageFiles(directory: string): PackageFiles {
  const reading: Reading = { root: directory, entries: [], problems: [], bytes: 0 };
  visit(directory, reading, 0);
  const listed = reading.entries.toSorted(([a], [b]) => (a < b ? -1 : 1));
  const hash = blake3(Buffer.from(JSON.stringify(listed)));
  return { hash, problems: reading.problems };
}

interface Reading {
  readonly root: string;
  readonly entries: (readonly [name: string, hash: string])[];
  readonly problems: Problem[];
  bytes: number;
}

function visit(directory: string, reading: Reading, depth: number): void {
  let entries: Dirent[];
  try {
    entries = readdirSync(directory, { withFileTypes: true });
  } catch (thrown) {
    refuse(reading, directory, `cannot be read: ${messageOf(thrown)}`);
    return;
  }
  if (depth > limits.packageDepthMax) {
    refuse(reading, directory, `is more than ${limits.packageDepthMax} levels deep`);
    return;
  }
  for (const entry of entries) {
    if (reading.problems.length >= limits.problemsMax) return;
    const path = join(directory, entry.name);
    if (entry.isDirectory()) visit(path, reading, depth + 1);
    else readFile(path, entry, reading);
  }
}

function readFile(path: string, entry: Dirent, reading: Reading): void {
  const fault = refuseFile(path, entry);
  if (fault !== undefined) return refuse(reading, path, fault.message, fault.hint);
  try {
    const bytes = readFileSync(path);
    reading.bytes += bytes.length;
    reading.entries.push([relative(reading.root, path), blake3(bytes)]);
  } catch (thrown) {
    return refuse(reading, path, `cannot be read: ${messageOf(thrown)}`);
  }
  if (reading.entries.length === limits.packageFilesMax + 1) {
    refuse(reading, reading.root, `has more than ${limits.packageFilesMax} files`);
  }
}

function refuseFile(path: string, entry: Dirent): { message: string; hint: string } | undefined {
  const hint = 'A package is metadata alone: make it a plugin, or take it out.';
  if (entry.isSymbolicLink()) return { message: 'is a symbolic link', hint };
  if (!entry.isFile()) return { message: 'is not a regular file', hint };
  const { mode, size } = lstatSync(path);
  const isWords = allowed.has(extname(entry.name).toLowerCase()) || plain.has(entry.name);
  if (!isWords) return { message: 'could be code; only YAML, JSON and Markdown may be here', hint };
  if ((mode & EXECUTABLE) !== 0) return { message: 'is executable', hint: `Run: chmod -x ${path}` };
  if ((mode & WORLD_WRITABLE) !== 0) {
    return { message: 'is writable by everybody', hint: `Run: chmod o-w ${path}` };
  }
  if (size <= limits.packageFileBytesMax) return undefined;
  return { message: `is larger than ${limits.packageFileBytesMax} bytes`, hint: 'Shorten it.' };
}

function refuse(reading: Reading, path: string, message: string, hint?: string): void {
  reading.problems.push(makeProblem(path, '', `the file ${message}`, hint));
}
