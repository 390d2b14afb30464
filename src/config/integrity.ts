import { basename, dirname, join, relative } from 'node:path';
import { blake3 } from '../base/blake3.ts';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { ConfigFile, Tier } from './config.ts';
import { readDocument } from './document.ts';
import { makeProblem, type Problem } from './problem.ts';
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { stringify } from 'yaml';
import { writeFileAtomic } from '../base/files.ts';

export const LOCK_FILE = '.checksums';
/** Earlier versions had absolute paths and aren't read. */
const LOCK_VERSION = 3;

/**
 * The content of `.checksums`. Paths are relative to its directory, so that the directory can move.
 */
export interface ConfigLock {
  readonly generatedAt: string;
  readonly hashes: ReadonlyMap<string, string>;
  /** By plugin name; undefined when plugins were never locked. */
  readonly plugins: ReadonlyMap<string, PluginHashes> | undefined;
}

/** Hashes of the two files that decide a plugin's behavior. */
export interface PluginHashes {
  readonly manifest: string;
  readonly entrypoint: string;
}

export type LockReading =
  | { readonly state: 'sound'; readonly manifest: ConfigLock }
  | { readonly state: 'absent' }
  | { readonly state: 'unusable'; readonly problem: Problem };

/** A difference between a file and the lock. */
export interface Drift {
  readonly change: 'changed' | 'added' | 'removed';
  /** The path in the lock file. */
  readonly path: string;
  readonly tier: Tier;
  readonly problem: Problem;
}

export function readLock(directory: string): LockReading {
  const file = join(directory, LOCK_FILE);
  const { value, problems } = readDocument(file, limits.configBytesMax);
  const [problem] = problems;
  if (problem?.message === 'the file does not exist') return { state: 'absent' };
  const unusable = (message: string): LockReading => ({
    state: 'unusable',
    problem: makeProblem(file, '', message, RELOCK),
  });
  if (problem !== undefined) return unusable(problem.message);
  const { version, generated_at: generatedAt, hashes, plugins } = isObject(value) ? value : {};
  if (version !== LOCK_VERSION) {
    return unusable(`the file does not have the format version ${LOCK_VERSION}`);
  }
  if (typeof generatedAt !== 'string' || !isObject(hashes)) {
    return unusable('the file lacks `generated_at` or `hashes`');
  }
  const entries = Object.entries(hashes).map(
    ([path, hash]) => [path, typeof hash === 'string' ? hash : ''] as const,
  );
  const pluginHashes = isObject(plugins)
    ? Object.entries(plugins).map(readPluginHashes)
    : undefined;
  const ofPlugins = (pluginHashes ?? []).flatMap(([name, { manifest, entrypoint }]) => [
    [`the manifest of ${name}`, manifest] as const,
    [`the entrypoint of ${name}`, entrypoint] as const,
  ]);
  const invalid = [...entries, ...ofPlugins].find(([, hash]) => !/^[0-9a-f]{64}$/.test(hash));
  if (invalid !== undefined) return unusable(`the hash of ${invalid[0]} is not valid`);
  const locked = pluginHashes === undefined ? undefined : new Map(pluginHashes);
  return { state: 'sound', manifest: { generatedAt, hashes: new Map(entries), plugins: locked } };
}

/** Returns undefined when plugins were never locked. */
export function findLockedPlugins(reading: LockReading): ConfigLock['plugins'] {
  return reading.state === 'sound' ? reading.manifest.plugins : undefined;
}

function readPluginHashes([name, value]: readonly [string, unknown]): readonly [
  string,
  PluginHashes,
] {
  const { manifest, entrypoint } = isObject(value) ? value : {};
  const text = (hash: unknown): string => (typeof hash === 'string' ? hash : '');
  return [name, { manifest: text(manifest), entrypoint: text(entrypoint) }];
}

export function hashFile(file: string, bytes: Uint8Array, directory: string): ConfigFile {
  return { path: file, tier: tierOf(file, directory), hash: blake3(bytes) };
}

/** Returns the tier by the name of the file: files that grant access are in the high tier. */
function tierOf(file: string, directory: string): Tier {
  const isScope = dirname(file) === join(directory, 'scopes');
  return isScope || /^(tokens|webhooks)\.ya?ml$/.test(basename(file)) ? 'high' : 'operational';
}

/** Reports a missing `.checksums`: changes of files would go unnoticed. */
export function makeUnlockedProblem(directory: string): Problem {
  const message = 'the configuration is not locked, so changes by others go unnoticed';
  return makeProblem(directory, '', message, 'Run `ductile config lock`.');
}

/** Compares the files with the lock. */
export function findDrift(
  files: readonly ConfigFile[],
  reading: LockReading,
  directory: string,
): Drift[] {
  if (reading.state === 'unusable') return [];
  const locked = reading.state === 'sound' ? reading.manifest.hashes : new Map<string, string>();
  const drift = files.flatMap(({ path: file, tier, hash }): Drift[] => {
    const path = relative(directory, file);
    const before = locked.get(path);
    if (before === hash) return [];
    const [change, message] =
      before === undefined
        ? (['added', 'the file was never locked'] as const)
        : (['changed', 'the file changed after it was locked'] as const);
    return [{ change, path, tier, problem: makeProblem(file, '', message, RELOCK) }];
  });
  const present = new Set(files.map(({ path }) => relative(directory, path)));
  const removed = [...locked.keys()].filter((path) => !present.has(path));
  return [
    ...drift,
    ...removed.map((path): Drift => {
      const file = join(directory, path);
      const problem = makeProblem(file, '', 'the file was locked but is not used', RELOCK);
      return { change: 'removed', path, tier: tierOf(file, directory), problem };
    }),
  ];
}

const RELOCK = 'Compare with `ductile config diff`, then accept it with `ductile config lock`.';

type HashedFile = Pick<ConfigFile, 'path' | 'hash'>;

/** Makes one digest of all files, to detect changes. */
export function digestConfigFiles(files: readonly HashedFile[]): string {
  const rows = files.map(({ path, hash }) => `${path} ${hash}`).toSorted();
  return createHash('sha256').update(rows.join('\n')).digest('hex');
}

/** Hashes the files on disk; a missing one has the hash ''. */
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

/** Returns the time of the last change of any file; undefined if none exists. */
export function lastWritten(files: readonly Pick<ConfigFile, 'path'>[]): number | undefined {
  const times = files.flatMap(
    ({ path }) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? [],
  );
  return times.length === 0 ? undefined : Math.max(...times);
}

/** Locks the current state of the files and plugins. */
export function lockFiles(
  directory: string,
  files: readonly ConfigFile[],
  now: string,
  plugins?: ConfigLock['plugins'],
): string {
  const hashes = files.map(({ path, hash }) => [relative(directory, path), hash] as const);
  return writeLock(directory, { generatedAt: now, hashes: new Map(hashes), plugins });
}

export function writeLock(directory: string, manifest: ConfigLock): string {
  const { generatedAt, hashes, plugins } = manifest;
  const written = {
    version: LOCK_VERSION,
    generated_at: generatedAt,
    hashes: sortKeys(hashes),
    ...(plugins === undefined ? {} : { plugins: sortKeys(plugins) }),
  };
  const file = join(directory, LOCK_FILE);
  writeFileAtomic(file, `# Written by \`ductile config lock\`.\n${stringify(written)}`);
  return file;
}

function sortKeys<T>(map: ReadonlyMap<string, T>): Record<string, T> {
  return Object.fromEntries([...map].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
