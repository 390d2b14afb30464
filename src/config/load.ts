import { homedir } from 'node:os';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { buildConfig } from './build.ts';
import type { Config } from './config.ts';
import { keyText, readDocument } from './document.ts';
import type { Path } from './document.ts';
import { findConfig } from './find.ts';
import { deepFreeze } from './freeze.ts';
import { interpolate } from './interpolate.ts';
import type { Environment, Unset } from './interpolate.ts';
import { describeIssues } from './issues.ts';
import { configInvalid, makeProblem } from './problem.ts';
import { configSchema } from './schema.ts';

export interface LoadOptions {
  /** What `--config` named. */
  readonly given?: string | undefined;
  readonly env?: Environment;
  readonly home?: string;
  readonly cwd?: string;
}

/** Finds, reads and checks the configuration; all that is wrong comes in one CONFIG_INVALID. */
export function loadConfig(options: LoadOptions = {}): Config {
  const { given, env = process.env, home = homedir(), cwd = process.cwd() } = options;
  const { file, directory } = findConfig({ given, env, home, cwd });
  const document = readDocument(file, limits.configBytesMax);
  if (document.problems.length > 0) throw configInvalid(document.problems);

  const { value, unset } = interpolate(document.value, env);
  const used = unset.filter(({ path }) => isUsed(path, value));
  const problems = used.map(({ path, variable }) =>
    makeProblem(
      document.placeOf(path),
      keyText(path),
      `uses the environment variable ${variable}, which is not set`,
      `Set ${variable}, or write $\${${variable}} for the text itself.`,
    ),
  );
  const parsed = configSchema.safeParse(value);
  if (!parsed.success) {
    const others = parsed.error.issues.filter(({ path }) => !hasUnset(path, used));
    problems.push(...describeIssues(others, configSchema, document));
    throw configInvalid(problems);
  }
  const config = buildConfig(parsed.data, {
    file,
    directory,
    home,
    placeOf: document.placeOf,
    report: (path, message, hint) => {
      if (hasUnset(path, used)) return;
      problems.push(makeProblem(document.placeOf(path), keyText(path), message, hint));
    },
  });
  if (problems.length > 0) throw configInvalid(problems);
  return deepFreeze(config);
}

/** A plugin that is switched off may name variables that nobody has set. */
function isUsed([top, name, key]: Path, value: unknown): boolean {
  if (top !== 'plugins' || key === 'enabled' || !isObject(value)) return true;
  const plugins = value['plugins'];
  const plugin = isObject(plugins) ? plugins[String(name)] : undefined;
  const enabled = isObject(plugin) ? plugin['enabled'] : undefined;
  return enabled !== false && enabled !== 'false';
}

function hasUnset(path: Path, unset: readonly Unset[]): boolean {
  const key = keyText(path);
  return unset.some((other) => keyText(other.path) === key);
}
