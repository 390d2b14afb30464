import { readHomeDirectory } from '../base/account.ts';
import { isObject, deepFreeze } from '../base/json.ts';
import { buildConfig } from './build.ts';
import type { AdmissionConfig, Config, ConfigFile } from './config.ts';
import { keyText, type Document, type KeyPath } from './document.ts';
import { fingerprintConfig, showEffective } from './effective.ts';
import { readEnvironmentFiles, readSources, type ConfigSource } from './sources.ts';
import { dropExtensionKeys, mergeDocuments } from './located.ts';
import { findConfig, findUnread, type ConfigLocation } from './find.ts';
import { hashFile, findDrift, readLock, type Drift, type LockReading } from './integrity.ts';
import { interpolate, type Environment, type PlaceholderFault } from './interpolate.ts';
import { describeIssues } from './issues.ts';
import { configInvalid, makeProblem, type Problem } from './problem.ts';
import { findKeyRefusal } from './refused-keys.ts';
import { configSchema } from './schema.ts';
import { makeScopeFiles } from './tokens.ts';
import { translateSpellings } from './translate.ts';

export interface LoadOptions {
  /** The argument of `--config`. */
  readonly given?: string | undefined;
  readonly env?: Environment;
  readonly home?: string;
  readonly cwd?: string;
  /** Checks in addition to those of the files: the running service decides on a reload. */
  readonly admission?: AdmissionConfig;
  /** Texts that replace files, to check a planned change. */
  readonly replace?: ReadonlyMap<string, string>;
}

/** The content of the files, even if it is invalid. */
export interface ConfigReading {
  readonly found: ConfigLocation;
  readonly sources: readonly ConfigSource[];
  /** All files merged, before variables are replaced. */
  readonly document: Document;
  /** Undefined when the content is invalid. Missing locks don't matter here. */
  readonly config: Config | undefined;
  /** Problems of the content. */
  readonly problems: readonly Problem[];
  /** All files that were read, including environment and scope files. */
  readonly files: readonly ConfigFile[];
  readonly manifest: LockReading;
  readonly links: readonly Problem[];
  readonly drift: readonly Drift[];
  /** Accepted spellings of the original project, and the keys that they stand for. */
  readonly translated: readonly Problem[];
}

/**
 * Finds, reads and checks the configuration. Throws all problems in one CONFIG_INVALID. A file that
 * must be locked and isn't is never used.
 */
export function loadConfig(options: LoadOptions = {}): Config {
  const { config, problems, manifest, drift } = readConfig(options);
  if (manifest.state === 'unusable') throw configInvalid([manifest.problem]);
  const high = drift.filter(({ tier, change }) => tier === 'high' && change !== 'removed');
  if (high.length > 0) throw configInvalid(high.map(({ problem }) => problem));
  if (config === undefined) throw configInvalid(problems);
  const admissions = [config.service.admission, options.admission];
  const isLockRequired = admissions.some((rules) => rules?.verifyIntegrityOnBoot === true);
  const isDriftRefused = admissions.some((rules) => rules?.failOnDrift === true);
  const isRefused = manifest.state === 'absent' ? isLockRequired : isDriftRefused;
  const refused = isRefused ? drift : [];
  if (refused.length > 0) throw configInvalid(refused.map(({ problem }) => problem));
  return config;
}

/** Reads a configuration without refusing it, to inspect it. */
export function readConfig(options: LoadOptions = {}): ConfigReading {
  const { given, env = process.env, home = readHomeDirectory(), cwd = process.cwd() } = options;
  const found = findConfig({ given, env, home, cwd });
  const { directory } = found;
  const { sources, problems: unread, links } = readSources(found.file, home, options.replace);
  const environment = readEnvironmentFiles(sources, home);
  const translated: Problem[] = [];
  const document = mergeDocuments(
    sources.map((source) => source.document),
    (written) => {
      const { root, notes } = translateSpellings(written);
      translated.push(...notes);
      return dropExtensionKeys(root, configSchema);
    },
  );
  const read = [...sources, ...environment.files];
  const files = read.map(({ file, bytes }) => hashFile(file, bytes, directory));
  const manifest = readLock(directory);
  const finish = (
    config: Config | undefined,
    problems: readonly Problem[],
    all: readonly ConfigFile[],
  ): ConfigReading => ({
    found,
    sources,
    document,
    config,
    problems,
    files: all,
    manifest,
    links,
    drift: findDrift(all, manifest, directory),
    translated,
  });
  const broken = [...unread, ...environment.problems];
  if (broken.length > 0) return finish(undefined, broken, files);

  const checked = checkContent(
    document,
    { ...environment.variables, ...listSet(env) },
    found,
    home,
    (note) => translated.push(note),
  );
  const all = [...files, ...checked.scopeFiles];
  const { config, parsed } = checked;
  const refusedLinks = config?.service.allowSymlinks === true ? [] : links;
  const problems = [...checked.problems, ...refusedLinks.map(withLinkHint)];
  if (config === undefined || parsed === undefined || problems.length > 0) {
    return finish(undefined, problems, all);
  }
  const drift = findDrift(all, manifest, directory);
  const warned = manifest.state === 'sound' ? drift.map(({ problem }) => problem) : [];
  const whole: Config = {
    ...config,
    files: all,
    isLocked: manifest.state !== 'absent',
    fingerprint: fingerprintConfig(parsed, config.api.auth.tokens.map(withoutPlace)),
    redacted: showEffective(document.value, parsed),
    warnings: [...warned, ...links, ...findUnread(found, all), ...translated],
  };
  return finish(deepFreeze(whole), [], all);
}

/** The configuration of the merged files, or their problems. */
interface ContentResult {
  readonly config: ReturnType<typeof buildConfig> | undefined;
  readonly parsed: ReturnType<typeof configSchema.parse> | undefined;
  readonly problems: readonly Problem[];
  readonly scopeFiles: readonly ConfigFile[];
}

function checkContent(
  document: Document,
  env: Environment,
  { file, directory }: ConfigLocation,
  home: string,
  note: (note: Problem) => void,
): ContentResult {
  const { value, faults } = interpolate(document.value, env);
  const used = faults.filter(({ kind, path }) => kind === 'invalid' || isUsed(path, value));
  const problems = used.map(({ path, message, hint }) =>
    makeProblem(document.placeOf(path), keyText(path), message, hint),
  );
  // The schema is used once: compiling it would take longer than using it.
  const parsed = configSchema.safeParse(value, { jitless: true });
  if (!parsed.success) {
    const others = parsed.error.issues.filter(({ path }) => !hasFault(path, used));
    problems.push(...describeIssues(others, configSchema, document, { refusalOf: findKeyRefusal }));
    return { config: undefined, parsed: undefined, problems, scopeFiles: [] };
  }
  const report = (path: KeyPath, message: string, hint?: string): void => {
    if (hasFault(path, used)) return;
    problems.push(makeProblem(document.placeOf(path), keyText(path), message, hint));
  };
  const warn = (path: KeyPath, message: string, hint: string): void =>
    note(makeProblem(document.placeOf(path), keyText(path), message, hint));
  const scopeFiles = makeScopeFiles({ directory, home, report, warn });
  const { placeOf } = document;
  const readScopes = scopeFiles.read;
  const built = { file, directory, home, placeOf, report, readScopes };
  const config = buildConfig(parsed.data, built);
  return { config, parsed: parsed.data, problems, scopeFiles: scopeFiles.files };
}

/** Returns whether a value is used: a disabled plugin may name variables that aren't set. */
function isUsed([top, name, key]: KeyPath, value: unknown): boolean {
  if (top !== 'plugins' || key === 'enabled' || !isObject(value)) return true;
  const plugins = value['plugins'];
  const plugin = isObject(plugins) ? plugins[String(name)] : undefined;
  const enabled = isObject(plugin) ? plugin['enabled'] : undefined;
  return enabled !== false && enabled !== 'false';
}

function hasFault(path: KeyPath, faults: readonly PlaceholderFault[]): boolean {
  const key = keyText(path);
  return faults.some((other) => keyText(other.path) === key);
}

/** Returns the variables that are set. They override those of files, even with an empty value. */
function listSet(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
}

function withLinkHint(link: Problem): Problem {
  return { ...link, hint: 'Name the file itself, or set service.allow_symlinks.' };
}

function withoutPlace({ name, digest, scopes }: Config['api']['auth']['tokens'][number]): unknown {
  return { name, digest, scopes };
}
