/** Compiles native/spawner.c, hardened as far as the compiler and the platform support it. */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';

const source = join(dirname(import.meta.dirname), 'native', 'spawner.c');
const common = ['-std=gnu17', '-O2', '-Wall', '-Wextra'];

/** Checks of the stack and of buffer sizes at run time. */
const checks = [
  '-fstack-protector-strong',
  '-U_FORTIFY_SOURCE',
  '-D_FORTIFY_SOURCE=3',
  '-fstack-clash-protection',
];
/** A random load address, a read-only relocation table, no executable stack. */
const layout = ['-fPIE', '-Wl,-z,relro,-z,now,-z,noexecstack'];
/** Not supported by compilers for some processors. */
const controlFlow = '-fcf-protection';

/** Sets of flags, from the most hardened to those that every compiler accepts. */
const attempts: readonly (readonly [name: string, flags: readonly string[]])[] = [
  ['static, hardened', [...checks, controlFlow, ...layout, '-static-pie']],
  ['static, hardened', [...checks, ...layout, '-static-pie']],
  ['dynamic, hardened', [...checks, controlFlow, ...layout, '-pie']],
  ['dynamic, hardened', [...checks, ...layout, '-pie']],
  ['dynamic, not hardened', ['-fstack-protector-strong']],
  ['dynamic, not hardened', []],
];

/** Returns how the spawner was compiled; undefined if it couldn't be. */
export function compileSpawner(
  compiler: string,
  output: string,
  onWarning: (text: string) => void,
): string | undefined {
  for (const [name, flags] of attempts) {
    const words = [...common, ...flags, '-o', output, source];
    const { status, stderr, error } = spawnSync(compiler, words, { encoding: 'utf8' });
    if (error !== undefined) return undefined;
    if (status !== 0) continue;
    if (stderr !== '') onWarning(stderr);
    return name;
  }
  return undefined;
}
