import { engineRules } from '../ledger/rules.ts';
import { createProcessContext } from '../engine/process-context.ts';
import { join } from 'node:path';
import type { FileLock } from '../base/file-lock.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { Blueprint } from '../engine/generation.ts';
import { LedgerEngine } from '../engine/ledger-engine.ts';
import { makeRunner } from '../job/run-plugin.service.ts';
import type { TenantKeeper } from '../tenant/tenants.ts';
import { makeTracer } from '../insight/tracer.service.ts';
import { takeInstanceLock } from '../ledger/sqlite/instance-lock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openSoundLedger } from '../ledger/open.ts';
import { refuseLate } from '../directive/request.operations.ts';
import type { HostLog } from '../plugin/spawner-link.ts';
import { makeHost } from '../plugin/host.ts';
import { makePrewarmPool } from '../plugin/prewarm.ts';
import { readAgain, readBlueprint } from './blueprint.ts';
import { confineListed, makeIsolation } from './isolation.ts';
import { findInstallPaths } from './install-paths.ts';
import { openVault } from './vault.ts';
import { openTenants } from './tenant-engine.ts';

/** Service process with everything it owns. */
export interface Instance {
  readonly config: Config;
  readonly engine: LedgerEngine;
  readonly log: Log;
  /** Stops the engine if it runs, and releases everything. */
  readonly close: () => Promise<void>;
}

/** Reads everything that a configuration names; the active configuration's rules apply. */
export type ReadBlueprint = (config: Config, inForce?: Config) => Blueprint;

/**
 * Opens an engine that can be started; after a failure, the opened parts are closed. The signal
 * ends waiting for other hosts.
 */
export async function openInstance(
  config: Config,
  log: Log,
  signal?: AbortSignal,
  read: ReadBlueprint = readBlueprint,
): Promise<Instance> {
  const blueprint = read(config);
  // On PostgreSQL any number of hosts may run; a SQLite file has one.
  const { file, state } = config;
  const lock = state.kind === 'sqlite' ? takeInstanceLock(state.dir, file) : undefined;
  let ledger: Ledger;
  try {
    ledger = await openSoundLedger(config.state, engineRules, signal, log);
  } catch (error) {
    lock?.release();
    throw error;
  }
  const engine = makeEngine(blueprint, ledger, log, read);
  try {
    await engine.extend();
  } catch (error) {
    await closeAll(engine, ledger, lock);
    throw error;
  }
  return { config, engine, log, close: () => closeAll(engine, ledger, lock) };
}

/** Opens an engine that is never started, on a ledger that is only read. */
export async function openOnlooker(
  config: Config,
  ledger: Ledger,
  log: Log,
): Promise<LedgerEngine> {
  const engine = makeEngine(readBlueprint(config), ledger, log);
  await engine.extend();
  return engine;
}

async function closeAll(
  engine: LedgerEngine,
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

function makeEngine(
  blueprint: Blueprint,
  ledger: Ledger,
  log: Log,
  read: ReadBlueprint = readBlueprint,
): LedgerEngine {
  const { config } = blueprint;
  const place = findInstallPaths();
  const spawnerLog = log.child('spawner');
  const writeLog: HostLog = (level, message, fields) => spawnerLog[level](message, fields);
  const host = makeHost({
    kind: config.service.spawner,
    nativePath: place.nativeSpawner,
    nodeScript: place.nodeSpawner,
    // Several hosts may share a state directory on PostgreSQL; there the fence is the deadline.
    lockPath: config.state.kind === 'sqlite' ? join(config.state.dir, 'spawner.lock') : undefined,
    cgroup: process.env['DUCTILE_CGROUP'],
    log: writeLog,
  });
  const isolation = makeIsolation();
  const confined = confineListed(host, () => isolation(engine.config));
  const vault = openVault(config);
  const tracer = makeTracer({
    config: () => engine.config.telemetry.otlp,
    service: () => ({ name: engine.config.service.name, version: place.version }),
    log: log.child('tracer'),
  });
  const shared = createProcessContext(() => engine.config.service.maxWorkers, {
    version: place.version,
    shippedPackages: place.packages,
    tracer,
    authorize: refuseLate,
  });
  const tenants: TenantKeeper<LedgerEngine> = openTenants({
    process: shared,
    root: ledger,
    current: () => engine.blueprint,
    isPaused: () => engine.isPaused,
    mayReap: () => engine.mayReap(),
    host,
    isolation,
    vault,
    log,
  });
  const engine: LedgerEngine = new LedgerEngine(shared, {
    blueprint,
    source: { load: readAgain, compile: (extended) => read(extended, engine.config) },
    ledger,
    host,
    runner: makeRunner(confined, makePrewarmPool({ host: confined, log: writeLog })),
    vault,
    tenants,
    isolation,
    log,
  });
  return engine;
}
