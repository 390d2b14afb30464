/** Opens an instance whose ledger or runner is replaced. */
import { allDirectives } from '../../src/operation/all.ts';
import { engineRules } from '../../src/ledger/rules.ts';
import { createProcessContext } from '../../src/engine/process-context.ts';
import { join } from 'node:path';
import { type Instance, openVault } from '../../src/app/instance.ts';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import type { Log } from '../../src/base/log.ts';
import type { Config } from '../../src/config/config.ts';
import { checkRoutes } from '../../src/pipeline/check-routes.service.ts';
import { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import { checkPipelines } from '../../src/pipeline/load.service.ts';
import { makeRunner, type Runner } from '../../src/job/run-plugin.service.ts';
import { refuseLate } from '../../src/operation/request-directive.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import { makeHost } from '../../src/plugin/host.ts';
import { makePrewarmPool } from '../../src/plugin/prewarm.ts';
import { pluginEnvironment } from '../../src/plugin/protocol.ts';

export interface EngineOverrides {
  readonly ledger?: (real: Ledger) => Ledger;
  readonly runner?: (real: Runner) => Runner;
}

/**
 * Opens an instance as the program does, except for the overrides and the lock of the state
 * directory.
 */
export async function openWithOverrides(
  config: Config,
  log: Log,
  overrides: EngineOverrides,
): Promise<Pick<Instance, 'engine' | 'close'>> {
  const catalog = loadCatalog(config);
  const { routes } = checkRoutes(config.routes, catalog);
  const { pipelines } = checkPipelines(config.pipelines, catalog);
  const real = await openLedger(config.state, engineRules);
  const ledger = overrides.ledger?.(real) ?? real;
  const { nativeSpawner: nativePath, nodeSpawner: nodeScript, version } = findInstallPaths();
  const lockPath =
    config.state.kind === 'sqlite' ? join(config.state.dir, 'spawner.lock') : undefined;
  const host = makeHost({ kind: 'auto', nativePath, nodeScript, lockPath, log: () => {} });
  const environment = pluginEnvironment(process.env, []);
  const runner = makeRunner(host, makePrewarmPool({ host, log: () => {} }));
  const blueprint = { config, catalog, routes, pipelines, warnings: [], environment };
  const shared = createProcessContext(() => config.service.maxWorkers, {
    version,
    directives: allDirectives,
    authorize: refuseLate,
  });
  const engine = new LedgerEngine(shared, {
    blueprint,
    source: { load: () => blueprint, compile: () => blueprint },
    ledger,
    host,
    runner: overrides.runner?.(runner) ?? runner,
    vault: openVault(config),
    log,
  });
  const close = async (): Promise<void> => {
    await engine.stop();
    await real.close();
  };
  return { engine, close };
}
