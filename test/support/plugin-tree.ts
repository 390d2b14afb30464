import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';

/** Files of a plugin: a valid manifest by default, and a program. */
export interface PluginFiles {
  readonly name?: string;
  readonly entrypoint?: string;
  /** Additional lines of YAML. */
  readonly extra?: string;
  readonly commands?: string;
  /** Complete manifest, instead of everything above. */
  readonly manifest?: string;
  readonly program?: string | undefined;
}

export async function writePlugin(directory: string, files: PluginFiles = {}): Promise<string> {
  const { entrypoint = 'run.sh', program = '#!/bin/sh\n' } = files;
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'manifest.yaml'), files.manifest ?? manifestText(files));
  if (program !== '') {
    const path = join(directory, entrypoint);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, program);
    await chmod(path, 0o755);
  }
  await chmod(directory, 0o755);
  return directory;
}

export function manifestText(files: PluginFiles = {}): string {
  const { name = 'echo', entrypoint = 'run.sh', extra = '' } = files;
  const commands = files.commands ?? 'commands: {poll: {type: read}, handle: {}}';
  return `manifest_spec: ductile.plugin
manifest_version: 1
name: ${name}
version: 1.0.0
protocol: 2
entrypoint: ${entrypoint}
${commands}
${extra}`;
}

export async function writeConfig(
  directory: string,
  yaml: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Config> {
  const file = join(directory, 'config.yaml');
  await writeFile(file, yaml);
  return loadConfig({ given: file, env, home: '/people/somebody' });
}
