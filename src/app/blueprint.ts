import { createHash } from 'node:crypto';
import { delimiter, dirname } from 'node:path';
import type { Config } from '../config/config.ts';
import { toTenantConfig } from '../config/build.ts';
import { loadConfig } from '../config/load.ts';
import { configInvalid } from '../config/problem.ts';
import { checkWebhookConfig, checkRoutes } from '../pipeline/check-routes.service.ts';
import type { Blueprint } from '../engine/generation.ts';
import { checkPipelines } from '../pipeline/load.service.ts';
import { checkApiAccess, listScopedPlugins } from '../access/check-scopes.service.ts';
import type { PluginSources } from '../plugin/source.ts';
import { loadCatalog, type UnloadedTargets } from '../plugin/catalog.ts';
import { findPluginDrift } from '../plugin/lock.ts';
import { pluginEnvironment } from '../plugin/protocol.ts';

/**
 * Reads everything that a configuration names; throws if the configuration is wrong. The running
 * configuration's admission rules apply to its successor, too. A target that names a plugin which did
 * not load waits, so that one broken plugin doesn't keep the whole service from starting.
 */
export function readBlueprint(
  config: Config,
  active: Config = config,
  { bases, unloadedTargets = 'wait' }: BlueprintOptions = {},
): Blueprint {
  const catalog = loadCatalog(config, bases, unloadedTargets);
  const { routes, problems, warnings } = checkRoutes(config.routes, catalog);
  const checked = checkPipelines(config.pipelines, catalog);
  const webhooks = checkWebhookConfig(config, catalog);
  const access = checkApiAccess(config, listScopedPlugins(config, catalog));
  const wrong = [...problems, ...checked.problems, ...webhooks.problems, ...access.problems];
  if (wrong.length > 0) throw configInvalid(wrong);
  const drift = findPluginDrift(config, catalog);
  const isDriftRefused = [config, active].some(({ service }) => service.admission.failOnDrift);
  if (isDriftRefused && drift.length > 0) throw configInvalid(drift);
  const allWarnings = [
    ...config.warnings,
    ...catalog.warnings,
    ...warnings,
    ...checked.warnings,
    ...webhooks.warnings,
    ...access.warnings,
    ...drift,
  ];
  const faults = [...catalog.problems, ...allWarnings];
  const isStrict = [config, active].some(({ service }) => service.admission.validateConfigOnBoot);
  if (isStrict && faults.length > 0) throw configInvalid(faults);
  return {
    config,
    catalog,
    routes,
    pipelines: checked.pipelines,
    warnings: allWarnings,
    environment: createPluginEnvironment(config.service.pluginEnvPassthrough),
  };
}

interface BlueprintOptions {
  /** The plugins that were already found (default: looks for them). */
  readonly bases?: PluginSources;
  readonly unloadedTargets?: UnloadedTargets;
}

/**
 * Reads the files again for a reload. A reload refuses a target whose plugin did not load, because
 * the service keeps running with what it has.
 */
export function rereadBlueprint(active: Config): Blueprint {
  const { file, service } = active;
  const next = loadConfig({ given: file, admission: service.admission });
  return readBlueprint(next, active, { unloadedTargets: 'refuse' });
}

/**
 * Reads the blueprint of a tenant. Its plugins are those that the process found. A tenant is opened
 * many times with the same definitions, so their snapshot has the same id each time.
 */
export function readTenantBlueprint(root: Blueprint, version: string): Blueprint {
  const base = toTenantConfig(root.config);
  return compileForTenant(base, root, version);
}

/** Compiles a configuration that includes the tenant's installations. */
export function compileForTenant(config: Config, root: Blueprint, version: string): Blueprint {
  const blueprint = readBlueprint(config, config, { bases: root.catalog.sources });
  return { ...blueprint, snapshotId: digestOf(blueprint, version) };
}

/** Returns a digest of the definitions, in the form of other ids. */
function digestOf({ config, catalog }: Blueprint, version: string): string {
  const prints = [...catalog.plugins].map(([name, { fingerprint }]) => [name, fingerprint]);
  const text = JSON.stringify([version, config.fingerprint, prints]);
  const hex = createHash('sha256').update(text).digest('hex');
  const cuts = [0, 8, 12, 16, 20, 32];
  return cuts
    .slice(1)
    .map((end, index) => hex.slice(cuts[index], end))
    .join('-');
}

/**
 * Puts our own Node first on the path, so that plugins in TypeScript find a version that is new
 * enough.
 */
export function createPluginEnvironment(passthrough: readonly string[]): Record<string, string> {
  const env = pluginEnvironment(process.env, passthrough);
  const path = [dirname(process.execPath), env['PATH'] ?? ''].filter((part) => part !== '');
  return { ...env, PATH: path.join(delimiter) };
}
