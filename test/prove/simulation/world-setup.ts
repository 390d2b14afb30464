/** The configuration of all hosts in all worlds, read once from real files. */
import { join } from 'node:path';
import { checkRoutes } from '../../../src/pipeline/check-routes.service.ts';
import type { Blueprint } from '../../../src/engine/generation.ts';
import { checkPipelines } from '../../../src/pipeline/load.service.ts';
import { openVault } from '../../../src/app/instance.ts';
import type { Vault } from '../../../src/access/vault.ts';
import { loadCatalog } from '../../../src/plugin/catalog.ts';
import { writeConfig, writePlugin } from '../../support/plugin-tree.ts';
import type { Size } from './plan.ts';
import { Tables } from './tables.ts';

export interface WorldSetup {
  readonly blueprints: Readonly<Record<Size, Blueprint>>;
  readonly vault: Vault;
  readonly tables: Tables;
}

const SECOND = 1000;

/** The number of jobs of each plugin that may run at once. */
export const parallelism: Readonly<Record<string, number>> = {
  worker: 4,
  single: 1,
  counter: 1,
  child: 3,
  timed: 2,
  long: 3,
};

/** The intervals of the schedules of `timed`. */
export const everyMs = { often: 20 * SECOND, seldom: 90 * SECOND } as const;
export const DEDUPE_TTL_MS = 120 * SECOND;
export const HEARTBEAT_MS = 10 * SECOND;
export const REAP_AFTER_MS = 40 * SECOND;
/** The durations of the plugin `long`, which exceed `reap_after`. */
export const longMs = { least: 45 * SECOND, most: 140 * SECOND, timeout: 150 * SECOND } as const;
export const CRASHES_MAX = 4;
export const RETENTION_MS = 400 * SECOND;
/** In a small world, hosts poll less often, and hanging plugins hang for a shorter time. */
const pace: Readonly<Record<Size, { pollMs: number; tickMs: number; timeoutMs: number }>> = {
  small: { pollMs: 30 * SECOND, tickMs: 60 * SECOND, timeoutMs: 8 * SECOND },
  large: { pollMs: 5 * SECOND, tickMs: 20 * SECOND, timeoutMs: 20 * SECOND },
};

const pipelines = [
  {
    name: 'wide',
    steps: [
      { id: 'first', uses: 'worker.poll' },
      { id: 'each', foreach: 'payload.items', steps: [{ id: 'work', uses: 'worker.poll' }] },
      { id: 'last', uses: 'child.poll' },
    ],
  },
];

export async function makeWorldSetup(directory: string): Promise<WorldSetup> {
  for (const name of Object.keys(parallelism)) {
    const files = { name, entrypoint: 'run', commands: 'commands: {poll: {}, handle: {}}' };
    await writePlugin(join(directory, 'plugins', name), files);
  }
  const [small, large] = [
    await makeBlueprint(directory, 'small'),
    await makeBlueprint(directory, 'large'),
  ];
  return {
    blueprints: { small, large },
    vault: openVault(large.config),
    tables: await Tables.open(),
  };
}

async function makeBlueprint(directory: string, size: Size): Promise<Blueprint> {
  const config = await writeConfig(
    directory,
    JSON.stringify({
      service: {
        max_workers: 4,
        heartbeat_interval: `${HEARTBEAT_MS}ms`,
        reap_after: `${REAP_AFTER_MS}ms`,
        poll_interval: `${pace[size].pollMs}ms`,
        tick_interval: `${pace[size].tickMs}ms`,
        shutdown_timeout: '10s',
        max_crashes: CRASHES_MAX,
        dedupe_ttl: `${DEDUPE_TTL_MS}ms`,
        job_queue_retention: `${RETENTION_MS}ms`,
        job_log_retention: `${RETENTION_MS}ms`,
        signal_retention: `${RETENTION_MS}ms`,
        timezone: 'UTC',
      },
      plugin_roots: ['./plugins'],
      plugins: Object.fromEntries(
        Object.entries(parallelism).map(([name, most]) => toPlugin(name, most, size)),
      ) as object,
      routes: [{ from: 'worker', event_type: 'work.made', to: 'child' }],
      pipelines,
      state: { path: './state/ledger.db' },
    }),
  );
  const catalog = loadCatalog(config);
  const { routes } = checkRoutes(config.routes, catalog);
  const checked = checkPipelines(config.pipelines, catalog);
  return {
    config,
    catalog,
    routes,
    pipelines: checked.pipelines,
    warnings: [],
    environment: {},
    snapshotId: 'simulated',
  };
}

function toPlugin(name: string, most: number, size: Size): readonly [string, object] {
  const plugin = {
    retry: { max_attempts: 3, backoff_base: '2s' },
    timeouts: timeoutsOf(name === 'long' ? longMs.timeout : pace[size].timeoutMs),
    circuit_breaker: { threshold: 5, reset_after: '30s' },
    parallelism: most,
    ...(name === 'timed' ? { schedules } : {}),
  };
  return [name, plugin];
}

function timeoutsOf(ms: number): Readonly<Record<string, string>> {
  return { poll: `${ms}ms`, handle: `${ms}ms` };
}

const schedules = Object.entries(everyMs).map(([id, ms]) => ({
  id,
  every: `${ms}ms`,
  command: 'poll',
}));
