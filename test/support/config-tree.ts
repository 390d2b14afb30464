import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Problem } from '../../src/config/problem.ts';
import { DuctileError } from '../../src/base/errors.ts';
import { loadConfig, readConfig } from '../../src/config/load.ts';
import type { LoadOptions } from '../../src/config/load.ts';
import { lockFiles } from '../../src/config/integrity.ts';
import { makeDirectory } from './directory.ts';

/** Creates a directory with files, by path. */
export async function makeConfigTree(files: Readonly<Record<string, string>>): Promise<string> {
  const directory = await makeDirectory();
  for (const [path, text] of Object.entries(files)) {
    const file = join(directory, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text, { mode: 0o600 });
  }
  return directory;
}

/** Returns the problems as `file:line:column key message`, with paths relative to the directory. */
export function listProblems(directory: string, options: LoadOptions = {}): string[] {
  try {
    loadConfig({ env: {}, home: '/people/somebody', ...options, given: directory });
  } catch (thrown) {
    if (!(thrown instanceof DuctileError) || thrown.code !== 'CONFIG_INVALID') throw thrown;
    const problems = (thrown.details?.['problems'] ?? []) as readonly Problem[];
    return problems.map(({ place, key, message }) =>
      `${place} ${key} ${message}`.replaceAll(`${directory}/`, ''),
    );
  }
  throw new Error('the configuration was accepted');
}

export function lockConfig(directory: string): void {
  lockFiles(directory, readConfig({ given: directory }).files, '2026-11-15T00:00:00.000Z');
}
