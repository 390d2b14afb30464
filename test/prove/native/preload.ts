/**
 * Small preloaded libraries between a program and its system; they are compiled at their first use.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, renameSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';

const build = resolve(import.meta.dirname, '../../../build/prove/native');
const flags = ['-O1', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC'];

/** The reason why they are unavailable on this machine. */
export const preloadLack: string | undefined =
  process.platform !== 'linux'
    ? 'libraries are put before others on Linux alone'
    : spawnSync('cc', ['--version']).error === undefined
      ? undefined
      : 'there is no C compiler (cc)';

/** The environment that loads the library into a program. */
export function preload(name: string): Record<string, string> {
  const source = join(import.meta.dirname, `${name}.c`);
  const library = join(build, `${name}.so`);
  if (timeOf(library) < timeOf(source)) {
    mkdirSync(build, { recursive: true });
    // Concurrent callers share the same result.
    const draft = `${library}.${process.pid}`;
    execFileSync('cc', [...flags, '-o', draft, source]);
    renameSync(draft, library);
  }
  return { LD_PRELOAD: library };
}

function timeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
