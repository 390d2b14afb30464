import { toCanonicalJson, isObject, type Json, type JsonObject } from '../base/json.ts';
import type { Config } from '../config/config.ts';
import { describeInstallation, type InstalledPackage } from '../config/installed.ts';
import { suggest } from '../base/text.ts';
import type { InstallationRow } from './types.ts';
import { readProvides, type Package, type RequiredPlugin } from './package.ts';
import { isFromInstaller, listProvisions } from './provision.ts';
import { parseRange, satisfies } from './version.ts';
import { flattenSteps } from '../pipeline/language/entry.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { Manifest } from '../plugin/manifest.ts';
import type { Blueprint } from '../engine/generation.ts';

/** A package and the ledger that it is to be installed in. */
export interface FitRequest {
  /** Undefined if the files of the package aren't needed, as when it is enabled again. */
  readonly found: Package | undefined;
  readonly one: InstalledPackage;
  readonly others: readonly InstallationRow[];
  readonly catalog: Catalog;
  /** True if the catalog already contains what the package provides. */
  readonly isActive?: boolean;
}

interface Misfit {
  readonly message: string;
  readonly hint?: string;
}

/** Finds why a package doesn't fit into a ledger, by its names and plugins. */
export function checkFit(fit: FitRequest): Misfit | undefined {
  if (fit.isActive === true) return checkRequired(fit) ?? checkOperatorKeys(fit);
  return checkMissing(fit) ?? checkNames(fit) ?? checkUses(fit);
}

/** Finds a required plugin that is missing. Commands and versions are checked later. */
function checkMissing({ found, catalog }: FitRequest): Misfit | undefined {
  for (const { plugin } of found?.requires ?? []) {
    if (catalog.found.has(plugin) || catalog.plugins.has(plugin)) continue;
    const known = [...new Set([...catalog.plugins.keys(), ...catalog.found])].sort();
    return {
      message: `it requires the plugin ${plugin}, which is not in a plugin root`,
      hint: suggest(plugin, known, 'plugins'),
    };
  }
  return undefined;
}

/** Finds a name that another installation, or a plugin with its own code, already has. */
function checkNames({ one, others, catalog }: FitRequest): Misfit | undefined {
  const taken = new Map<string, string>();
  for (const { slug, provisioned } of others) {
    for (const { kind, name } of listProvisions(slug, readProvides(provisioned))) {
      taken.set(`${kind} ${name}`, slug);
    }
  }
  for (const { kind, name } of listProvisions(one.slug, one.provides)) {
    const other = taken.get(`${kind} ${name}`);
    if (other !== undefined) {
      return { message: `its ${kind} ${name} has the name of one of the installation ${other}` };
    }
    if (kind === 'plugin' && catalog.found.has(name)) {
      const hint = 'Give it another name, and name the plugin under `uses`.';
      return { message: `its plugin ${name} has the name of a plugin in a plugin root`, hint };
    }
  }
  return undefined;
}

/** Finds a plugin whose code isn't required: the manifest must list everything that a package uses. */
function checkUses({ found, one }: FitRequest): Misfit | undefined {
  if (found === undefined) return undefined;
  const required = new Set(found.requires.map(({ plugin }) => plugin));
  const own = new Set(Object.keys(one.provides.plugins));
  for (const [name, plugin] of Object.entries(one.provides.plugins)) {
    const uses = isObject(plugin) ? plugin['uses'] : undefined;
    if (typeof uses === 'string' && (required.has(uses) || own.has(uses))) continue;
    const fault =
      typeof uses === 'string'
        ? `uses ${uses}, which the package does not require`
        : 'does not name a plugin under `uses`';
    const hint = 'Name the plugin with the code under uses and under requires.';
    return { message: `its plugin ${name} ${fault}`, hint };
  }
  return undefined;
}

/** Finds a route, step or webhook whose target isn't required or provided by the package. */
export function checkTargets(
  found: Package,
  one: InstalledPackage,
  { config, catalog }: Pick<Blueprint, 'config' | 'catalog'>,
): Misfit | undefined {
  const allowed = new Set([
    ...found.requires.map(({ plugin }) => plugin),
    ...Object.keys(one.provides.plugins),
  ]);
  for (const { id, pipeline } of one.provides.webhooks) {
    const own = one.provides.pipelines.map(({ name }) => name);
    if (typeof pipeline !== 'string' || own.includes(pipeline)) continue;
    const hint = 'Add the pipeline to the package, or let the webhook emit a signal.';
    return {
      message: `its webhook ${textOf(id)} starts ${pipeline}, which is not its pipeline`,
      hint,
    };
  }
  for (const [what, target] of targetsOf(one, config)) {
    const dot = target.lastIndexOf('.');
    const plugin = catalog.plugins.has(target) || dot < 0 ? target : target.slice(0, dot);
    if (allowed.has(plugin)) continue;
    const hint = 'Name it under requires, or add a plugin that uses it to the package.';
    return { message: `${what} targets ${plugin}, which the package does not require`, hint };
  }
  return undefined;
}

type Target = readonly [what: string, to: string];

function targetsOf(one: InstalledPackage, { routes, pipelines }: Config): Target[] {
  const place = describeInstallation(one);
  return [
    ...routes
      .filter((route) => route.place === place)
      .map(({ eventType, to }): Target => [`its route of ${eventType}`, to]),
    ...pipelines
      .filter(({ locate }) => locate([]).place === place)
      .flatMap(({ name, onHalt, steps }) => [
        ...flattenSteps(steps).flatMap((step): Target[] =>
          step.mode === 'uses' ? [[`the step ${step.id} of its pipeline ${name}`, step.uses]] : [],
        ),
        ...[onHalt ?? []].flat().map((to): Target => [`on_halt of its pipeline ${name}`, to]),
      ]),
    ...one.provides.webhooks.flatMap(({ id, plugin }): Target[] =>
      typeof plugin === 'string' ? [[`its webhook ${textOf(id)}`, plugin]] : [],
    ),
  ];
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** Finds a missing command or an unsuitable version among the plugins of the new catalog. */
function checkRequired({ found, catalog }: FitRequest): Misfit | undefined {
  const plugins = [...catalog.plugins.values()];
  for (const required of found?.requires ?? []) {
    const plugin = plugins.find(({ name, uses }) => (uses ?? name) === required.plugin);
    if (plugin === undefined) {
      return { message: `it requires the plugin ${required.plugin}, which did not load` };
    }
    const fault = compareRequired(required, plugin);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Finds an operator key with a fixed value. It opens programs, files or networks: the installer decides. */
function checkOperatorKeys({ found, catalog }: FitRequest): Misfit | undefined {
  const set = listOperatorKeys(found?.provides.plugins ?? {}, catalog);
  const own = set.find(({ value }) => !isFromInstaller(value));
  if (own === undefined) return undefined;
  const hint = 'Add it to config_schema, and write ${config.…} as its value.';
  const message = `its plugin ${own.plugin} sets ${own.key}, which only the installer may set`;
  return { message, hint };
}

/** A value that an installation sets for an operator key of a plugin. */
export interface OperatorValue {
  readonly plugin: string;
  readonly key: string;
  readonly value: Json;
}

/**
 * Lists the operator keys that plugins of an installation set. `false` counts as not set: such keys are
 * named after what they allow.
 */
export function listOperatorKeys(plugins: JsonObject, catalog: Catalog): OperatorValue[] {
  return Object.entries(plugins).flatMap(([plugin, entry]) => {
    const config = isObject(entry) ? entry['config'] : undefined;
    const keys = findManifest(plugin, plugins, catalog)?.configKeys.operator ?? [];
    return keys.flatMap((key) => {
      const value = isObject(config) ? config[key] : undefined;
      const isSet = value !== undefined && value !== null && value !== false;
      return isSet ? [{ plugin, key, value }] : [];
    });
  });
}

/** Finds the manifest of a plugin's code along `uses`, even if the catalog doesn't have the plugin yet. */
function findManifest(name: string, plugins: JsonObject, catalog: Catalog): Manifest | undefined {
  const visited: string[] = [];
  for (let at = name; !visited.includes(at);) {
    const known = catalog.plugins.get(at)?.manifest;
    if (known !== undefined) return known;
    visited.push(at);
    const entry = plugins[at];
    const uses = isObject(entry) ? entry['uses'] : undefined;
    if (typeof uses !== 'string') return catalog.sources.byName.get(at)?.manifest;
    at = uses;
  }
  return undefined;
}

/** Lists operator values that the previous version of the installation didn't set in the same way. */
export function findNewOperatorKeys(
  plugins: JsonObject,
  before: JsonObject,
  catalog: Catalog,
): OperatorValue[] {
  const old = new Set(
    listOperatorKeys(before, catalog).map((one) => toCanonicalJson(toComparable(one, before))),
  );
  return listOperatorKeys(plugins, catalog).filter(
    (one) => !old.has(toCanonicalJson(toComparable(one, plugins))),
  );
}

function toComparable({ plugin, key, value }: OperatorValue, plugins: JsonObject): Json {
  const entry = plugins[plugin];
  return [plugin, (isObject(entry) ? entry['uses'] : undefined) ?? null, key, value];
}

function compareRequired(
  { plugin, commands, version }: RequiredPlugin,
  { manifest }: Plugin,
): Misfit | undefined {
  const known = Object.keys(manifest.commands);
  const missing = commands.find((command) => !known.includes(command));
  if (missing !== undefined) {
    return {
      message: `it requires the command ${missing}, which the plugin ${plugin} does not have`,
      hint: suggest(missing, known, 'commands'),
    };
  }
  const range = version === undefined ? undefined : parseRange(version);
  if (range === undefined || satisfies(manifest.version, range)) return undefined;
  const message = `it requires ${plugin} ${version ?? ''}, but the plugin is ${manifest.version}`;
  return { message };
}
