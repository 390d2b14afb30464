import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readHomeDirectory } from '../base/account.ts';
import { DuctileError } from '../base/errors.ts';
import type { Environment } from './interpolate.ts';
import { resolvePath } from '../base/files.ts';
import type { ConfigFile } from './config.ts';
import { makeProblem, type Problem } from './problem.ts';

export const CONFIG_FILE = 'config.yaml';

export interface FindOptions {
  /** The argument of `--config`: a file or a directory. */
  readonly given?: string | undefined;
  readonly env: Environment;
  readonly home: string;
  readonly cwd: string;
  /** Searched last. */
  readonly systemDirectory?: string;
}

export interface ConfigLocation {
  readonly file: string;
  readonly directory: string;
}

/**
 * Finds the configuration file. A location that the user names is used or fails; no other
 * configuration is searched.
 */
export function findConfig(options: FindOptions): ConfigLocation {
  const { env, home, cwd, systemDirectory = '/etc/ductile' } = options;
  const given = nonBlank(options.given);
  if (given !== undefined) return findAt([resolvePath(given, cwd, home)], '--config');
  const variable = nonBlank(env['DUCTILE_CONFIG_DIR']);
  if (variable !== undefined) {
    return findAt([resolvePath(variable, cwd, home)], 'DUCTILE_CONFIG_DIR');
  }
  return findAt([join(home, '.config', 'ductile'), systemDirectory], undefined);
}

/** Returns the directory for a new configuration. */
export function homeDirectory(given: string | undefined): string {
  const path = nonBlank(given) ?? nonBlank(process.env['DUCTILE_CONFIG_DIR']);
  const home = readHomeDirectory();
  if (path === undefined) return join(home, '.config', 'ductile');
  return resolvePath(path, process.cwd(), home);
}

function findAt(locations: readonly string[], source: string | undefined): ConfigLocation {
  const candidates = locations.map((path) => (isDirectory(path) ? join(path, CONFIG_FILE) : path));
  const file = candidates.find((candidate) => existsSync(candidate) && !isDirectory(candidate));
  if (file !== undefined) return { file, directory: dirname(file) };
  const looked = candidates.join(' and ');
  const message =
    source === undefined
      ? `No configuration found; looked at ${looked}`
      : `No configuration found at ${looked}, which ${source} names`;
  throw new DuctileError('CONFIG_NOT_FOUND', message, {
    details: { looked: candidates },
    ...(source === undefined ? { hint: FIRST_STEPS } : {}),
    ...hintMisspelled(candidates),
  });
}

const FIRST_STEPS =
  'Create one with `ductile init`, name another with --config, or try `ductile demo`.';

/** Returns a hint about the common mistake `config.yml`. */
function hintMisspelled(candidates: readonly string[]): { hint?: string } {
  const other = candidates
    .map((candidate) => candidate.replace(/\.yaml$/, '.yml'))
    .find((candidate) => existsSync(candidate));
  return other === undefined ? {} : { hint: `Rename ${other} to ${CONFIG_FILE}.` };
}

function nonBlank(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === '' ? undefined : text;
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Common file names of parts of a configuration. */
const commonNames = ['api', 'pipelines', 'plugins', 'routes', 'tokens', 'webhooks'];

/**
 * Finds files next to the root file that look like a part of the configuration but aren't included.
 */
export function findUnread(
  { directory }: ConfigLocation,
  files: readonly Pick<ConfigFile, 'path'>[],
): Problem[] {
  const read = new Set(files.map(({ path }) => path));
  return commonNames
    .flatMap((name) => [`${name}.yaml`, `${name}.yml`])
    .filter((name) => !read.has(join(directory, name)) && existsSync(join(directory, name)))
    .map((name) =>
      makeProblem(
        join(directory, name),
        '',
        'is not read: no file includes it',
        `Add \`include: [${name}]\` to config.yaml, or move the file away.`,
      ),
    );
}
