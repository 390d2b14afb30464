/** Shared by the programs that run the service. */
import { allDirectives } from '../../src/operation/all.ts';
import { engineRules } from '../../src/ledger/rules.ts';
import { z } from 'zod';
import { openVault } from '../../src/app/instance.ts';
import { makeId, makeToken } from '../../src/base/ids.ts';
import { makeLogger, type Log } from '../../src/base/log.ts';
import { loadConfig } from '../../src/config/load.ts';
import { checkRoutes } from '../../src/pipeline/check-routes.service.ts';
import { checkPipelines } from '../../src/pipeline/load.service.ts';
import { createBareReport } from '../../src/job/attempt.ts';
import type { JobDraft } from '../../src/job/job.ts';
import { endAsSucceeded } from '../../src/job/outcome.ts';
import type { ClaimedJob, ClaimRequest } from '../../src/job/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import type { Host, ProcessEnd } from '../../src/plugin/process.ts';
import type { Config } from '../../src/config/config.ts';
import { payload } from '../settings.ts';
import { batches } from './harness.ts';
import { createProcessContext } from '../../src/engine/process-context.ts';
import { LedgerEngine } from '../../src/engine/ledger-engine.ts';

/** Plugin name of the programs that use a ledger without an engine. */
export const LEDGER_PLUGIN = 'bench';
const PROCESS = makeId();

export const placeShape = z.object({ config: z.string(), plugin: z.string() });

export function readConfig(directory: string): Config {
  return loadConfig({ given: directory, env: {} });
}

export function errorLog(): Log {
  return makeLogger({ level: 'error', format: 'json' });
}

const payloadText = JSON.stringify(payload);

export function makeDraft(plugin: string): JobDraft {
  return {
    id: makeId(),
    plugin,
    command: 'handle',
    payload: payloadText,
    submittedBy: 'api',
    actor: 'bench',
    maxAttempts: 4,
  };
}

/** Queues jobs before the measurement; returns their ids in due order. */
export async function fillQueue(ledger: Ledger, plugin: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (const batch of batches(count, plugin)) {
    const jobs = batch.map(makeDraft);
    await ledger.jobs.enqueue({ jobs });
    ids.push(...jobs.map(({ id }) => id));
  }
  return ids;
}

/** Registers a process, because claims of unknown processes find nothing. */
export async function enter(ledger: Ledger): Promise<void> {
  const process = { id: PROCESS, host: 'bench', pid: 1, version: '0', slots: 1, spawner: 'native' };
  await ledger.processes.heartbeat({ ...process, plugins: [LEDGER_PLUGIN] });
}

export function claimRequest(slots: number): ClaimRequest {
  const plugin = { name: LEDGER_PLUGIN, parallelism: slots, leaseMs: {}, leaseDefaultMs: 60_000 };
  return { processId: PROCESS, token: makeToken(), slots, plugins: [plugin] };
}

export function succeeded(job: ClaimedJob): Closing {
  return {
    job,
    claimToken: job.claimToken,
    report: {
      ...createBareReport('succeeded', 'ok', ''),
      error: null,
      result: answer.stdout.toString(),
    },
    ending: endAsSucceeded(job),
    signals: [],
    jobs: [],
  };
}

/** Starts a paused engine, so that only work is measured after `resume`. */
export async function startPaused(engine: LedgerEngine): Promise<void> {
  await engine.ledger.meta.write('paused', '1');
  await engine.start();
}

/** Throws if a job failed, because the figure would be meaningless. */
export async function refuseFailures(ledger: Ledger): Promise<void> {
  const [bad] = await ledger.jobs.list({
    status: ['failed', 'timed_out', 'dead', 'cancelled'],
    limit: 1,
  });
  if (bad !== undefined) throw new Error(`${bad.id} is ${bad.status}: ${bad.lastError ?? ''}`);
  const { delayed, running } = await ledger.jobs.countQueue();
  if (delayed + running > 0) throw new Error(`${delayed} jobs are delayed, ${running} still run`);
}

const answer: ProcessEnd = {
  exit: { kind: 'exited', code: 0 },
  stopped: undefined,
  pid: 1,
  stdout: Buffer.from('{"status":"ok","result":"ok"}\n'),
  stdoutOverflowed: false,
  stderr: Buffer.alloc(0),
  stderrTruncated: false,
  spawnMs: 0,
  runMs: 0,
  cpuMs: undefined,
  memoryPeakBytes: undefined,
};

const noHost: Host = {
  kind: 'native',
  start: () => Promise.resolve(),
  run: () => Promise.resolve(answer),
  hold: () => {
    throw new Error('nothing is prewarmed here');
  },
  renew: () => undefined,
  stop: () => Promise.resolve(),
};

/** Opens a complete engine without processes: it calls `onRun` instead of starting one. */
export async function openWithoutProcesses(
  directory: string,
  onRun: (jobPlugin: string) => void = () => undefined,
): Promise<LedgerEngine> {
  const config = readConfig(directory);
  const catalog = loadCatalog(config);
  const blueprint = {
    config,
    catalog,
    routes: checkRoutes(config.routes, catalog).routes,
    pipelines: checkPipelines(config.pipelines, catalog).pipelines,
    warnings: [],
    environment: {},
  };
  const shared = createProcessContext(() => config.service.maxWorkers, {
    version: '0',
    directives: allDirectives,
    authorize: () => Promise.resolve(),
  });
  return new LedgerEngine(shared, {
    blueprint,
    source: { load: () => blueprint, compile: () => blueprint },
    ledger: await openLedger(config.state, engineRules),
    host: noHost,
    runner: {
      run: ({ name }) => {
        onRun(name);
        return Promise.resolve(answer);
      },
      prewarm: () => undefined,
      stop: () => undefined,
    },
    vault: openVault(config),
    log: errorLog(),
  });
}
