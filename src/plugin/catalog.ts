import { DuctileError } from '../base/errors.ts';
import { compact, toCanonicalJson, type JsonObject, deepFreeze } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type {
  ApiAccess,
  Config,
  IsolationConfig,
  PluginConfig,
  ResourceLimits,
  RetryConfig,
} from '../config/config.ts';
import { keyText } from '../config/document.ts';
import { ANY_COMMAND } from '../config/fields.ts';
import { suggest } from '../base/text.ts';
import { resolveLimits } from '../config/plugin-process.ts';
import { configInvalid, makeProblem, sentence, type Problem } from '../config/problem.ts';
import {
  findPluginSources,
  type PluginSource,
  type PluginSources,
  type PluginProblem,
} from './source.ts';
import type { Manifest, ManifestCommand } from './manifest.ts';
import { createHash } from 'node:crypto';

/** A plugin that can run, under the name that jobs use. */
export interface Plugin {
  readonly name: string;
  /** The plugin that has the code, for an alias. */
  readonly uses: string | undefined;
  readonly manifest: Manifest;
  readonly directory: string;
  /** Absolute, with symbolic links resolved. */
  readonly entrypoint: string;
  readonly config: Readonly<JsonObject>;
  readonly parallelism: number;
  readonly timeoutMs: (command: string) => number;
  readonly retry: RetryConfig;
  /** Limits for all processes of one attempt together; undefined means unlimited. */
  readonly limits: ResourceLimits;
  /** The number of prewarmed processes; undefined prewarms one while a caller waits for results. */
  readonly prewarm: number | undefined;
  /** The scopes of its jobs while they run. */
  readonly apiAccess: ApiAccess | undefined;
  /** The isolation that the configuration files set. */
  readonly isolation: IsolationConfig | undefined;
  /** Changes with its files or settings. */
  readonly fingerprint: string;
  /** Changes with its files and configuration, but not with its limits. */
  readonly identity: string;
}

/** All plugins of a configuration, loaded or not. */
export interface Catalog {
  readonly plugins: ReadonlyMap<string, Plugin>;
  /** Plugins that were found but not loaded, with the reasons. */
  readonly problems: readonly PluginProblem[];
  readonly warnings: readonly Problem[];
  /** Plugins that need configuration first: found, not listed, with these required keys. */
  readonly dormant: ReadonlyMap<string, readonly string[]>;
  /** Names that the configuration disables. */
  readonly disabled: ReadonlySet<string>;
  /** Names of all readable plugins under the roots, used or not. */
  readonly found: ReadonlySet<string>;
  /** All plugin code under the roots. */
  readonly sources: PluginSources;
  /**
   * Enabled plugins that did not load, with the reason. Routes, steps and endpoints may name them,
   * and their jobs wait. Empty when plugins that don't load are refused.
   */
  readonly unloaded: ReadonlyMap<string, string>;
}

/** A reload refuses targets that name a plugin that did not load; a start lets them wait. */
export type UnloadedTargets = 'refuse' | 'wait';

/**
 * Loads all plugins. An invalid plugin is left out and reported. Problems of the configuration
 * itself are thrown as CONFIG_INVALID.
 */
export function loadCatalog(
  config: Config,
  found: PluginSources = findPluginSources(config),
  unloadedTargets: UnloadedTargets = 'refuse',
): Catalog {
  const others = config.onlyListed ? [] : found.byName.keys();
  const names = [...new Set([...Object.keys(config.plugins), ...others])];
  const enabled = names.filter((name) => settingsOf(config, name).enabled);
  const faults = enabled.flatMap((name) => checkUses(name, config, found));
  if (faults.length > 0) throw configInvalid(faults);

  const dormant = findDormant(enabled, config, found.byName);
  const configured = enabled.filter((name) => !dormant.has(name));
  const loaded = configured.map((name) => loadPlugin(name, config, found.byName));
  const plugins = new Map(
    loaded.flatMap(({ plugin }) => (plugin === undefined ? [] : [[plugin.name, plugin] as const])),
  );
  const problems = [...found.problems, ...loaded.flatMap(({ problems: own }) => own)];
  const disabled = new Set(names.filter((name) => !settingsOf(config, name).enabled));
  const broken = problems.filter(({ plugin }) => !plugins.has(plugin) && !disabled.has(plugin));
  return {
    plugins,
    problems,
    warnings: [...found.warnings, ...loaded.flatMap(({ warnings }) => warnings)],
    dormant,
    disabled,
    found: new Set([...found.byName.keys(), ...found.problems.map(({ plugin }) => plugin)]),
    sources: found,
    unloaded: new Map(
      unloadedTargets === 'wait'
        ? broken.map((problem) => [problem.plugin, sentence(problem)])
        : [],
    ),
  };
}

export function findPluginCommand(plugin: Plugin, command: string): ManifestCommand | undefined {
  return plugin.manifest.commands[command];
}

/** Returns a plugin that can run. Throws the reason if it can't, or PLUGIN_NOT_FOUND. */
export function requirePlugin(catalog: Catalog, name: string): Plugin {
  const plugin = catalog.plugins.get(name);
  if (plugin !== undefined) return plugin;
  const problem = catalog.problems.find(({ plugin: owner }) => owner === name);
  if (problem !== undefined) {
    const { place, hint } = problem;
    const message = `the plugin ${name} did not load: ${sentence(problem)}`;
    throw new DuctileError('PLUGIN_INVALID', message, { place, hint });
  }
  const needed = catalog.dormant.get(name);
  if (needed !== undefined) {
    const keys = needed.map((key) => `plugins.${name}.config.${key}`).join(', ');
    const hint = `Set ${keys}.`;
    throw new DuctileError('PLUGIN_INVALID', `the plugin ${name} is not set up yet`, { hint });
  }
  throw pluginNotFound(catalog, name);
}

/** Returns a plugin that can run, or throws PLUGIN_NOT_FOUND, whatever the reason. */
export function requireLoadedPlugin(catalog: Catalog, name: string, hint?: string): Plugin {
  const plugin = catalog.plugins.get(name);
  if (plugin === undefined) throw pluginNotFound(catalog, name, hint);
  return plugin;
}

/** Returns a command of a plugin, or throws COMMAND_NOT_FOUND. */
export function requireCommand(
  { name, manifest: { commands } }: Plugin,
  command: string,
  hint?: string,
): ManifestCommand {
  const declared = commands[command];
  if (declared !== undefined) return declared;
  throw new DuctileError('COMMAND_NOT_FOUND', `the plugin ${name} has no command ${command}`, {
    hint: hint ?? suggest(command, Object.keys(commands), 'commands'),
  });
}

export function pluginNotFound(catalog: Catalog, name: string, hint?: string): DuctileError {
  if (catalog.disabled.has(name)) {
    return new DuctileError('PLUGIN_NOT_FOUND', `the plugin ${name} is disabled`, {
      hint: `Set plugins.${name}.enabled to true.`,
    });
  }
  return new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${name}`, {
    hint: hint ?? suggest(name, [...catalog.plugins.keys()], 'plugins'),
  });
}

/** Refuses a name that is neither a plugin nor one that is disabled, broken or not set up. */
export function refuseUnknownPlugin(catalog: Catalog, name: string): void {
  const { found, plugins, disabled } = catalog;
  if (found.has(name) || plugins.has(name) || disabled.has(name)) return;
  throw pluginNotFound(catalog, name);
}

/** Finds plugins that need configuration. They aren't listed, so that isn't a fault. */
function findDormant(
  names: readonly string[],
  config: Config,
  bases: ReadonlyMap<string, PluginSource>,
): Map<string, readonly string[]> {
  const dormant = new Map<string, readonly string[]>();
  for (const name of names) {
    const required = bases.get(name)?.manifest.configKeys.required ?? [];
    if (config.plugins[name] === undefined && required.length > 0) dormant.set(name, required);
  }
  return dormant;
}

function settingsOf(config: Config, name: string): PluginConfig {
  return config.plugins[name] ?? config.pluginDefaults;
}

/** Follows `uses:` from a name to the plugin that has the code. */
function followUses(
  name: string,
  { plugins }: Config,
): { readonly way: readonly string[]; readonly base: string; readonly cycle: boolean } {
  const way = [name];
  let base = name;
  for (let next = plugins[name]?.uses; next !== undefined; next = plugins[next]?.uses) {
    const cycle = way.includes(next);
    way.push(next);
    base = next;
    if (cycle) return { way, base, cycle };
  }
  return { way, base, cycle: false };
}

/** Checks that `uses:` leads to a plugin in a root. */
function checkUses(name: string, config: Config, { byName, problems }: PluginSources): Problem[] {
  const { way, base, cycle } = followUses(name, config);
  const { place } = settingsOf(config, name);
  const usesKey = keyText(['plugins', name, 'uses']);
  if (cycle) {
    const message = way.length === 2 ? 'names itself' : `forms a cycle: ${way.join(' → ')}`;
    return [makeProblem(place, usesKey, message, 'Name a plugin that has code of its own.')];
  }
  // An invalid plugin is reported elsewhere and doesn't affect others.
  if (byName.has(base) || problems.some(({ plugin }) => plugin === base)) return [];
  const hint = suggest(base, [...byName.keys()], 'plugins found');
  return [
    base === name
      ? makeProblem(place, keyText(['plugins', name]), 'is not in any plugin root', hint)
      : makeProblem(place, usesKey, `leads to ${base}, which is not in any plugin root`, hint),
  ];
}

interface LoadResult {
  readonly plugin: Plugin | undefined;
  readonly problems: readonly PluginProblem[];
  readonly warnings: readonly Problem[];
}

function loadPlugin(
  name: string,
  config: Config,
  bases: ReadonlyMap<string, PluginSource>,
): LoadResult {
  const settings = settingsOf(config, name);
  const baseName = followUses(name, config).base;
  const base = bases.get(baseName);
  const problems =
    base === undefined
      ? explainMissingSource(name, baseName, settings)
      : findMissingKeys(name, base, settings);
  if (base === undefined || problems.length > 0) {
    const named = problems.map((problem) => ({ ...problem, plugin: name }));
    return { plugin: undefined, problems: named, warnings: [] };
  }
  const warnings = [
    ...warnTimeouts(name, base, settings),
    ...warnParallelism(name, settings, config),
    ...warnShadowed(name, settings),
  ];
  if (baseName !== name && bases.has(name)) {
    const message = `hides the plugin of that name; ${baseName} runs instead`;
    warnings.push(makeProblem(settings.place, keyText(['plugins', name, 'uses']), message));
  }
  // A package of a tenant must not inherit isolation by choosing the name of another plugin.
  const isolation = settings.isolation ?? config.pluginIsolation[baseName];
  const plugin = makePlugin(name, baseName, base, { ...settings, isolation }, config);
  return { plugin, problems: [], warnings };
}

/** The faults of the source are reported elsewhere; an alias gets a message of its own. */
function explainMissingSource(name: string, base: string, { place }: PluginConfig): Problem[] {
  if (name === base) return [];
  const key = keyText(['plugins', name, 'uses']);
  return [makeProblem(place, key, `leads to ${base}, which did not load`)];
}

function findMissingKeys(
  name: string,
  { manifest }: PluginSource,
  settings: PluginConfig,
): Problem[] {
  const { config, place, prewarm = 0 } = settings;
  const problems = manifest.configKeys.required
    .filter((key) => !Object.hasOwn(config, key) || config[key] === null)
    .map((key) => {
      const path = keyText(['plugins', name, 'config', key]);
      return makeProblem(place, path, 'is required by the manifest', `Set ${path}.`);
    });
  if (prewarm > 0 && !manifest.prewarm) {
    const message = 'is set, but the manifest of the plugin does not allow prewarming';
    const hint =
      'Remove it, or add `prewarm: true` to the manifest if the plugin waits for its request.';
    problems.push(makeProblem(place, keyText(['plugins', name, 'prewarm']), message, hint));
  }
  return problems;
}

function warnTimeouts(name: string, { manifest }: PluginSource, settings: PluginConfig): Problem[] {
  const known = Object.keys(manifest.commands);
  return Object.keys(settings.timeoutsMs)
    .filter((command) => command !== ANY_COMMAND)
    .filter((command) => !known.includes(command) && !Object.hasOwn(limits.timeoutMs, command))
    .map((command) => {
      const key = keyText(['plugins', name, 'timeouts', command]);
      const message = 'is for a command that the plugin does not have';
      return makeProblem(settings.place, key, message, suggest(command, known, 'commands'));
    });
}

function warnParallelism(
  name: string,
  { parallelism, place }: PluginConfig,
  config: Config,
): Problem[] {
  const { maxWorkers } = config.service;
  if (config.state.kind !== 'sqlite' || parallelism === undefined || parallelism <= maxWorkers) {
    return [];
  }
  const message = `is ${parallelism}, but service.max_workers lets only ${maxWorkers} jobs run at once`;
  const hint = `Raise service.max_workers to ${parallelism} or more, or lower the parallelism.`;
  return [makeProblem(place, keyText(['plugins', name, 'parallelism']), message, hint)];
}

/** Actions of `ductile run`. Other words are names of plugins. */
export const RUN_ACTIONS: ReadonlySet<string> = new Set([
  'approve',
  'cancel',
  'list',
  'reject',
  'retry-from',
  'revive',
  'show',
  'tree',
  'wait',
]);

function warnShadowed(name: string, { place }: PluginConfig): Problem[] {
  if (!RUN_ACTIONS.has(name)) return [];
  const message = `has the name of an action: \`ductile run ${name}\` is about runs and does not start it`;
  const hint = `Start it with \`ductile plugin run ${name}\`, or give it another name with \`uses\`.`;
  return [makeProblem(place, keyText(['plugins', name]), message, hint)];
}

function makePlugin(
  name: string,
  baseName: string,
  { manifest, directory, entrypoint, files }: PluginSource,
  settings: PluginConfig,
  { service: { maxWorkers }, state, pluginLimits }: Config,
): Plugin {
  const { config, retry, timeoutsMs, apiAccess, isolation } = settings;
  const prewarm = manifest.prewarm ? settings.prewarm : 0;
  const wanted = settings.parallelism ?? (manifest.concurrencySafe ? maxWorkers : 1);
  // With PostgreSQL the limit counts over all hosts, so it may exceed the workers of one.
  const parallelism = state.kind === 'sqlite' ? Math.min(wanted, maxWorkers) : wanted;
  const resources = resolveLimits(settings.limits, pluginLimits);
  const access = apiAccess === undefined ? {} : { scopes: apiAccess.scopes };
  const confined = compact({ isolation });
  const bounds = { parallelism, retry, prewarm, timeoutsMs, limits: resources };
  const defaults = new Map<string, number>(Object.entries(limits.timeoutMs));
  return deepFreeze({
    name,
    uses: baseName === name ? undefined : baseName,
    manifest,
    directory,
    entrypoint,
    config,
    parallelism,
    timeoutMs: (command: string) =>
      timeoutsMs[command] ??
      timeoutsMs[ANY_COMMAND] ??
      defaults.get(command) ??
      limits.timeoutDefaultMs,
    retry,
    limits: resources,
    prewarm,
    apiAccess,
    isolation,
    identity: hashParts(files, { name, config }),
    fingerprint: hashParts(files, { name, config, ...bounds, ...access, ...confined }),
  });
}

/** Hashes everything that decides the behavior of a plugin: its files and its settings. */
function hashParts(files: readonly Buffer[], settings: unknown): string {
  const hash = createHash('sha256');
  for (const part of [...files, Buffer.from(toCanonicalJson(settings))]) {
    // The length separates a part from the next one.
    hash.update(`${part.length}:`).update(part);
  }
  return hash.digest('hex');
}
