import { DuctileError } from '../base/errors.ts';
import type { LogRing } from '../base/log-ring.ts';
import { settlesWithin } from '../base/timer.ts';
import type { Config } from '../config/config.ts';
import type { RefusedInstallation } from '../config/installed.ts';
import { findPackages, type PackageListing } from '../config/packages.ts';
import type { Job } from '../job/job.ts';
import type { Enqueued } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Outlook } from '../tenant/outlook.ts';
import type { Pipeline } from '../pipeline/language/pipeline.ts';
import type { Run } from '../pipeline/run/run.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { IsolationState } from '../plugin/isolation.ts';
import type { Activity } from '../signal/activity.service.ts';
import type { DirectAnswer } from '../directive/directive-result.service.ts';
import type { DirectRequest } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import type { SignalDoor } from '../signal/emit.service.ts';
import type { Duties, Engine, EngineStatus } from './engine.ts';
import type { Tenants } from '../tenant/tenants.ts';
import type {
  RunSubmission,
  StartedRun,
  Triggered,
  TriggerSubmission,
} from '../pipeline/run/start.service.ts';
import type { Submission } from '../job/enqueue.service.ts';
import { tellSchemas, type Blueprint } from './generation.ts';
import { hasInit } from '../job/plugin-init.service.ts';
import { drain, endStart, LAST_WRITES_MS, startInSteps, takeLeave } from './lifecycle.ts';
import type { Meters } from '../insight/metrics.service.ts';
import type { Observations } from '../insight/observations.service.ts';
import type { EngineParts } from './parts.ts';
import type { Quota } from '../tenant/admission.ts';
import type { Webhooks, WebhookIntake } from '../webhook/webhooks.ts';
import type { Reach, RunTokens } from '../access/attempt-tokens.service.ts';
import type { TokenStore } from '../access/tokens.service.ts';
import { refuseUnisolated } from '../tenant/require-isolation.service.ts';
import { observeWebhooks } from '../webhook/metrics.service.ts';
import type { ExpectedEnd } from '../job/completion.service.ts';
import { makeWebhooks } from '../webhook/receive.service.ts';
import { Wiring } from './wiring.ts';

/** The engine of this process: what can be asked of it, and how it starts and stops. */
export class LocalEngine implements Engine {
  readonly ledger: Ledger;
  readonly processId: string;
  readonly tenant: string | undefined;
  readonly tenants: Tenants<Engine> | undefined;
  readonly ring: LogRing;
  readonly activity: Activity;
  readonly directives: Directives;
  readonly signals: SignalDoor;
  readonly tokens: TokenStore;
  readonly runTokens: RunTokens;
  readonly reach: Reach;
  readonly hooks: WebhookIntake;
  readonly webhooks: Webhooks;
  readonly #parts: EngineParts;
  readonly #wiring: Wiring;
  readonly #startedAt = performance.now();
  #state: 'stopped' | 'starting' | 'running' | 'stopping' = 'stopped';
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(parts: EngineParts) {
    const wiring = new Wiring(parts, {
      isRunning: () => this.#state === 'running',
      admit: () => this.#refuseWhenStopping(),
      status: () => this.status(),
      receive: (hookId, incoming) => this.webhooks.receive(hookId, incoming),
      authorize: (principal, directive) => parts.authorize(this, principal, directive),
    });
    this.#parts = parts;
    this.#wiring = wiring;
    this.ledger = parts.ledger;
    this.ring = parts.log.ring;
    this.processId = wiring.processId;
    this.tenant = parts.tenant?.slug;
    this.tenants = parts.tenants;
    this.activity = wiring.activity;
    this.directives = wiring.directives;
    this.signals = guard(wiring.runs.signals, wiring.quota);
    this.tokens = wiring.tokens;
    this.runTokens = parts.runTokens;
    this.reach = parts.reach;
    this.hooks = wiring.runs.hooks;
    const webhooks = makeWebhooks({
      door: wiring.runs.hooks,
      engine: this,
      config: () => this.config.webhooks,
      ledger: parts.ledger,
      tenants: parts.tenants,
      log: parts.log.child('webhooks'),
    });
    this.webhooks = observeWebhooks(webhooks, wiring);
  }

  /** Throws when plugins of tenants would see what is not theirs. */
  refuseUnisolated(): void {
    refuseUnisolated(this.config, this.#parts.isolation);
  }

  get meters(): Meters {
    return this.#wiring.meters;
  }

  get observations(): Pick<Observations, 'note'> {
    return this.#wiring.observations;
  }

  get quota(): Pick<Quota, 'workers' | 'held'> {
    return this.#wiring.quota;
  }

  isolation(): IsolationState {
    const unknown = { tier: 'none', hasOwnUser: false, reason: 'it is not known here' } as const;
    return this.#parts.isolation?.(this.config) ?? unknown;
  }

  get config(): Config {
    return this.#wiring.generation.config;
  }

  /** All that is in force. */
  get blueprint(): Blueprint {
    return this.#wiring.generation;
  }

  get keyIds(): readonly string[] {
    return this.#wiring.vault.keyIds;
  }

  get catalog(): Catalog {
    return this.#wiring.generation.catalog;
  }

  get pipelines(): readonly Pipeline[] {
    return this.#wiring.generation.pipelines;
  }

  get refused(): readonly RefusedInstallation[] {
    return this.#wiring.generation.installed?.refused ?? [];
  }

  packages(): PackageListing {
    return findPackages(this.#wiring.inForce.packageRoots);
  }

  /** For an engine that is asked without being started: what is installed counts too. */
  extend(): Promise<void> {
    return this.#wiring.inForce.extend();
  }

  direct(request: DirectRequest): Promise<DirectAnswer> {
    return this.directives.direct(request);
  }

  async startRun(submission: RunSubmission): Promise<StartedRun> {
    this.#refuseWhenStopping();
    return await this.#wiring.quota.within(one, () => this.#wiring.runs.door.start(submission));
  }

  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run> {
    return this.#wiring.waiters.waitForRun(runId, timeoutMs, signal);
  }

  async submit(submission: Submission): Promise<Enqueued> {
    this.#refuseWhenStopping();
    const plugin = this.#findInit(submission);
    if (plugin !== undefined) return this.#wiring.health.renew(plugin, submission);
    return await this.#wiring.quota.within(one, () => this.#wiring.door.submit(submission));
  }

  async trigger({ job, runs }: TriggerSubmission): Promise<Triggered> {
    this.#refuseWhenStopping();
    const { door } = this.#wiring.runs;
    // An init is no job like others: there is one for each configuration, whoever asks.
    const init = job !== undefined && this.#findInit(job) !== undefined ? job : undefined;
    const wanted = { job: init === undefined ? job : undefined, runs };
    const begun = init === undefined ? undefined : await this.submit(init);
    const jobs = runs.length + (wanted.job === undefined ? 0 : 1);
    const asked = { jobs, signals: 0, isCountedThere: true };
    if (jobs === 0) return { job: begun, runs: [] };
    const given = await this.#wiring.quota.within(asked, () => door.trigger(wanted));
    return begun === undefined ? given : { ...given, job: begun };
  }

  #findInit({ plugin: name, command }: Submission): Plugin | undefined {
    const plugin = command === 'init' ? this.catalog.plugins.get(name) : undefined;
    return plugin !== undefined && hasInit(plugin) ? plugin : undefined;
  }

  waitFor(jobId: string, timeoutMs: number, givenUp?: AbortSignal): Promise<Job> {
    return this.#wiring.waiters.waitFor(jobId, timeoutMs, givenUp);
  }

  expectEnd(jobId: string): ExpectedEnd {
    return this.#wiring.waiters.expectEnd(jobId);
  }

  status(): EngineStatus {
    const { running } = this.#wiring.dispatcher;
    const trouble = this.#wiring.dispatcher.trouble ?? this.#wiring.vitals.heartbeat.trouble;
    const healthy = this.#wiring.pause.isOn ? 'paused' : this.#state;
    return {
      processId: this.processId,
      generation: this.#wiring.inForce.reloader.status(),
      state: trouble === undefined || this.#state === 'stopping' ? healthy : 'degraded',
      detail: trouble,
      slots: this.config.service.maxWorkers,
      running: running.map(({ id, plugin, command }) => ({ jobId: id, plugin, command })),
      spawner: this.#parts.host.kind,
      uptimeMs: Math.round(performance.now() - this.#startedAt),
      plugins: this.catalog.plugins.size,
      counts: this.#wiring.tally.counts(),
    };
  }

  /** Calls back when a reload begins and when it has ended. */
  watchReloads(listener: (isUnderWay: boolean) => void): void {
    this.#wiring.inForce.reloader.watch(listener);
  }

  get isPaused(): boolean {
    return this.#wiring.pause.isOn;
  }

  /** What is to be done in it, so as to see whether it may sleep. */
  async outlook(): Promise<Outlook> {
    const outlook = await this.ledger.workload.readDue();
    const isRunning = outlook.isRunning || !this.#wiring.dispatcher.isIdle;
    return { ...outlook, isRunning };
  }

  /** What the process has in force is another now. */
  async renew(): Promise<void> {
    await this.#wiring.inForce.reloader.reload('system');
  }

  /** Others may have made something ready. */
  nudge(): void {
    this.#wiring.waker.dueIn(0);
  }

  /** Looks for what is wrong now, and not only with the next round. */
  lookForIncidents(): void {
    this.#wiring.watch.soon();
  }

  /** Starts nothing more, until it is told to go on; resolves when what runs has ended. */
  async rest(): Promise<void> {
    await this.#wiring.dispatcher.shut();
    await this.#wiring.dispatcher.drained();
  }

  /** Returns claims that wait for a slot; resolves when no claim is in progress. */
  withholdAll(): Promise<void> {
    return this.#wiring.dispatcher.withhold(() => true);
  }

  goOn(): void {
    if (this.#state === 'running' && !this.isPaused) this.#wiring.dispatcher.open();
  }

  /** Resolves with the ledger's schema when a newer program has changed it: this one has to go. */
  get outgrown(): Promise<number> {
    return this.#wiring.vitals.outgrown;
  }

  /** Whether it was well for long enough to presume other processes dead. */
  mayJudge(): boolean {
    return this.#wiring.vitals.mayJudge();
  }

  /** Whether the parts still turn. */
  isSound(): boolean {
    return this.#wiring.vitals.isSound();
  }

  start(duties: Duties = 'all'): Promise<void> {
    return (this.#starting = this.#start(duties));
  }

  async stop(): Promise<void> {
    if (this.#state !== 'stopped') this.#stopping ??= this.#stop();
    await this.#stopping;
    // Whoever only looks into tenants never starts.
    await this.#parts.tenants?.stop();
  }

  async #start(duties: Duties): Promise<void> {
    this.#state = 'starting';
    const { waker, vitals, pruner, scheduler, runs, inForce, health, watch } = this.#wiring;
    const usual = duties === 'all' ? [pruner, scheduler, watch] : [];
    const parts = [waker, vitals.reaper, this.tokens, runs.advancer, ...usual];
    const steps = [
      // The helper is ready only when no helper of an earlier engine lives, so neither does its work.
      () => this.#parts.host.start(),
      () => inForce.extend(),
      () => this.#parts.runner.prewarm(this.#wiring.generation),
      () => vitals.heartbeat.start(),
      () => inForce.reloader.begin(),
      () => health.require(),
      () => inForce.installations.note(this.#wiring.generation.installed),
      () => vitals.recover(),
      () => this.#wiring.pause.begin(),
      () => this.#wiring.switches.refresh(),
      () => this.#wiring.credentials.start(),
      () => watch.recall(),
      () => this.#open(),
      ...parts.map((part) => () => part.start()),
      () => (this.tenant === undefined ? this.#wiring.tracer.start() : undefined),
      () => this.#parts.tenants?.start(),
    ];
    await startInSteps(steps, () => this.#stopping !== undefined);
  }

  #open(): void {
    this.#state = 'running';
    if (!this.#wiring.pause.isOn) this.#wiring.dispatcher.open();
    void tellSchemas(this.#wiring.generation, this.#parts.log);
  }

  async #stop(): Promise<void> {
    const starting = this.#state === 'starting' ? this.#starting : undefined;
    this.#state = 'stopping';
    const others = this.#parts.tenants?.stop();
    const { dispatcher, scheduler, waker, vitals, pruner, runs, watch } = this.#wiring;
    const log = this.#parts.log.child('engine');
    void dispatcher.shut();
    if (starting !== undefined) await endStart(starting, this.#parts.host);
    for (const part of [watch, scheduler, waker, vitals.reaper, pruner, runs.advancer]) {
      await part.stop();
    }
    await drain(dispatcher, this.config.service.shutdownTimeoutMs, log);
    await settlesWithin(this.directives.stop(), LAST_WRITES_MS);
    await this.tokens.stop();
    await this.#wiring.credentials.stop();
    await settlesWithin(this.#wiring.observations.stop(), LAST_WRITES_MS);
    // Their attempts run in the host of this one, which is there for as long as it beats.
    await others;
    await vitals.heartbeat.stop();
    await takeLeave(this.ledger, this.processId, log);
    if (this.tenant === undefined) await this.#wiring.tracer.stop();
    this.#parts.runner.stop();
    await this.#parts.host.stop();
    dispatcher.leave();
    this.#state = 'stopped';
  }

  #refuseWhenStopping(): void {
    if (this.#state === 'stopping') throw new DuctileError('STOPPING', 'the engine is stopping');
  }
}

const one = { jobs: 1, signals: 0, isCountedThere: true };

function guard(door: SignalDoor, quota: Quota): SignalDoor {
  const told = (signals: number) => ({ jobs: 0, signals });
  return {
    ...door,
    emit: (submission) => quota.within(told(1), () => door.emit(submission)),
    emitAll: (all) => quota.within(told(all.length), () => door.emitAll(all)),
  };
}
