/** Plugin hosts for tests, with both spawners and programs of test/fixtures. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, onTestFinished } from 'vitest';
import { makeHost, type HostOptions } from '../../src/plugin/host.ts';
import type { Host, ProcessSpec } from '../../src/plugin/process.ts';
import type { SpawnerKind } from '../../src/plugin/spawner/frames.ts';
import { makeDirectory } from './directory.ts';

const root = resolve(import.meta.dirname, '../..');
const pollMs = 5;
const timeoutMs = 120_000;

export const nodeScript = join(root, 'src/plugin/spawner/node-spawner.ts');
export const nothing = Buffer.alloc(0);
const hasCompiler = spawnSync('cc', ['--version']).error === undefined;

/** `portable` is the native spawner as on systems other than Linux. */
export type Build = SpawnerKind | 'portable';
export const builds: readonly Build[] = hasCompiler ? ['native', 'portable', 'node'] : ['node'];

/** Compiles the native spawner before the tests of this file. */
export function useNativeSpawner(): { readonly pathOf: (build: Build) => string } {
  let directory = '';
  beforeAll(async () => {
    directory = await makeDirectory();
    if (!hasCompiler) return;
    const source = join(root, 'native/spawner.c');
    const flags = ['-O1', '-Wall', '-Wextra', '-Werror'];
    execFileSync('cc', [...flags, '-o', join(directory, 'native'), source]);
    execFileSync('cc', [...flags, '-DDUCTILE_PORTABLE', '-o', join(directory, 'portable'), source]);
  });
  return { pathOf: (build) => join(directory, build) };
}

export type LogLine = readonly [level: string, message: string];

/** Starts a host, which is stopped at the end of the test. */
export async function startHost(
  options: Pick<HostOptions, 'kind'> & Partial<HostOptions>,
): Promise<Host> {
  const host = makeHost({ nodeScript, log: () => {}, ...options });
  onTestFinished(() => host.stop());
  await host.start();
  return host;
}

export function optionsOf(build: Build, path: string): Pick<HostOptions, 'kind' | 'nativePath'> {
  return build === 'node' ? { kind: 'node' } : { kind: 'native', nativePath: path };
}

export function fixture(name: string): string {
  return join(root, 'test/fixtures/plugins', name);
}

export function makeSpec(name: string, more: Partial<ProcessSpec> = {}): ProcessSpec {
  return {
    entrypoint: name.startsWith('/') ? name : fixture(name),
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
    timeoutMs: 20_000,
    killGraceMs: 2000,
    drainMs: 200,
    stdoutBytesMax: 10 * 1024 * 1024,
    stderrBytesMax: 64 * 1024,
    ...more,
  };
}

export async function waitUntil(what: string, isTrue: () => boolean): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!isTrue()) {
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await sleep(pollMs);
  }
}

export function waitForDeath(pid: number): Promise<void> {
  return waitUntil(`${pid} is dead`, () => !isAlive(pid));
}

/** Returns false for a zombie. */
export function isAlive(pid: number): boolean {
  const state = readState(pid);
  return state !== undefined && state !== 'Z' && state !== 'X';
}

export function readState(pid: number): string | undefined {
  return readStat(pid)?.[0];
}

export function parentOf(pid: number): number {
  return Number(readStat(pid)?.[1]);
}

/** Reads the fields of /proc/<pid>/stat after the program's name, which may contain any character. */
function readStat(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
