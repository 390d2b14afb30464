import { join, relative } from 'node:path';
import { stringify } from 'yaml';
import { writeFileAtomic } from '../base/files.ts';
import type { ConfigFile } from './config.ts';
import { MANIFEST_FILE, MANIFEST_VERSION } from './integrity.ts';

/** Writes down what the files are now, which is then what they must stay. */
export function lockFiles(directory: string, files: readonly ConfigFile[], now: string): string {
  const hashes = files.map(({ path, hash }) => [relative(directory, path), hash] as const);
  return writeManifest(directory, new Map(hashes), now);
}

export function writeManifest(
  directory: string,
  hashes: ReadonlyMap<string, string>,
  now: string,
): string {
  const manifest = {
    version: MANIFEST_VERSION,
    generated_at: now,
    hashes: Object.fromEntries([...hashes].toSorted(([a], [b]) => (a < b ? -1 : 1))),
  };
  const file = join(directory, MANIFEST_FILE);
  writeFileAtomic(file, `# Written by \`ductile config lock\`.\n${stringify(manifest)}`);
  return file;
}
