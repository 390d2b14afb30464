import { delimiter, dirname, join } from 'node:path';
import type { FileLock } from '../base/file-lock.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import { configInvalid, describeProblem } from '../config/problem.ts';
import { checkRoutes } from '../engine/check.ts';
import { LocalEngine } from '../engine/local-engine.ts';
import { makeRunner } from '../engine/runner.ts';
import { takeInstanceLock } from '../ledger/instance-lock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import type { Route } from '../pipeline/route.ts';
import { loadCatalog, type Catalog } from '../plugin/catalog.ts';
import type { HostLog } from '../plugin/helper.ts';
import { makeHost } from '../plugin/host.ts';
import { makePrewarmPool } from '../plugin/prewarm.ts';
import { pluginEnvironment } from '../plugin/protocol.ts';
import { findPlace } from './place.ts';

/** One process of the runtime with everything it owns. */
export interface Instance {
  readonly config: Config;
  readonly engine: LocalEngine;
  readonly log: Log;
  /** Stops the engine if it runs, and gives everything back. */
  readonly close: () => Promise<void>;
}

/** From configuration to an engine that can be started; what was opened is closed when it fails. */
export async function openInstance(config: Config, log: Log): Promise<Instance> {
  const { catalog, routes } = loadPlugins(config, log);
  // On PostgreSQL any number of hosts may run; one SQLite file has one.
  const lock = config.state.kind === 'sqlite' ? takeInstanceLock(config.state.dir) : undefined;
  let ledger: Ledger;
  try {
    ledger = await openLedger(config.state);
  } catch (error) {
    lock?.release();
    throw error;
  }
  const engine = makeEngine({ config, catalog, routes, ledger, log });
  return { config, engine, log, close: () => closeAll(engine, ledger, lock) };
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

function loadPlugins(config: Config, log: Log): { catalog: Catalog; routes: readonly Route[] } {
  const catalog = loadCatalog(config);
  const { routes, problems, warnings } = checkRoutes(config.routes, catalog);
  if (problems.length > 0) throw configInvalid(problems);
  const loader = log.child('plugins');
  for (const problem of catalog.problems) {
    loader.error(`plugin not loaded: ${describeProblem(problem)}`, { plugin: problem.plugin });
  }
  for (const [plugin, keys] of catalog.dormant) {
    loader.debug('plugin not set up', { plugin, needs: keys.join(', ') });
  }
  for (const warning of [...catalog.warnings, ...warnings]) loader.warn(describeProblem(warning));
  return { catalog, routes };
}

interface EngineInput {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly routes: readonly Route[];
  readonly ledger: Ledger;
  readonly log: Log;
}

function makeEngine({ config, catalog, routes, ledger, log }: EngineInput): LocalEngine {
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
  const environment = environmentOf(config);
  const pool = makePrewarmPool({ host, log: tell });
  return new LocalEngine({
    config,
    catalog,
    routes,
    ledger,
    host,
    runner: makeRunner(host, pool, catalog, environment),
    environment,
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
