import { allDirectives } from '../operation/all.ts';
import { engineRules } from '../ledger/rules.ts';
import { createProcessContext } from '../engine/process-context.ts';
import { dirname, join } from 'node:path';
import type { FileLock } from '../base/file-lock.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { Blueprint } from '../engine/generation.ts';
import { LedgerEngine } from '../engine/ledger-engine.ts';
import { makeRunner } from '../job/run-plugin.service.ts';
import type { TenantPool } from '../tenant/tenants.ts';
import { makeTracer } from '../insight/tracer.service.ts';
import { claimInstanceLock } from '../ledger/sqlite/instance-lock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openSoundLedger } from '../ledger/open.ts';
import { refuseLate } from '../operation/request-directive.ts';
import type { HostLog } from '../plugin/spawner-link.ts';
import { makeHost } from '../plugin/host.ts';
import { makePrewarmPool } from '../plugin/prewarm.ts';
import { rereadBlueprint, readBlueprint } from './blueprint.ts';
import { makePluginConfine, findIsolation, type Isolation } from '../plugin/isolation.ts';
import { toRealPath } from '../plugin/profile.ts';
import type { IsolationOf } from '../tenant/require-isolation.service.ts';
import { findInstallPaths } from './install-paths.ts';
import { makeKeyRing } from '../access/vault.service.ts';
import { makeVault } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';
import { openTenants } from './tenant-engine.ts';

/** An engine with its ledger, spawner and lock. */
export interface Instance {
  readonly config: Config;
  readonly engine: LedgerEngine;
  readonly log: Log;
  /** Stops the engine if it runs, and releases everything. */
  readonly close: () => Promise<void>;
}

/** Reads everything that a configuration names; the active configuration's rules apply. */
export type ReadBlueprint = (config: Config, active?: Config) => Blueprint;

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
  const lock = state.kind === 'sqlite' ? claimInstanceLock(state.dir, file) : undefined;
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
export async function openReadonlyEngine(
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
  const paths = findInstallPaths();
  const spawnerLog = log.child('spawner');
  const writeLog: HostLog = (level, message, fields) => spawnerLog[level](message, fields);
  const isolation = makeIsolation();
  const host = makeHost({
    kind: config.service.spawner,
    nativePath: paths.nativeSpawner,
    nodeScript: paths.nodeSpawner,
    // On PostgreSQL several hosts can share a state directory; there the heartbeat deadline is the fence.
    lockPath: config.state.kind === 'sqlite' ? join(config.state.dir, 'spawner.lock') : undefined,
    cgroup: process.env['DUCTILE_CGROUP'],
    confine: makePluginConfine(() => isolation(engine.config)),
    log: writeLog,
  });
  const vault = openVault(config);
  const tracer = makeTracer({
    config: () => engine.config.telemetry.otlp,
    service: () => ({ name: engine.config.service.name, version: paths.version }),
    log: log.child('tracer'),
  });
  const shared = createProcessContext(() => engine.config.service.maxWorkers, {
    version: paths.version,
    shippedPackages: paths.packages,
    tracer,
    directives: allDirectives,
    authorize: refuseLate,
  });
  const tenants: TenantPool<LedgerEngine> = openTenants({
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
    source: { load: rereadBlueprint, compile: (extended) => read(extended, engine.config) },
    ledger,
    host,
    runner: makeRunner(host, makePrewarmPool({ host, log: writeLog })),
    vault,
    tenants,
    isolation,
    log,
  });
  return engine;
}

/**
 * Creates a function that finds how plugins are confined. It caches the result until a path changes,
 * because finding it starts programs. A path that a reload adds is hidden from later processes.
 */
export function makeIsolation(): IsolationOf {
  let last:
    | { readonly config: Config; readonly paths: string; readonly found: Isolation }
    | undefined;
  return (config) => {
    if (last?.config === config) return last.found;
    const { state, directory, files, pluginRoots, packageRoots } = config;
    const filePaths = files.map(({ path }) => path);
    const paths = JSON.stringify([state.dir, directory, filePaths, pluginRoots, packageRoots]);
    const found = last?.paths === paths ? last.found : isolate(config);
    last = { config, paths, found };
    return found;
  };
}

/** Finds how plugins are confined: the state and the configuration are hidden, and the program is read-only. */
export function isolate({ state, directory, files, pluginRoots, packageRoots }: Config): Isolation {
  const { root, nativeSpawner } = findInstallPaths();
  const roots = [...pluginRoots, ...packageRoots].map(({ path }) => path);
  return findIsolation({
    nativePath: nativeSpawner,
    hidden: toRealPaths([state.dir, directory, ...files.map(({ path }) => path)]),
    readable: toRealPaths([...roots, root, dirname(process.execPath)]),
    path: process.env['PATH'],
    uid: process.geteuid?.() ?? -1,
  });
}

/** Resolves links. A path that doesn't exist yet stays as it is: it must be hidden once it does. */
function toRealPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map(toRealPath))];
}

/** Opens the vault with the keys of the environment and of the state directory. */
export function openVault({ state }: Pick<Config, 'state'>): Vault {
  return makeVault(makeKeyRing({ directory: state.dir, environment: process.env }));
}
