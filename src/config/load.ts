import { readHomeDirectory } from '../base/account.ts';
import { isObject } from '../base/json.ts';
import { buildConfig } from './build.ts';
import type { AdmissionConfig, Config, ConfigFile } from './config.ts';
import { keyText } from './document.ts';
import type { Document, Path } from './document.ts';
import { fingerprintOf, showEffective } from './effective.ts';
import { readEnvironmentFiles, readSources, type Source } from './sources.ts';
import { dropExtensionKeys, mergeDocuments } from './located.ts';
import { findConfig, findUnread, type Found } from './find.ts';
import { deepFreeze } from './freeze.ts';
import {
  describeFile,
  findDrift,
  readManifest,
  type Drift,
  type ManifestReading,
} from './integrity.ts';
import { interpolate } from './interpolate.ts';
import type { Environment, PlaceholderFault } from './interpolate.ts';
import { describeIssues } from './issues.ts';
import { configInvalid, makeProblem } from './problem.ts';
import type { Problem } from './problem.ts';
import { refusalOf } from './refused-keys.ts';
import { configSchema } from './schema.ts';
import { makeScopeFiles } from './tokens.ts';
import { translateSpellings } from './translate.ts';

export interface LoadOptions {
  /** What `--config` named. */
  readonly given?: string | undefined;
  readonly env?: Environment;
  readonly home?: string;
  readonly cwd?: string;
  /** Gates that hold besides those of the files: what runs decides what may take its place. */
  readonly admission?: AdmissionConfig;
  /** Texts that are read in the place of files, to see what would be if they were there. */
  readonly replace?: ReadonlyMap<string, string>;
}

/** What the files say, also when it cannot be used. */
export interface Reading {
  readonly found: Found;
  readonly sources: readonly Source[];
  /** All files as one, before variables are replaced. */
  readonly document: Document;
  /** Undefined when what the files say cannot be used; that they are not locked does not count. */
  readonly config: Config | undefined;
  /** What is wrong with what the files say. */
  readonly problems: readonly Problem[];
  /** All files that were read, environment and scope files included. */
  readonly files: readonly ConfigFile[];
  readonly manifest: ManifestReading;
  /** Files and directories that are symbolic links. */
  readonly links: readonly Problem[];
  readonly drift: readonly Drift[];
  /** Spellings of the original that were accepted, and the keys that they stand for. */
  readonly translated: readonly Problem[];
}

/**
 * Finds, reads and checks the configuration; all that is wrong comes in one CONFIG_INVALID. Nothing
 * is used of a file that must be locked and is not.
 */
export function loadConfig(options: LoadOptions = {}): Config {
  const { config, problems, manifest, drift } = readConfig(options);
  if (manifest.state === 'unusable') throw configInvalid([manifest.problem]);
  const high = drift.filter(({ tier, change }) => tier === 'high' && change !== 'removed');
  if (high.length > 0) throw configInvalid(high.map(({ problem }) => problem));
  if (config === undefined) throw configInvalid(problems);
  const gates = [config.service.admission, options.admission];
  const mustLock = gates.some((gate) => gate?.verifyIntegrityOnBoot === true);
  const mustStay = gates.some((gate) => gate?.failOnDrift === true);
  const refused = drift.filter(() => (manifest.state === 'absent' ? mustLock : mustStay));
  if (refused.length > 0) throw configInvalid(refused.map(({ problem }) => problem));
  return config;
}

/** The same without judging: for whoever looks at a configuration instead of using it. */
export function readConfig(options: LoadOptions = {}): Reading {
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
  const files = read.map(({ file, bytes }) => describeFile(file, bytes, directory));
  const manifest = readManifest(directory);
  const finish = (
    config: Config | undefined,
    problems: readonly Problem[],
    all: readonly ConfigFile[],
  ): Reading => ({
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
    { ...environment.variables, ...defined(env) },
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
    fingerprint: fingerprintOf(parsed, config.api.auth.tokens.map(withoutPlace)),
    redacted: showEffective(document.value, parsed),
    warnings: [...warned, ...links, ...findUnread(found, all), ...translated],
  };
  return finish(deepFreeze(whole), [], all);
}

interface Checked {
  readonly config: ReturnType<typeof buildConfig> | undefined;
  readonly parsed: ReturnType<typeof configSchema.parse> | undefined;
  readonly problems: readonly Problem[];
  readonly scopeFiles: readonly ConfigFile[];
}

function checkContent(
  document: Document,
  env: Environment,
  { file, directory }: Found,
  home: string,
  note: (note: Problem) => void,
): Checked {
  const { value, faults } = interpolate(document.value, env);
  const used = faults.filter(({ kind, path }) => kind === 'invalid' || isUsed(path, value));
  const problems = used.map(({ path, message, hint }) =>
    makeProblem(document.placeOf(path), keyText(path), message, hint),
  );
  // It is read once: compiling the schema first would take longer than reading with it.
  const parsed = configSchema.safeParse(value, { jitless: true });
  if (!parsed.success) {
    const others = parsed.error.issues.filter(({ path }) => !hasFault(path, used));
    problems.push(...describeIssues(others, configSchema, document, { refusalOf }));
    return { config: undefined, parsed: undefined, problems, scopeFiles: [] };
  }
  const report = (path: Path, message: string, hint?: string): void => {
    if (hasFault(path, used)) return;
    problems.push(makeProblem(document.placeOf(path), keyText(path), message, hint));
  };
  const warn = (path: Path, message: string, hint: string): void =>
    note(makeProblem(document.placeOf(path), keyText(path), message, hint));
  const scopeFiles = makeScopeFiles({ directory, home, report, warn });
  const { placeOf } = document;
  const readScopes = scopeFiles.read;
  const built = { file, directory, home, placeOf, report, readScopes };
  const config = buildConfig(parsed.data, built);
  return { config, parsed: parsed.data, problems, scopeFiles: scopeFiles.files };
}

/** A disabled plugin may name variables that aren't set. */
function isUsed([top, name, key]: Path, value: unknown): boolean {
  if (top !== 'plugins' || key === 'enabled' || !isObject(value)) return true;
  const plugins = value['plugins'];
  const plugin = isObject(plugins) ? plugins[String(name)] : undefined;
  const enabled = isObject(plugin) ? plugin['enabled'] : undefined;
  return enabled !== false && enabled !== 'false';
}

function hasFault(path: Path, faults: readonly PlaceholderFault[]): boolean {
  const key = keyText(path);
  return faults.some((other) => keyText(other.path) === key);
}

/** What the process was started with wins over files, also when it is empty. */
function defined(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
}

function withLinkHint(link: Problem): Problem {
  return { ...link, hint: 'Name the file itself, or set service.allow_symlinks.' };
}

function withoutPlace({ name, digest, scopes }: Config['api']['auth']['tokens'][number]): unknown {
  return { name, digest, scopes };
}
