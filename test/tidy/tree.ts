import { readdir, readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';

export const root = resolve(import.meta.dirname, '../..');

export interface TextFile {
  /** Relative to the root of the tree, with slashes. */
  readonly path: string;
  readonly text: string;
}

/** A finding of a rule; without a line it is about a name or the whole file. */
export interface Occurrence {
  readonly path: string;
  readonly line?: number;
  readonly text: string;
}

const skipped = new Set(['.git', 'node_modules', 'dist', 'build', 'coverage']);

/** Every text file of the working tree that is not made by a tool. */
export async function readTree(
  directory: string = root,
  base: string = directory,
): Promise<TextFile[]> {
  const files: TextFile[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory() && !skipped.has(entry.name))
      files.push(...(await readTree(path, base)));
    if (!entry.isFile()) continue;
    const text = await readFile(path, 'utf8');
    if (!text.includes('\0')) files.push({ path: relative(base, path), text });
  }
  return files;
}

export function isSource({ path }: TextFile): boolean {
  return /^(src|extras)\/.*\.ts$/.test(path) || /^web\/.*\.tsx?$/.test(path);
}
