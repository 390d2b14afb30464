import { toCanonicalJson, isObject, type Json, type JsonObject } from '../base/json.ts';
import type { Config } from '../config/config.ts';
import { describeInstallation, type InstalledPackage } from '../config/installed.ts';
import { suggest } from '../base/text.ts';
import type { InstallationRow } from './types.ts';
import { isOpen } from './fill.ts';
import { readProvides, type Package, type RequiredPlugin } from './package.ts';
import { provisionsOf } from './provision.ts';
import { parseRange, satisfies } from './version.ts';
import { flattenSteps } from '../pipeline/language/entry.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { Manifest } from '../plugin/manifest.ts';
import type { Blueprint } from '../engine/generation.ts';

export interface Fit {
  /** Undefined when only what it provides is at hand, as when it is enabled again. */
  readonly found: Package | undefined;
  readonly one: InstalledPackage;
  readonly others: readonly InstallationRow[];
  readonly catalog: Catalog;
  /** Whether the catalog is the one with what it provides. */
  readonly isInForce?: boolean;
}

interface Misfit {
  readonly message: string;
  readonly hint?: string;
}

/** Why a package does not fit into a ledger, as far as names and plugins can tell. */
export function checkFit(fit: Fit): Misfit | undefined {
  if (fit.isInForce === true) return checkRequired(fit) ?? checkCode(fit);
  return checkAbsent(fit) ?? checkNames(fit) ?? checkUses(fit);
}

/** Without looking at their commands: what is not there at all is said first. */
function checkAbsent({ found, catalog }: Fit): Misfit | undefined {
  for (const { plugin } of found?.requires ?? []) {
    if (catalog.found.has(plugin) || catalog.plugins.has(plugin)) continue;
    const known = [...new Set([...catalog.plugins.keys(), ...catalog.found])].sort();
    return {
      message: `it asks for the plugin ${plugin}, which is in no plugin root`,
      hint: suggest(plugin, known, 'plugins'),
    };
  }
  return undefined;
}

/** A name belongs to one; that of a plugin with code of its own belongs to that. */
function checkNames({ one, others, catalog }: Fit): Misfit | undefined {
  const taken = new Map<string, string>();
  for (const { slug, provisioned } of others) {
    for (const { kind, name } of provisionsOf(slug, readProvides(provisioned))) {
      taken.set(`${kind} ${name}`, slug);
    }
  }
  for (const { kind, name } of provisionsOf(one.slug, one.provides)) {
    const other = taken.get(`${kind} ${name}`);
    if (other !== undefined) {
      return { message: `its ${kind} ${name} has a name that the installation ${other} has` };
    }
    if (kind === 'plugin' && catalog.found.has(name)) {
      const hint = 'Give it a name of its own, and name the plugin with `uses`.';
      return { message: `its plugin ${name} has the name of a plugin with code`, hint };
    }
  }
  return undefined;
}

/** What it does not ask for, it does not get: whoever reads the manifest must see what it uses. */
function checkUses({ found, one }: Fit): Misfit | undefined {
  if (found === undefined) return undefined;
  const required = new Set(found.requires.map(({ plugin }) => plugin));
  const own = new Set(Object.keys(one.provides.plugins));
  for (const [name, plugin] of Object.entries(one.provides.plugins)) {
    const uses = isObject(plugin) ? plugin['uses'] : undefined;
    if (typeof uses === 'string' && (required.has(uses) || own.has(uses))) continue;
    const said = typeof uses === 'string' ? `uses ${uses}` : 'says no `uses`';
    const hint = 'Name the plugin with the code under uses, and under requires.';
    return { message: `its plugin ${name} ${said}, which the package does not require`, hint };
  }
  return undefined;
}

/** The same for what its routes and the steps of its pipelines have done. */
export function checkTargets(
  found: Package,
  one: InstalledPackage,
  { config, catalog }: Pick<Blueprint, 'config' | 'catalog'>,
): Misfit | undefined {
  const mine = new Set([
    ...found.requires.map(({ plugin }) => plugin),
    ...Object.keys(one.provides.plugins),
  ]);
  for (const { id, pipeline } of one.provides.webhooks) {
    const own = one.provides.pipelines.map(({ name }) => name);
    if (typeof pipeline !== 'string' || own.includes(pipeline)) continue;
    const hint = 'Bring the pipeline with it, or let the webhook make a signal.';
    return {
      message: `its webhook ${textOf(id)} is for the pipeline ${pipeline}, which is not its`,
      hint,
    };
  }
  for (const [what, target] of targetsOf(one, config)) {
    const dot = target.lastIndexOf('.');
    const plugin = catalog.plugins.has(target) || dot < 0 ? target : target.slice(0, dot);
    if (mine.has(plugin)) continue;
    const hint = 'Name it under requires, or bring a plugin of its own that uses it.';
    return { message: `${what} is for ${plugin}, which the package does not require`, hint };
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

/** Commands and versions, as the plugins of the new catalog have them. */
function checkRequired({ found, catalog }: Fit): Misfit | undefined {
  const plugins = [...catalog.plugins.values()];
  for (const required of found?.requires ?? []) {
    const plugin = plugins.find(({ name, uses }) => (uses ?? name) === required.plugin);
    if (plugin === undefined) {
      return { message: `it asks for the plugin ${required.plugin}, which did not load` };
    }
    const fault = compare(required, plugin);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Operator keys open programs, files or networks: a package passes on what the installer sets there. */
function checkCode({ found, catalog }: Fit): Misfit | undefined {
  const said = saidOfPrograms(found?.provides.plugins ?? {}, catalog);
  const own = said.find(({ value }) => !isOpen(value));
  if (own === undefined) return undefined;
  const hint = 'Ask for it in config_schema, and write ${config.…} there.';
  const message = `its plugin ${own.plugin} sets ${own.key}, which only whoever installs it may set`;
  return { message, hint };
}

export interface SaidOfPrograms {
  readonly plugin: string;
  readonly key: string;
  readonly value: Json;
}

/**
 * Lists the operator keys that plugins of an installation set. `false` counts as not set: such keys are
 * named after what they allow, and an installation may say that it needs nothing.
 */
export function saidOfPrograms(plugins: JsonObject, catalog: Catalog): SaidOfPrograms[] {
  return Object.entries(plugins).flatMap(([plugin, entry]) => {
    const config = isObject(entry) ? entry['config'] : undefined;
    const keys = manifestOf(plugin, plugins, catalog)?.configKeys.operator ?? [];
    return keys.flatMap((key) => {
      const value = isObject(config) ? config[key] : undefined;
      const isSet = value !== undefined && value !== null && value !== false;
      return isSet ? [{ plugin, key, value }] : [];
    });
  });
}

/** The manifest of a plugin's code, found along `uses` even if the catalog doesn't have the plugin yet. */
function manifestOf(name: string, plugins: JsonObject, catalog: Catalog): Manifest | undefined {
  const way: string[] = [];
  for (let at = name; !way.includes(at);) {
    const known = catalog.plugins.get(at)?.manifest;
    if (known !== undefined) return known;
    way.push(at);
    const entry = plugins[at];
    const uses = isObject(entry) ? entry['uses'] : undefined;
    if (typeof uses !== 'string') return catalog.sources.byName.get(at)?.manifest;
    at = uses;
  }
  return undefined;
}

/**
 * Values of `operator` keys that an installation sets and that the one in its place
 * did not set in the same way.
 */
export function findNewPrograms(
  plugins: JsonObject,
  before: JsonObject,
  catalog: Catalog,
): SaidOfPrograms[] {
  const old = new Set(
    saidOfPrograms(before, catalog).map((one) => toCanonicalJson(toPrint(one, before))),
  );
  return saidOfPrograms(plugins, catalog).filter(
    (one) => !old.has(toCanonicalJson(toPrint(one, plugins))),
  );
}

function toPrint({ plugin, key, value }: SaidOfPrograms, plugins: JsonObject): Json {
  const entry = plugins[plugin];
  return [plugin, (isObject(entry) ? entry['uses'] : undefined) ?? null, key, value];
}

function compare(
  { plugin, commands, version }: RequiredPlugin,
  { manifest }: Plugin,
): Misfit | undefined {
  const known = Object.keys(manifest.commands);
  const missing = commands.find((command) => !known.includes(command));
  if (missing !== undefined) {
    return {
      message: `it asks for the command ${missing}, which the plugin ${plugin} does not have`,
      hint: suggest(missing, known, 'commands'),
    };
  }
  const range = version === undefined ? undefined : parseRange(version);
  if (range === undefined || satisfies(manifest.version, range)) return undefined;
  return { message: `it asks for ${plugin} ${version ?? ''}, and ${manifest.version} is here` };
}
