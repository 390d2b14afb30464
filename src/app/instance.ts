import { delimiter, dirname, join } from 'node:path';
import type { FileLock } from '../base/file-lock.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { configInvalid } from '../config/problem.ts';
import { checkRoutes } from '../engine/check.ts';
import type { Blueprint } from '../engine/generation.ts';
import { LocalEngine } from '../engine/local-engine.ts';
import { checkPipelines } from '../engine/pipelines.ts';
import { makeRunner } from '../engine/runner.ts';
import { takeInstanceLock } from '../ledger/instance-lock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import { loadCatalog } from '../plugin/catalog.ts';
import type { HostLog } from '../plugin/helper.ts';
import { makeHost } from '../plugin/host.ts';
import { makePrewarmPool } from '../plugin/prewarm.ts';
import { pluginEnvironment } from '../plugin/protocol.ts';
import { findPluginDrift } from '../plugin/seal.ts';
import { findPlace } from './place.ts';

/** One process of the runtime with everything it owns. */
export interface Instance {
  readonly config: Config;
  readonly engine: LocalEngine;
  readonly log: Log;
  /** Stops the engine if it runs, and gives everything back. */
  readonly close: () => Promise<void>;
}

/**
 * From configuration to an engine that can be started; what was opened is closed when it fails. The
 * signal ends waiting for other hosts.
 */
export async function openInstance(
  config: Config,
  log: Log,
  signal?: AbortSignal,
): Promise<Instance> {
  const blueprint = readBlueprint(config);
  // On PostgreSQL any number of hosts may run; one SQLite file has one.
  const lock = config.state.kind === 'sqlite' ? takeInstanceLock(config.state.dir) : undefined;
  let ledger: Ledger;
  try {
    ledger = await openLedger(config.state, signal);
  } catch (error) {
    lock?.release();
    throw error;
  }
  const engine = makeEngine(blueprint, ledger, log);
  return { config, engine, log, close: () => closeAll(engine, ledger, lock) };
}

/** An engine that is never started, over a ledger that is only looked at. */
export function openOnlooker(config: Config, ledger: Ledger, log: Log): LocalEngine {
  return makeEngine(readBlueprint(config), ledger, log);
}

async function closeAll(
  engine: LocalEngine,
  ledger: Ledger,
  lock: FileLock | undefined,
): Promise<void> {
  try {
    await engine.stop();
  } finally {
    await ledger.close();
    lock?.release();
  }
}

/**
 * From configuration to all that is read with it; throws what the configuration gets wrong. What runs
 * decides too what may take its place.
 */
function readBlueprint(config: Config, inForce: Config = config): Blueprint {
  const catalog = loadCatalog(config);
  const { routes, problems, warnings } = checkRoutes(config.routes, catalog);
  const checked = checkPipelines(config.pipelines, catalog);
  const wrong = [...problems, ...checked.problems];
  if (wrong.length > 0) throw configInvalid(wrong);
  const drift = findPluginDrift(config, catalog);
  const mustStay = [config, inForce].some(({ service }) => service.admission.failOnDrift);
  if (mustStay && drift.length > 0) throw configInvalid(drift);
  const allWarnings = [
    ...config.warnings,
    ...catalog.warnings,
    ...warnings,
    ...checked.warnings,
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
    environment: environmentOf(config),
  };
}

function makeEngine(blueprint: Blueprint, ledger: Ledger, log: Log): LocalEngine {
  const { config } = blueprint;
  const place = findPlace();
  const spawnerLog = log.child('spawner');
  const tell: HostLog = (level, message, fields) => spawnerLog[level](message, fields);
  const host = makeHost({
    rung: config.service.spawner,
    nativePath: place.nativeSpawner,
    nodeScript: place.nodeSpawner,
    // Several hosts may share a state directory on PostgreSQL; there the fence is the deadline.
    lockPath: config.state.kind === 'sqlite' ? join(config.state.dir, 'spawner.lock') : undefined,
    log: tell,
  });
  return new LocalEngine({
    blueprint,
    load: (inForce) => {
      const { file, service } = inForce;
      return readBlueprint(loadConfig({ given: file, admission: service.admission }), inForce);
    },
    ledger,
    host,
    runner: makeRunner(host, makePrewarmPool({ host, log: tell })),
    version: place.version,
    log,
  });
}

/** Our own Node comes first on the path, so that plugins in TypeScript find one that is new enough. */
function environmentOf({ service }: Config): Record<string, string> {
  const env = pluginEnvironment(process.env, service.pluginEnvPassthrough);
  const path = [dirname(process.execPath), env['PATH'] ?? ''].filter((part) => part !== '');
  return { ...env, PATH: path.join(delimiter) };
}
