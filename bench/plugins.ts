import { chmod, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative, canBuildNative } from './native.ts';
import { findCommand, runText } from './program.ts';
import { workDirectory } from './work.ts';

/** `static` is C without libraries; the others pay for their interpreter. */
export type PluginKind = 'static' | 'python' | 'node';

export interface BenchPlugin {
  readonly name: string;
  /** Directory of all plugins of this run. */
  readonly root: string;
  readonly directory: string;
  readonly entrypoint: string;
}

export async function canMakePlugin(kind: PluginKind): Promise<true | string> {
  const native = kind === 'static' ? await canBuildNative() : true;
  if (native !== true) return native;
  if (kind !== 'python' || (await findCommand('python3')) !== undefined) return true;
  return 'python3 is not installed';
}

/** Creates a plugin with a manifest that returns ok for `handle` and `poll`. */
export async function makePlugin(kind: PluginKind): Promise<BenchPlugin> {
  const name = `bench-${kind}`;
  const root = join(await workDirectory(), 'plugins');
  const directory = join(root, name);
  const entrypoint = join(directory, 'run');
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'manifest.yaml'), manifestOf(name));
  if (kind === 'static') await copyFile(await buildNative('plug'), entrypoint);
  else await writeFile(entrypoint, await scriptOf(kind));
  await chmod(entrypoint, 0o755);
  return { name, root, directory, entrypoint };
}

/** Names the interpreter by its real path, so that a launcher in PATH isn't measured. */
async function scriptOf(kind: 'python' | 'node'): Promise<string> {
  if (kind === 'node') return `#!${process.execPath}\n${await readSource('plug.js')}`;
  const path = await runText('python3', ['-c', 'import sys; print(sys.executable)']);
  return `#!${path.trim()} -S\n${await readSource('plug.py')}`;
}

async function readSource(name: string): Promise<string> {
  return await readFile(fileURLToPath(new URL(`plugins/${name}`, import.meta.url)), 'utf8');
}

function manifestOf(name: string): string {
  return `manifest_spec: ductile.plugin
manifest_version: 1
name: ${name}
version: 1.0.0
protocol: 2
entrypoint: run
description: Answers ok.
prewarm: true
commands:
  poll:
    type: read
    description: Answers ok.
  handle:
    type: write
    description: Answers ok.
`;
}
