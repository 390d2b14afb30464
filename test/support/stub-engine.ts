/** An engine that runs nothing, over a real ledger, for tests of operations and surfaces. */
import { noRules } from '../../src/ledger/rules.ts';
import { join } from 'node:path';
import { DuctileError } from '../../src/base/errors.ts';
import { makeId, makeToken } from '../../src/base/ids.ts';
import { LogRing } from '../../src/base/log-ring.ts';
import type { Config } from '../../src/config/config.ts';
import { makeActivity } from '../../src/signal/event-feed.service.ts';
import type { Approvals } from '../../src/directive/approval.ts';
import { Directives } from '../../src/directive/request.service.ts';
import { makeSignalEmitter } from '../../src/signal/emit.service.ts';
import type { Engine, EngineStatus } from '../../src/engine/engine.ts';
import type { JobSubmission } from '../../src/job/enqueue.service.ts';
import { backupDirective } from '../../src/backup/backup.directives.ts';
import { RunTokens } from '../../src/access/credentials.service.ts';
import { makeMetrics, makeProcessCounter } from '../../src/insight/metrics.service.ts';
import { unlimited } from '../../src/tenant/quota.service.ts';
import { makePluginSwitches } from '../../src/job/pause.service.ts';
import { pauseSystemDirective, resumeSystemDirective } from '../../src/engine/system.directives.ts';
import {
  disablePluginDirective,
  enablePluginDirective,
} from '../../src/plugin/plugin.directives.ts';
import {
  createDirectiveContext,
  type DirectiveServices,
} from '../../src/engine/directive-context.ts';
import { createBareReport, type AttemptReport } from '../../src/job/attempt.ts';
import type { Job } from '../../src/job/job.ts';
import { endAsFailed, endAsSucceeded } from '../../src/job/outcome.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import type { Catalog, Plugin } from '../../src/plugin/catalog.ts';
import type { ManifestCommand } from '../../src/plugin/manifest.ts';
import { makeDirectory } from './directory.ts';
import { placeLedger } from './place-ledger.ts';
import { makeContext } from './context.ts';
import { cancelJobsDirective, retryJobsDirective } from '../../src/job/job.directives.ts';
import {
  createTokenDirective,
  revokeTokenDirective,
  rotateTokenDirective,
} from '../../src/access/token.directives.ts';
import type { ClaimedJob } from '../../src/job/types.ts';

export interface StubEngine extends Engine {
  /** Additional fields of `status()`. */
  set(status: Partial<EngineStatus>): void;
  readonly submitted: JobSubmission[];
  /** Types that need approval. */
  approvals: Approvals;
  /** Called by `waitFor`, when a real engine would work. */
  work: (jobId: string) => Promise<void>;
}

export async function makeStubEngine(): Promise<StubEngine> {
  const path = join(await makeDirectory(), 'ductile.db');
  await placeLedger(path);
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  await ledger.processes.heartbeat({
    id: 'stub',
    host: 'here',
    pid: 7,
    version: '0.1.0',
    slots: 2,
    spawner: 'node',
    plugins: ['echo', 'mail'],
  });
  let status: EngineStatus = {
    processId: 'stub',
    generation: { number: 1, snapshotId: 'snapshot', loadedAt: '', lastReload: undefined },
    state: 'running',
    detail: undefined,
    slots: 2,
    running: [],
    spawner: 'node',
    uptimeMs: 61_500,
    plugins: 2,
    counts: makeProcessCounter().read(),
  };
  const context = makeContext({
    ledger,
    processId: status.processId,
    get config() {
      return {
        ...engine.config,
        directives: { approval: engine.approvals },
        api: { auth: { tokens: [] } },
      } as unknown as Config;
    },
    get catalog() {
      return engine.catalog;
    },
    generation: { rules: { targetsOf: () => [], hopsMax: 32, dedupeTtlMs: 60_000 } },
  });
  const pause = {
    async apply() {
      const paused = (await ledger.meta.read('paused')) === '1';
      await change({ state: paused ? 'paused' : 'running' });
    },
  };
  const dispatcher = {
    get running() {
      return status.running as unknown as ClaimedJob[];
    },
    releaseWaiting: () => Promise.resolve(),
  };
  const switches = makePluginSwitches(ledger);
  const tokens = { refresh: () => Promise.resolve() };
  const services = { pause, dispatcher, switches, tokens } as unknown as DirectiveServices;
  const directives = new Directives(
    createDirectiveContext(context, services),
    [
      backupDirective,
      cancelJobsDirective,
      retryJobsDirective,
      pauseSystemDirective,
      resumeSystemDirective,
      enablePluginDirective,
      disablePluginDirective,
      createTokenDirective,
      revokeTokenDirective,
      rotateTokenDirective,
    ],
    () => Promise.resolve(),
  );
  const engine: StubEngine = {
    config: {
      service: { maxHops: 32 },
      plugins: {},
      tenants: { trust: 'isolated' },
      directives: { approval: {} },
    } as unknown as Config,
    catalog: makeCatalog(),
    pipelines: [],
    ledger,
    processId: status.processId,
    tenant: undefined,
    tenants: undefined,
    quota: unlimited,
    metrics: makeMetrics(),
    isolation: () => ({ tier: 'none', hasOwnUser: false, reason: 'it is a stub' }) as const,
    refused: [],
    packages: () => ({ packages: [], problems: [] }),
    keyIds: [],
    ring: new LogRing(),
    tokens: {
      find: () => Promise.resolve(undefined),
      findByActor: () => Promise.resolve(undefined),
    },
    runTokens: new RunTokens(),
    reach: { api: undefined, webhooks: undefined },
    activity: makeActivity(),
    signals: makeSignalEmitter(context),
    webhookIntake: {
      store: {
        find: () => Promise.resolve(undefined),
        credential: () => Promise.resolve(undefined),
        references: () => Promise.resolve(new Map()),
        refresh: () => Promise.resolve(),
      },
      accept: () => Promise.reject(new Error('nothing is delivered here')),
      recordRefused: () => undefined,
      rejected: { note: () => undefined, count: () => 0 },
    },
    webhooks: {
      receive: () => Promise.reject(new Error('nothing is delivered here')),
      receiveAt: () => undefined,
      requireSecrets: () => Promise.resolve(),
    },
    submitted: [],
    approvals: {},
    work: () => Promise.resolve(),
    async submit(submission) {
      engine.submitted.push(submission);
      const { plugin, command, payload, submittedBy, actor, dedupeKey } = submission;
      const [enqueued] = await ledger.jobs.enqueue({
        jobs: [
          {
            id: makeId(),
            plugin,
            command,
            payload: JSON.stringify(payload),
            submittedBy,
            actor,
            maxAttempts: 2,
            ...(dedupeKey === undefined
              ? {}
              : { dedupe: { key: dedupeKey, ttlMs: 60_000, blockInFlight: true } }),
          },
        ],
      });
      if (enqueued === undefined) throw new Error('nothing was enqueued');
      return enqueued;
    },
    async waitFor(jobId, timeoutMs) {
      if (timeoutMs > 0) await engine.work(jobId);
      return mustFind(ledger, jobId);
    },
    startRun: () => Promise.reject(new Error('nothing is started here')),
    trigger: () => Promise.reject(new Error('nothing is started here')),
    expectEnd: () => ({ wait: () => Promise.resolve(undefined), drop: () => undefined }),
    async waitForRun(runId) {
      const run = await ledger.runs.find(runId);
      if (run === undefined) throw new DuctileError('RUN_NOT_FOUND', `there is no run ${runId}`);
      return run;
    },
    directives,
    direct: (request) => directives.direct(request),
    status: () => status,
    start: () => change({ state: 'running' }),
    stop: () => change({ state: 'stopping' }),
    set: (next) => void change(next),
  };
  function change(next: Partial<EngineStatus>): Promise<void> {
    status = { ...status, ...next };
    return Promise.resolve();
  }
  return engine;
}

/** Claims the oldest ready job and closes its attempt. */
export async function runOne(
  { ledger }: Engine,
  report: Partial<AttemptReport> = {},
  more: Partial<Pick<Closing, 'signals' | 'jobs'>> = {},
): Promise<Job> {
  const names = ['echo', 'mail'];
  const [job] = await ledger.jobs.claim({
    processId: 'stub',
    token: makeToken(),
    slots: 1,
    plugins: names.map((name) => ({ name, parallelism: 9, leaseMs: {}, leaseDefaultMs: 60_000 })),
  });
  if (job === undefined) throw new Error('no job was ready');
  const fullReport: AttemptReport = {
    ...createBareReport('succeeded', 'ok', ''),
    error: null,
    runMs: 12,
    ...report,
  };
  const ending =
    fullReport.status === 'succeeded'
      ? endAsSucceeded(job)
      : endAsFailed(job, fullReport, 'final', { maxAttempts: 2, backoffBaseMs: 1000 }, 0);
  await ledger.jobs.settle([
    { job, claimToken: job.claimToken, report: fullReport, ending, signals: [], jobs: [], ...more },
  ]);
  return mustFind(ledger, job.id);
}

async function mustFind(ledger: Ledger, id: string): Promise<Job> {
  const job = await ledger.jobs.find(id);
  if (job === undefined) throw new DuctileError('JOB_NOT_FOUND', `there is no job ${id}`);
  return job;
}

function makeCatalog(): Catalog {
  const plugins = [
    makePlugin('echo', { poll: 'read', handle: 'write' }),
    makePlugin('mail', { handle: 'write' }),
  ];
  return {
    plugins: new Map(plugins.map((plugin) => [plugin.name, plugin])),
    problems: [
      {
        plugin: 'broken',
        place: 'broken/manifest.yaml:3:1',
        key: 'protocol',
        message: 'must be 2',
      },
    ],
    warnings: [],
    unloaded: new Map(),
    dormant: new Map([['vault', ['token']]]),
    disabled: new Set(['asleep']),
    found: new Set(['asleep']),
    sources: { byName: new Map(), problems: [], warnings: [] },
  };
}

function makePlugin(name: string, types: Readonly<Record<string, 'read' | 'write'>>): Plugin {
  const commands = Object.entries(types).map(([command, type]): [string, ManifestCommand] => [
    command,
    {
      name: command,
      type,
      description: undefined,
      inputSchema: undefined,
      outputSchema: undefined,
      idempotent: undefined,
      retrySafe: undefined,
      values: { consume: [], emit: [] },
    },
  ]);
  return {
    name,
    uses: undefined,
    manifest: {
      name,
      version: '1.2.0',
      protocol: 2,
      entrypoint: 'run',
      description: `the plugin ${name}`,
      concurrencySafe: true,
      prewarm: false,
      commands: Object.assign(Object.create(null), Object.fromEntries(commands)),
      factOutputs: [],
      configKeys: { required: [], optional: [], operator: [], templates: [] },
      stopwatch: { maxSubs: 32 },
    },
    directory: `/plugins/${name}`,
    entrypoint: `/plugins/${name}/run`,
    config: {},
    parallelism: 2,
    timeoutMs: () => 60_000,
    retry: { maxAttempts: 4, backoffBaseMs: 1000 },
    limits: {
      memoryBytes: undefined,
      processes: undefined,
      cpuMs: undefined,
      fileBytes: undefined,
    },
    prewarm: 0,
    apiAccess: undefined,
    isolation: undefined,
    fingerprint: '',
    identity: '',
  };
}
