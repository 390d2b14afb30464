import { createHash } from 'node:crypto';
import type { Config } from '../config/config.ts';
import { toTenantConfig } from '../config/build.ts';
import { loadConfig } from '../config/load.ts';
import { configInvalid } from '../config/problem.ts';
import { checkWebhookConfig, checkRoutes } from '../pipeline/check-routes.service.ts';
import type { Blueprint } from '../engine/generation.ts';
import { checkPipelines } from '../pipeline/load.service.ts';
import { checkApiAccess } from '../access/check-access.service.ts';
import { scopedBy } from '../access/check-scopes.service.ts';
import type { PluginSources } from '../plugin/source.ts';
import { loadCatalog, type UnloadedTargets } from '../plugin/catalog.ts';
import { findPluginDrift } from '../plugin/lock.ts';
import { createPluginEnvironment } from './environment.ts';

/**
 * Reads everything that a configuration names; throws if the configuration is wrong. The running
 * configuration's admission rules apply to its successor, too. A target that names a plugin which did
 * not load waits, so that one broken plugin doesn't keep the whole service from starting.
 */
export function readBlueprint(
  config: Config,
  inForce: Config = config,
  { bases, unloadedTargets = 'wait' }: BlueprintOptions = {},
): Blueprint {
  const catalog = loadCatalog(config, bases, unloadedTargets);
  const { routes, problems, warnings } = checkRoutes(config.routes, catalog);
  const checked = checkPipelines(config.pipelines, catalog);
  const webhooks = checkWebhookConfig(config, catalog);
  const access = checkApiAccess(config, scopedBy(config, catalog));
  const wrong = [...problems, ...checked.problems, ...webhooks.problems, ...access.problems];
  if (wrong.length > 0) throw configInvalid(wrong);
  const drift = findPluginDrift(config, catalog);
  const mustStay = [config, inForce].some(({ service }) => service.admission.failOnDrift);
  if (mustStay && drift.length > 0) throw configInvalid(drift);
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
  const isStrict = [config, inForce].some(({ service }) => service.admission.validateConfigOnBoot);
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
  /** Plugins that were found before. */
  readonly bases?: PluginSources;
  readonly unloadedTargets?: UnloadedTargets;
}

/**
 * Reads the files again for a reload. A reload refuses a target whose plugin did not load, because
 * the service keeps running with what it has.
 */
export function readAgain(inForce: Config): Blueprint {
  const { file, service } = inForce;
  const next = loadConfig({ given: file, admission: service.admission });
  return readBlueprint(next, inForce, { unloadedTargets: 'refuse' });
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
  return { ...blueprint, snapshotId: nameOf(blueprint, version) };
}

/** Formats the digest like other ids. */
function nameOf({ config, catalog }: Blueprint, version: string): string {
  const prints = [...catalog.plugins].map(([name, { fingerprint }]) => [name, fingerprint]);
  const text = JSON.stringify([version, config.fingerprint, prints]);
  const hex = createHash('sha256').update(text).digest('hex');
  const cuts = [0, 8, 12, 16, 20, 32];
  return cuts
    .slice(1)
    .map((end, index) => hex.slice(cuts[index], end))
    .join('-');
}
