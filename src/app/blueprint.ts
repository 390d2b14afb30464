import { createHash } from 'node:crypto';
import type { Config } from '../config/config.ts';
import { forTenant } from '../config/for-tenant.ts';
import { loadConfig } from '../config/load.ts';
import { configInvalid } from '../config/problem.ts';
import { checkHooks, checkRoutes } from '../engine/check.ts';
import type { Blueprint } from '../engine/generation.ts';
import { checkPipelines } from '../engine/pipelines.ts';
import { checkApiAccess } from '../operations/access-check.ts';
import { scopedBy } from '../operations/scope-check.ts';
import type { Bases } from '../plugin/base.ts';
import { loadCatalog } from '../plugin/catalog.ts';
import { findPluginDrift } from '../plugin/seal.ts';
import { environmentHere } from './environment.ts';

/**
 * From configuration to all that is read with it; throws what the configuration gets wrong. What runs
 * decides too what may take its place.
 */
export function readBlueprint(config: Config, inForce: Config = config, bases?: Bases): Blueprint {
  const catalog = loadCatalog(config, bases);
  const { routes, problems, warnings } = checkRoutes(config.routes, catalog);
  const checked = checkPipelines(config.pipelines, catalog);
  const hooks = checkHooks(config, catalog);
  const access = checkApiAccess(config, scopedBy(config, catalog));
  const wrong = [...problems, ...checked.problems, ...hooks.problems, ...access.problems];
  if (wrong.length > 0) throw configInvalid(wrong);
  const drift = findPluginDrift(config, catalog);
  const mustStay = [config, inForce].some(({ service }) => service.admission.failOnDrift);
  if (mustStay && drift.length > 0) throw configInvalid(drift);
  const allWarnings = [
    ...config.warnings,
    ...catalog.warnings,
    ...warnings,
    ...checked.warnings,
    ...hooks.warnings,
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
    environment: environmentHere(config.service.pluginEnvPassthrough),
  };
}

/** Everything again from the files, under the rules of what is in force. */
export function readAgain(inForce: Config): Blueprint {
  const { file, service } = inForce;
  return readBlueprint(loadConfig({ given: file, admission: service.admission }), inForce);
}

/**
 * What a tenant has of what the process has. Its plugins were found when those of the process were.
 * It is woken many times under the same definitions, so they have the same name in its history.
 */
export function readTenantBlueprint(root: Blueprint, version: string): Blueprint {
  const base = forTenant(root.config);
  return compileForTenant(base, root, version);
}

/** The same for a configuration with what the tenant installed in it. */
export function compileForTenant(config: Config, root: Blueprint, version: string): Blueprint {
  const blueprint = readBlueprint(config, config, root.catalog.bases);
  return { ...blueprint, snapshotId: nameOf(blueprint, version) };
}

/** In the form of the other ids. */
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
