import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { LogRing } from '../base/log-ring.ts';
import type { Service } from '../base/service.ts';
import { settlesWithin } from '../base/within.ts';
import type { Config } from '../config/config.ts';
import type { Job } from '../job/job.ts';
import type { CancelAnswer } from '../job/state.ts';
import type { Enqueued, Ledger, Settlement } from '../ledger/ledger.ts';
import { noNews } from '../ledger/runs.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { Run } from '../pipeline/run.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { makeActivity } from './activity.ts';
import { makeBases } from './bases.ts';
import { HOST_FULL_DELAY_MS } from './conclude.ts';
import type { DirectAnswer } from './directive-answers.ts';
import type { DirectRequest } from './directive-definition.ts';
import { Directives } from './directives.ts';
import { Dispatcher } from './dispatcher.ts';
import type { SignalDoor } from './emit.ts';
import type { Engine, EngineStatus, RunSubmission, StartedRun, Submission } from './engine.ts';
import { makeDoor, type Door } from './enqueue.ts';
import { makeExecutor } from './executor.ts';
import { makeGeneration, tellSchemas, type Generation } from './generation.ts';
import { hasInit, makeHealthKeeper, type HealthKeeper } from './health.ts';
import { drain, endStart, LAST_WRITES_MS, startInSteps, takeLeave } from './lifecycle.ts';
import type { EngineParts } from './parts.ts';
import { Pause } from './pause.ts';
import { makePruner } from './pruner.ts';
import { makeReloader, type Reloader } from './reload.ts';
import { registerAllDirectives } from './register.ts';
import { makeRunKeeper, type RunKeeper } from './runs.ts';
import { makeScheduler, type Scheduler } from './scheduler.ts';
import { makeSettler, type Settled } from './settle.ts';
import { tellDropped, tellEnd } from './tell.ts';
import { makeSwitches, type Switches } from './switches.ts';
import { makeTokenStore, type TokenStore } from './token-store.ts';
import { makeVitals, type Vitals } from './vitals.ts';
import { makeWaiters, type Waiters } from './waiters.ts';
import { makeWaker, type Waker } from './wake.ts';

/** The moving parts, wired: each is one file, and this one says who tells whom. */
export class LocalEngine implements Engine {
  readonly ledger: Ledger;
  readonly processId = makeId();
  readonly ring: LogRing;
  readonly activity = makeActivity();
  readonly directives: Directives;
  readonly signals: SignalDoor;
  readonly tokens: TokenStore;
  readonly #parts: EngineParts;
  readonly #log: Log;
  readonly #jobLog: Log;
  readonly #startedAt = performance.now();
  readonly #switches: Switches;
  readonly #pause: Pause;
  readonly #door: Door;
  readonly #waiters: Waiters;
  readonly #dispatcher: Dispatcher;
  readonly #waker: Waker;
  readonly #vitals: Vitals;
  readonly #pruner: Service;
  readonly #reloader: Reloader;
  readonly #health: HealthKeeper;
  readonly #scheduler: Scheduler;
  readonly #runs: RunKeeper;
  #generation: Generation;
  #state: 'stopped' | 'starting' | 'running' | 'stopping' = 'stopped';
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(parts: EngineParts) {
    const { blueprint, ledger, log } = parts;
    this.#parts = parts;
    this.#generation = makeGeneration(blueprint, 1, log);
    this.ledger = ledger;
    this.ring = log.ring;
    this.#log = log.child('engine');
    this.#jobLog = log.child('job');
    this.#waiters = makeWaiters(ledger);
    this.#switches = makeSwitches(ledger);
    this.#pause = new Pause({
      ledger,
      isRunning: () => this.#state === 'running',
      open: () => this.#dispatcher.open(),
      shut: () => this.#dispatcher.shut(),
      log: this.#log,
    });
    this.#health = makeHealthKeeper({
      ledger,
      current: () => this.#generation,
      onChange: () => this.#arrived([]),
      withhold: (isMeant) => this.#dispatcher.withhold(isMeant),
      log: log.child('health'),
    });
    this.#door = makeDoor(
      ledger,
      () => this.catalog,
      () => this.config.service.dedupeTtlMs,
      (enqueued) => this.#arrived(enqueued),
      (ms) => this.#waker.dueIn(ms),
    );
    this.#dispatcher = this.#makeDispatcher();
    this.#waker = makeWaker({
      ledger,
      pollMs: () => this.config.service.pollIntervalMs,
      onWork: () => {
        this.#dispatcher.wake();
        this.#runs.advancer.soon();
      },
      onLook: () => this.#look(),
      log: log.child('waker'),
    });
    this.#vitals = makeVitals({
      ...parts,
      processId: this.processId,
      current: () => this.#generation,
      dispatcher: this.#dispatcher,
      onReaped: (settlement) => this.#reaped(settlement),
    });
    this.#runs = makeRunKeeper({
      ledger,
      processId: this.processId,
      current: () => this.#generation,
      onQueued: () => this.#arrived([]),
      onEnded: (runIds) => this.#waiters.notice(runIds),
      admit: () => this.#refuseWhenStopping(),
      onEmitted: () => this.activity.notice(),
      log,
    });
    this.signals = this.#runs.signals;
    this.#pruner = makePruner(ledger, () => this.#generation, log.child('pruner'));
    this.#scheduler = this.#makeScheduler();
    this.#reloader = this.#makeReloader();
    this.tokens = makeTokenStore({
      ledger,
      configured: () => this.config.api.auth.tokens,
      log: log.child('tokens'),
    });
    this.directives = this.#makeDirectives();
  }

  get config(): Config {
    return this.#generation.config;
  }

  get catalog(): Catalog {
    return this.#generation.catalog;
  }

  get pipelines(): readonly Pipeline[] {
    return this.#generation.pipelines;
  }

  direct(request: DirectRequest): Promise<DirectAnswer> {
    return this.directives.direct(request);
  }

  async startRun(submission: RunSubmission): Promise<StartedRun> {
    this.#refuseWhenStopping();
    return await this.#runs.door.start(submission);
  }

  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run> {
    return this.#waiters.waitForRun(runId, timeoutMs, signal);
  }

  async submit(submission: Submission): Promise<Enqueued> {
    this.#refuseWhenStopping();
    const plugin = this.catalog.plugins.get(submission.plugin);
    if (submission.command === 'init' && plugin !== undefined && hasInit(plugin)) {
      return this.#health.renew(plugin, submission);
    }
    return this.#door.submit(submission);
  }

  waitFor(jobId: string, timeoutMs: number, givenUp?: AbortSignal): Promise<Job> {
    return this.#waiters.waitFor(jobId, timeoutMs, givenUp);
  }

  status(): EngineStatus {
    const { running } = this.#dispatcher;
    const trouble = this.#dispatcher.trouble ?? this.#vitals.heartbeat.trouble;
    const healthy = this.#pause.isOn ? 'paused' : this.#state;
    return {
      processId: this.processId,
      generation: this.#reloader.status(),
      state: trouble === undefined || this.#state === 'stopping' ? healthy : 'degraded',
      detail: trouble,
      slots: this.config.service.maxWorkers,
      running: running.map(({ id, plugin, command }) => ({ jobId: id, plugin, command })),
      spawner: this.#parts.host.rung,
      uptimeMs: Math.round(performance.now() - this.#startedAt),
      plugins: this.catalog.plugins.size,
    };
  }

  /** Calls back when a reload begins and when it has ended. */
  watchReloads(listener: (isUnderWay: boolean) => void): void {
    this.#reloader.watch(listener);
  }

  /** Whether the parts still turn. */
  isSound(): boolean {
    return this.#vitals.isSound();
  }

  start(): Promise<void> {
    return (this.#starting = this.#start());
  }

  async stop(): Promise<void> {
    if (this.#state !== 'stopped') this.#stopping ??= this.#stop();
    await this.#stopping;
  }

  async #start(): Promise<void> {
    this.#state = 'starting';
    const beating = [this.#waker, this.#vitals.reaper, this.#pruner, this.tokens, this.#scheduler];
    const parts = [...beating, this.#runs.advancer];
    const steps = [
      // The helper is ready only when no helper of an earlier engine lives, so neither does its work.
      () => this.#parts.host.start(),
      () => this.#parts.runner.prewarm(this.#generation),
      () => this.#vitals.heartbeat.start(),
      () => this.#reloader.begin(),
      () => this.#health.require(),
      () => this.#vitals.recover(),
      () => this.#pause.begin(),
      () => this.#switches.refresh(),
      () => this.#open(),
      ...parts.map((part) => () => part.start()),
    ];
    await startInSteps(steps, () => this.#stopping !== undefined);
  }

  #open(): void {
    this.#state = 'running';
    if (!this.#pause.isOn) this.#dispatcher.open();
    void tellSchemas(this.#generation, this.#parts.log);
  }

  async #stop(): Promise<void> {
    const starting = this.#state === 'starting' ? this.#starting : undefined;
    this.#state = 'stopping';
    void this.#dispatcher.shut();
    if (starting !== undefined) await endStart(starting, this.#parts.host);
    const beating = [this.#scheduler, this.#waker, this.#vitals.reaper, this.#pruner];
    for (const part of [...beating, this.#runs.advancer]) await part.stop();
    await drain(this.#dispatcher, this.config.service.shutdownTimeoutMs, this.#log);
    await settlesWithin(this.directives.stop(), LAST_WRITES_MS);
    await this.tokens.stop();
    await this.#vitals.heartbeat.stop();
    await takeLeave(this.ledger, this.processId, this.#log);
    this.#parts.runner.stop();
    await this.#parts.host.stop();
    this.#state = 'stopped';
  }

  #refuseWhenStopping(): void {
    if (this.#state === 'stopping') throw new DuctileError('STOPPING', 'the engine is stopping');
  }

  #makeDispatcher(): Dispatcher {
    const { ledger, runner, log } = this.#parts;
    return new Dispatcher({
      settler: makeSettler(ledger, () => this.#generation.rules, log.child('settle')),
      processId: this.processId,
      slots: () => this.config.service.maxWorkers,
      generation: () => this.#generation,
      plugins: (generation) =>
        this.#health.limit(generation).filter(({ name }) => !this.#switches.isOff(name)),
      execute: makeExecutor({
        run: runner.run,
        bases: makeBases((key) => ledger.basePayload(key)),
        onHostFull: () => this.#dispatcher.rest(HOST_FULL_DELAY_MS),
        log: log.child('executor'),
      }),
      onSettled: (settled) => this.#settled(settled),
      log: log.child('dispatcher'),
    });
  }

  #makeScheduler(): Scheduler {
    const { ledger, log } = this.#parts;
    return makeScheduler({
      ledger,
      config: () => this.config,
      catalog: () => this.catalog,
      holdOf: (plugin) => {
        if (this.#switches.isOff(plugin)) return 'plugin_disabled';
        return this.#health.isWell(plugin) ? undefined : 'plugin_unhealthy';
      },
      onFired: () => this.#arrived([]),
      onCancelled: (jobId, answer) => this.#cancelled(jobId, answer),
      log: log.child('scheduler'),
    });
  }

  #makeDirectives(): Directives {
    const { ledger, log } = this.#parts;
    const directives = new Directives({
      ledger,
      processId: this.processId,
      rules: () => this.#generation.rules,
      approvals: () => this.config.directives.approval,
      onChange: () => this.#runs.heed({ ...noNews, queued: true, advancing: true }),
      log: log.child('directive'),
    });
    registerAllDirectives(directives, {
      ledger,
      config: () => this.config,
      catalog: () => this.catalog,
      health: this.#health,
      reloader: this.#reloader,
      switches: this.#switches,
      tokens: this.tokens,
      status: () => this.status(),
      onCancel: (jobId, answer) => this.#cancelled(jobId, answer),
      onQueued: () => this.#arrived([]),
      onPause: () => this.#pause.changed(),
      onSwitch: () => this.#refreshSwitches(),
      onSchedules: () => this.#scheduler.soon(),
      current: () => this.#generation,
      onNews: (news) => this.#runs.heed(news),
    });
    return directives;
  }

  #makeReloader(): Reloader {
    const { load, ledger, log, runner } = this.#parts;
    return makeReloader({
      processId: this.processId,
      current: () => this.#generation,
      load,
      ledger,
      // Whether plugins are well under it must be known before the first claim.
      prepare: () => this.#health.learn(),
      // From here on nothing may fail: half a reload would be neither the old nor the new one.
      adopt: (generation) => {
        this.#generation = generation;
        void tellSchemas(generation, log);
        runner.prewarm(generation);
        this.#vitals.heartbeat.soon();
        this.#scheduler.soon();
        this.#waker.dueIn(0);
        this.#dispatcher.wake();
      },
      follow: () => this.#health.require(),
      log,
    });
  }

  /** What was given back is ready now, here and elsewhere. */
  #reaped(settlement: Settlement): void {
    this.#settled({ ...settlement, written: [] });
    this.#arrived([]);
  }

  #settled({ verdicts, enqueued, written, news }: Settled): void {
    this.activity.notice();
    this.#waiters.notice(verdicts.keys());
    this.#runs.heed(news);
    if (enqueued.length > 0) this.#arrived(enqueued);
    for (const closing of written) {
      tellEnd(closing, this.#jobLog);
      if (closing.ending.delayMs > 0) this.#waker.dueIn(closing.ending.delayMs);
    }
    if (written.some(({ job }) => job.command === 'init')) void this.#health.look();
  }

  #arrived(enqueued: readonly Enqueued[]): void {
    tellDropped(enqueued, this.#log);
    this.#dispatcher.wake();
    this.ledger.hint();
  }

  async #look(): Promise<void> {
    await this.#pause.look();
    await this.#refreshSwitches();
    await this.#health.look();
    await this.directives.waiting.beginDue();
  }

  /** When this resolves, nothing of a plugin that is off is started here any more. */
  async #refreshSwitches(): Promise<void> {
    await this.#switches.refresh();
    if (this.#switches.off.length > 0) {
      await this.#dispatcher.withhold((plugin) => this.#switches.isOff(plugin));
    }
  }

  /** Another host that runs it learns of it with its next heartbeat. */
  #cancelled(jobId: string, answer: CancelAnswer): void {
    if (answer === 'requested') this.#dispatcher.stopJob(jobId, 'cancelled');
    if (answer === 'cancelled') this.#waiters.notice([jobId]);
  }
}
