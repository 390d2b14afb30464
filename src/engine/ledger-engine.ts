import type { LogRing } from '../base/log-ring.ts';
import type { Config } from '../config/config.ts';
import type { RefusedInstallation } from '../config/installed.ts';
import { findPackages, type PackageListing } from '../config/packages.ts';
import type { Job } from '../job/job.ts';
import type { EnqueueResult } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Workload } from '../tenant/workload.sql.ts';
import type { Pipeline } from '../pipeline/language/pipeline.ts';
import type { Run } from '../pipeline/run/run.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { IsolationState } from '../plugin/isolation.ts';
import type { Activity } from '../signal/event-feed.service.ts';
import type { DirectiveResult } from '../directive/result.service.ts';
import type { DirectiveRequest } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import type { SignalEmitter } from '../signal/emit.service.ts';
import type { Engine, EngineStatus, StartMode } from './engine.ts';
import type { Tenants, Quota } from '../tenant/tenants.ts';
import type {
  RunSubmission,
  StartedRun,
  TriggerResult,
  TriggerSubmission,
} from '../pipeline/run/start.service.ts';
import type { JobSubmission } from '../job/enqueue.service.ts';
import { type Blueprint, makeGeneration, logFindings } from './generation.ts';
import { hasInit } from '../job/plugin-init.service.ts';
import { startServices, stopServices, type LedgerRuntime } from './lifecycle.ts';
import type { Metrics } from '../insight/metrics.service.ts';
import type { Observations } from '../insight/observations.service.ts';
import type { Webhooks, WebhookIntake } from '../webhook/webhooks.ts';
import type { RunTokens } from '../access/credentials.service.ts';
import type { TokenStore } from '../access/tokens.service.ts';
import { refuseUnisolated } from '../tenant/require-isolation.service.ts';
import type { ExpectedEnd } from '../job/completion.service.ts';
import { createLedgerContext, type LedgerContext, type Reach } from './context.ts';
import type { LedgerSetup, ProcessContext } from './process-context.ts';
import { createServices, subscribeServices, type LedgerServices } from './services.ts';
import { makeQuota, unlimited } from '../tenant/quota.service.ts';

/** Engine of one ledger. Operations call it; it passes each call on to the service that does the work. */
export class LedgerEngine implements Engine {
  readonly ledger: Ledger;
  readonly processId: string;
  readonly tenant: string | undefined;
  readonly tenants: Tenants<Engine> | undefined;
  readonly ring: LogRing;
  readonly activity: Activity;
  readonly directives: Directives;
  readonly signals: SignalEmitter;
  readonly tokens: TokenStore;
  readonly runTokens: RunTokens;
  readonly reach: Reach;
  readonly webhookIntake: WebhookIntake;
  readonly webhooks: Webhooks;
  readonly metrics: Metrics;
  readonly observations: Pick<Observations, 'count'>;
  readonly quota: Quota;
  readonly #setup: LedgerSetup;
  readonly #context: LedgerContext;
  readonly #services: LedgerServices;
  readonly #startedAt = performance.now();
  /** True once the log has the findings of the first generation. */
  #hasLoggedFindings = false;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  get #runtime(): LedgerRuntime {
    return { context: this.#context, setup: this.#setup, services: this.#services };
  }

  constructor(process: ProcessContext, setup: LedgerSetup) {
    const { ledger, tenant, tenants, vault, blueprint, log } = setup;
    const { reach, runTokens } = process;
    const quota = tenant === undefined ? unlimited : makeQuota(ledger, tenant);
    const generation = makeGeneration(blueprint, 1, log);
    const context = createLedgerContext({ ledger, tenant, quota, vault, reach, log, generation });
    this.#setup = setup;
    this.#context = context;
    this.ledger = ledger;
    this.ring = log.ring;
    this.processId = context.processId;
    this.tenant = tenant?.slug;
    this.tenants = tenants;
    this.runTokens = runTokens;
    this.reach = reach;
    this.quota = quota;
    this.metrics = process.metrics;
    const services = createServices(context, process, setup, this);
    subscribeServices(context, services);
    this.#services = services;
    this.activity = services.activity;
    this.directives = services.directives;
    this.signals = services.signals;
    this.tokens = services.tokens;
    this.webhookIntake = services.webhookIntake;
    this.webhooks = services.webhooks;
    this.observations = services.observations;
  }

  /** Throws if plugins of tenants could read what isn't theirs. */
  refuseUnisolated(): void {
    refuseUnisolated(this.config, this.#setup.isolation);
  }

  isolation(): IsolationState {
    const unknown = {
      tier: 'none',
      hasOwnUser: false,
      reason: 'it is unknown in this process',
    } as const;
    return this.#setup.isolation?.(this.config) ?? unknown;
  }

  get config(): Config {
    return this.#context.generation.config;
  }

  /** The active generation. */
  get blueprint(): Blueprint {
    return this.#context.generation;
  }

  get keyIds(): readonly string[] {
    return this.#context.vault.keyIds;
  }

  get catalog(): Catalog {
    return this.#context.generation.catalog;
  }

  get pipelines(): readonly Pipeline[] {
    return this.#context.generation.pipelines;
  }

  get refused(): readonly RefusedInstallation[] {
    return this.#context.generation.installed?.refused ?? [];
  }

  packages(): PackageListing {
    return findPackages(this.#services.packageRoots());
  }

  /** Adds installations to the first generation. An engine that never starts needs it, too. */
  async extend(): Promise<void> {
    const { blueprint, log } = this.#setup;
    const extended = await this.#services.installations.extend(blueprint);
    if (extended !== blueprint) this.#context.generation = makeGeneration(extended, 1, log);
    if (!this.#hasLoggedFindings) logFindings(this.#context.generation, log);
    this.#hasLoggedFindings = true;
  }

  direct(request: DirectiveRequest): Promise<DirectiveResult> {
    return this.directives.direct(request);
  }

  async startRun(submission: RunSubmission): Promise<StartedRun> {
    this.#context.requireAccepting();
    return await this.quota.within(oneJob, () => this.#services.runs.start(submission));
  }

  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run> {
    return this.#services.completion.waitForRun(runId, timeoutMs, signal);
  }

  async submit(submission: JobSubmission): Promise<EnqueueResult> {
    this.#context.requireAccepting();
    const plugin = this.#findInit(submission);
    if (plugin !== undefined) return this.#services.pluginInits.rerun(plugin, submission);
    return await this.quota.within(oneJob, () => this.#services.enqueuer.submit(submission));
  }

  async trigger({ job, runs }: TriggerSubmission): Promise<TriggerResult> {
    this.#context.requireAccepting();
    const { runs: starter } = this.#services;
    // A plugin has one init job for each configuration, so an init is not enqueued like other jobs.
    const init = job !== undefined && this.#findInit(job) !== undefined ? job : undefined;
    const rest = { job: init === undefined ? job : undefined, runs };
    const initJob = init === undefined ? undefined : await this.submit(init);
    const jobs = runs.length + (rest.job === undefined ? 0 : 1);
    if (jobs === 0) return { job: initJob, runs: [] };
    const usage = { jobs, signals: 0, isCountedByLedger: true };
    const triggered = await this.quota.within(usage, () => starter.trigger(rest));
    return initJob === undefined ? triggered : { ...triggered, job: initJob };
  }

  #findInit({ plugin: name, command }: JobSubmission): Plugin | undefined {
    const plugin = command === 'init' ? this.catalog.plugins.get(name) : undefined;
    return plugin !== undefined && hasInit(plugin) ? plugin : undefined;
  }

  waitFor(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job> {
    return this.#services.completion.waitFor(jobId, timeoutMs, signal);
  }

  expectEnd(jobId: string): ExpectedEnd {
    return this.#services.completion.expectEnd(jobId);
  }

  status(): EngineStatus {
    const { running } = this.#services.dispatcher;
    const trouble = this.#services.dispatcher.trouble ?? this.#services.liveness.heartbeat.trouble;
    const healthy = this.#services.pause.isOn ? 'paused' : this.#context.state;
    return {
      processId: this.processId,
      generation: this.#services.reloader.status(),
      state: trouble === undefined || this.#context.state === 'stopping' ? healthy : 'degraded',
      detail: trouble,
      slots: this.config.service.maxWorkers,
      running: running.map(({ id, plugin, command }) => ({ jobId: id, plugin, command })),
      spawner: this.#setup.host.kind,
      uptimeMs: Math.round(performance.now() - this.#startedAt),
      plugins: this.catalog.plugins.size,
      counts: this.#services.counter.read(),
    };
  }

  /** Calls back when a reload starts and when it ends. */
  watchReloads(listener: (isReloading: boolean) => void): void {
    this.#services.reloader.watch(listener);
  }

  get isPaused(): boolean {
    return this.#services.pause.isOn;
  }

  /** Reads the work that is left, to decide whether the tenant can be closed. */
  async readWorkload(): Promise<Workload> {
    const workload = await this.ledger.workload.readDue();
    const isRunning = workload.isRunning || !this.#services.dispatcher.isIdle;
    return { ...workload, isRunning };
  }

  /** Reloads because the process has another active generation. */
  async renew(): Promise<void> {
    await this.#services.reloader.reload('system');
  }

  /** Looks for work: another host may have made something ready. */
  lookForWork(): void {
    this.#services.waker.dueIn(0);
  }

  /** Looks for incidents now instead of at the next interval. */
  lookForIncidents(): void {
    this.#services.incidentWatcher.soon();
  }

  /** Starts nothing more until `resume`. Resolves when no attempt runs. */
  async drain(): Promise<void> {
    await this.#services.dispatcher.stopClaiming();
    await this.#services.dispatcher.awaitIdle();
  }

  /** Returns claims that wait for a slot; resolves when no claim is in progress. */
  withholdAll(): Promise<void> {
    return this.#services.dispatcher.releaseWaiting(() => true);
  }

  resume(): void {
    if (this.#context.state === 'running' && !this.isPaused)
      this.#services.dispatcher.startClaiming();
  }

  /**
   * Resolves with the ledger's schema if a newer program has changed it: then this one has to stop.
   */
  get outgrown(): Promise<number> {
    return this.#services.liveness.outgrown;
  }

  /** True if its heartbeats were unbroken for long enough to presume other processes dead. */
  mayReap(): boolean {
    return this.#services.liveness.mayReap();
  }

  /** True if heartbeats still take place, even failed ones: a restart would not bring back a database. */
  isSound(): boolean {
    return this.#services.liveness.isBeating();
  }

  start(mode: StartMode = 'all'): Promise<void> {
    const isStopping = (): boolean => this.#stopping !== undefined;
    return (this.#starting = startServices(this.#runtime, mode, () => this.extend(), isStopping));
  }

  async stop(): Promise<void> {
    if (this.#context.state !== 'stopped') {
      this.#stopping ??= stopServices(this.#runtime, this.#starting);
    }
    await this.#stopping;
    // An engine that never started has tenants to stop, too: they can be visited without a start.
    await this.#setup.tenants?.stop();
  }
}

/** The usage of a tenant's quota by one job or run. */
const oneJob = { jobs: 1, signals: 0, isCountedByLedger: true };
