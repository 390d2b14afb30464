import { join, relative } from 'node:path';
import { stringify } from 'yaml';
import { writeFileAtomic } from '../base/files.ts';
import type { ConfigFile } from './config.ts';
import { MANIFEST_FILE, MANIFEST_VERSION } from './integrity.ts';
import type { Manifest } from './integrity.ts';

/** Writes down what the files and plugins are now, which is then what they must stay. */
export function lockFiles(
  directory: string,
  files: readonly ConfigFile[],
  now: string,
  plugins?: Manifest['plugins'],
): string {
  const hashes = files.map(({ path, hash }) => [relative(directory, path), hash] as const);
  return writeManifest(directory, { generatedAt: now, hashes: new Map(hashes), plugins });
}

export function writeManifest(directory: string, manifest: Manifest): string {
  const { generatedAt, hashes, plugins } = manifest;
  const written = {
    version: MANIFEST_VERSION,
    generated_at: generatedAt,
    hashes: inOrder(hashes),
    ...(plugins === undefined ? {} : { plugins: inOrder(plugins) }),
  };
  const file = join(directory, MANIFEST_FILE);
  writeFileAtomic(file, `# Written by \`ductile config lock\`.\n${stringify(written)}`);
  return file;
}

function inOrder<T>(map: ReadonlyMap<string, T>): Record<string, T> {
  return Object.fromEntries([...map].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
