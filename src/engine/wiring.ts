import { messageOf } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import type { Config } from '../config/config.ts';
import { retentionType } from '../job/directives.ts';
import type { CancelAnswer } from '../job/job.ts';
import type { Closing, Settlement } from '../ledger/commit.ts';
import type { Enqueued } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { noNews } from '../pipeline/run/types.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import { makeActivity } from '../signal/activity.service.ts';
import { HOST_FULL_DELAY_MS, makeExecutor } from '../job/executor.service.ts';
import { makeCredentials, type Credentials } from '../access/credentials.service.ts';
import { Directives } from '../directive/request.service.ts';
import { Dispatcher } from '../job/dispatcher.service.ts';
import { makeDoor, type Door } from '../job/enqueue.service.ts';
import { heraldWork } from '../job/announce-work.service.ts';
import type { Generation } from './generation.ts';
import { makeHealthKeeper, type HealthKeeper } from '../job/plugin-init.service.ts';
import { InForce } from './active-generation.ts';
import { makeSealingMask } from '../signal/seal.service.ts';
import { authorizeAsker, type EngineLife } from './life.ts';
import type { EngineParts } from './parts.ts';
import { Pause, makeSwitches, type Switches } from '../job/pause.service.ts';
import { makeMeters, type Meters } from '../insight/metrics.service.ts';
import { makeObserver } from '../insight/observer.service.ts';
import { makeObservations, type Observations } from '../insight/observations.service.ts';
import { makePruner } from '../job/prune.service.ts';
import { limitQueue, makeQuota, unlimited } from '../tenant/quota.service.ts';
import type { Quota } from '../tenant/admission.ts';
import { registerAllDirectives } from './register-directives.ts';
import { makeGrantAccess } from '../access/attempt-tokens.service.ts';
import { makeRunKeeper, type RunKeeper } from '../pipeline/run/runs.service.ts';
import { makeScheduler, type Scheduler } from '../schedule/scheduler.service.ts';
import {
  makeSettler,
  timeSettler,
  type WrittenSettlement,
  logDuplicates,
  logAttemptEnd,
} from '../job/settle.service.ts';
import { makeTally, type Tally } from '../insight/job-counts.service.ts';
import { seamsOfTenancy } from './tenancy.ts';
import { makeTokenStore, type TokenStore } from '../access/tokens.service.ts';
import type { Vault } from '../access/vault.ts';
import { noTracer, type Tracer } from '../insight/tracer.service.ts';
import { makeIndexChecks } from '../insight/index-checks.service.ts';
import { makeTurns } from '../job/slots.service.ts';
import { makeWatch, type Watch } from '../insight/incident-watcher.service.ts';
import { makeVitals, type Vitals } from '../job/heartbeat.service.ts';
import { makeWaiters, type Waiters } from '../job/completion.service.ts';
import { makeWaker, type Waker } from '../job/wake.service.ts';

/** The moving parts, wired: each is one file, and this one says who tells whom. */
export class Wiring {
  readonly processId = makeId();
  readonly activity = makeActivity();
  readonly tally: Tally;
  readonly directives: Directives;
  readonly vault: Vault;
  readonly credentials: Credentials;
  readonly tokens: TokenStore;
  readonly switches: Switches;
  readonly pause: Pause;
  readonly door: Door;
  readonly waiters: Waiters;
  readonly quota: Quota;
  readonly dispatcher: Dispatcher;
  readonly waker: Waker;
  readonly vitals: Vitals;
  readonly pruner: Service;
  readonly inForce: InForce;
  readonly health: HealthKeeper;
  readonly scheduler: Scheduler;
  readonly watch: Watch;
  readonly observations: Observations;
  readonly meters: Meters;
  readonly tracer: Tracer;
  readonly observer: ReturnType<typeof makeObserver>;
  readonly runs: RunKeeper;
  readonly #parts: EngineParts;
  readonly #life: EngineLife;
  /** The ledger as whatever accepts work sees it. */
  readonly #entrance: Ledger;
  readonly #log: Log;
  readonly #jobLog: Log;

  constructor(parts: EngineParts, life: EngineLife) {
    const { ledger, log, vault, tenant } = parts;
    this.#parts = parts;
    this.#life = life;
    this.inForce = this.#makeInForce();
    this.meters = parts.meters ?? makeMeters();
    this.tracer = parts.tracer ?? noTracer;
    this.#log = log.child('engine');
    this.#jobLog = log.child('job');
    this.vault = vault;
    this.credentials = makeCredentials({ ledger, vault, log: log.child('credentials') });
    this.tally = makeTally(parts.tenant?.slug);
    this.quota = tenant === undefined ? unlimited : makeQuota(ledger, tenant);
    this.waiters = makeWaiters(ledger);
    this.switches = makeSwitches(ledger);
    this.pause = new Pause({
      ledger,
      isRunning: () => life.isRunning(),
      open: () => this.dispatcher.open(),
      shut: async () => {
        await this.dispatcher.shut();
        await parts.tenants?.awaitPause();
      },
      log: this.#log,
    });
    this.health = this.#makeHealth();
    const limited = tenant === undefined ? ledger : limitQueue(ledger, this.quota);
    this.observations = makeObservations({ ledger, log: this.#log });
    this.#entrance = heraldWork(this.observations.watch(limited), () => this.dispatcher.wake());
    this.door = makeDoor(
      this.#entrance,
      () => this.generation.catalog,
      () => this.#config.service.dedupeTtlMs,
      (enqueued) => this.#arrived(enqueued),
      (ms) => this.waker.dueIn(ms),
    );
    this.dispatcher = this.#makeDispatcher();
    this.waker = makeWaker({
      ledger,
      pollMs: () => this.#config.service.pollIntervalMs,
      onWork: () => {
        parts.tenants?.soon();
        this.dispatcher.wakeSurely();
        this.runs.advancer.soon();
      },
      onLook: () => this.#look(),
      log: log.child('waker'),
    });
    this.vitals = this.#makeVitals();
    this.runs = this.#makeRuns();
    const current = (): Generation => this.generation;
    const retain = (): Promise<void> => this.#retain();
    this.pruner = makePruner({ ledger, current, retain, log: log.child('pruner') });
    this.scheduler = this.#makeScheduler();
    this.watch = this.#makeWatch();
    const { meters, tracer, watch } = this;
    this.observer = makeObserver({ ledger, meters, tracer, watch });
    const own = { tenant: tenant?.slug, configured: () => this.#config.api.auth.tokens };
    this.tokens = makeTokenStore({ ledger, ...own, log: log.child('tokens') });
    this.directives = this.#makeDirectives();
  }

  /** What is in force now; a reload puts another in its place. */
  get generation(): Generation {
    return this.inForce.generation;
  }

  get #config(): Config {
    return this.generation.config;
  }

  #makeInForce(): InForce {
    return new InForce({
      parts: this.#parts,
      processId: this.processId,
      isRunning: () => this.#life.isRunning(),
      health: () => this.health,
      hooks: () => this.runs.hooks,
      onAdopted: () => {
        this.vitals.heartbeat.soon();
        this.scheduler.soon();
        this.waker.dueIn(0);
        this.dispatcher.wake();
      },
      forsake: (plugins) => this.vitals.reaper.forsake(plugins),
      onAsked: (asked) => {
        for (const { draft } of asked) this.tally.directive(draft, 'requested');
        this.waker.dueIn(0);
      },
    });
  }

  #makeHealth(): HealthKeeper {
    const { ledger, log } = this.#parts;
    return makeHealthKeeper({
      ledger,
      current: () => this.generation,
      onChange: () => this.#mayClaimMore(),
      withhold: (isMeant) => this.dispatcher.withhold(isMeant),
      log: log.child('health'),
    });
  }

  #makeVitals(): Vitals {
    return makeVitals({
      ...this.#parts,
      processId: this.processId,
      current: () => this.generation,
      dispatcher: this.dispatcher,
      onReaped: (settlement, written) => this.#reaped(settlement, written),
      onDeath: async () => this.#parts.tenants?.mourn(),
    });
  }

  #makeRuns(): RunKeeper {
    return makeRunKeeper({
      ledger: this.#entrance,
      processId: this.processId,
      current: () => this.generation,
      onEnded: (ended) => this.observer.ended(ended),
      onQueued: (enqueued) => this.#arrived(enqueued),
      onDelayed: (ms) => this.waker.dueIn(ms),
      admit: () => this.#life.admit(),
      vault: this.vault,
      quota: this.quota,
      onEmitted: (signals) => {
        this.tally.emitted(signals);
        this.activity.notice();
      },
      log: this.#parts.log,
    });
  }

  #makeDispatcher(): Dispatcher {
    const { ledger, runner, log } = this.#parts;
    const settling = this.observations.watch(ledger);
    return new Dispatcher({
      settler: timeSettler(
        makeSettler(settling, () => this.generation.rules, log.child('settle')),
        (ms) => this.meters.committed(ms),
      ),
      processId: this.processId,
      turns: this.#parts.turns ?? makeTurns(() => this.#config.service.maxWorkers),
      most: () => this.quota.workers(),
      generation: () => this.generation,
      plugins: (generation) =>
        this.health.limit(generation).filter(({ name }) => !this.switches.isOff(name)),
      mayStart: () => this.vitals.mayStart(),
      execute: makeExecutor({
        run: runner.run,
        ledger,
        credentials: this.credentials,
        grantAccess: makeGrantAccess({ ...this.#parts, tenant: this.#parts.tenant?.slug }),
        mask: makeSealingMask(this.vault, log.child('executor')),
        onHostFull: () => this.dispatcher.rest(HOST_FULL_DELAY_MS),
        onFenced: () => {
          this.dispatcher.rest(HOST_FULL_DELAY_MS);
          this.vitals.heartbeat.soon();
        },
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
      processId: this.processId,
      config: () => this.#config,
      catalog: () => this.generation.catalog,
      holdOf: (plugin) => {
        const held = this.quota.held();
        if (held !== undefined) return held;
        if (this.switches.isOff(plugin)) return 'plugin_disabled';
        return this.health.isWell(plugin) ? undefined : 'plugin_unhealthy';
      },
      onFired: () => this.#arrived([]),
      onCancelled: (jobId, answer) => this.#cancelled(jobId, answer),
      log: log.child('scheduler'),
    });
  }

  #makeWatch(): Watch {
    const { ledger, log, tenant, indexChecks = makeIndexChecks() } = this.#parts;
    return makeWatch({
      ledger,
      current: () => this.generation,
      isRoot: tenant === undefined,
      isPaused: () => this.pause.isOn,
      isOff: (plugin) => this.switches.isOff(plugin),
      vault: this.vault,
      lookAtIndexes: () => indexChecks.look({ name: tenant?.slug ?? '', ledger, log }),
      onNews: (news) => this.runs.heed(news),
      log: log.child('watch'),
    });
  }

  #makeDirectives(): Directives {
    const { ledger, log } = this.#parts;
    const directives = new Directives({
      ledger,
      processId: this.processId,
      rules: () => ({ ...this.generation.rules, tenant: this.#parts.tenant?.slug }),
      approvals: () => this.#config.directives.approval,
      within: (asked, work) => this.quota.within(asked, work),
      authorize: (directive) => authorizeAsker(directive, this.tokens, this.#life),
      tally: this.tally,
      onChange: () => {
        this.#mayClaimMore();
        this.runs.heed({ ...noNews, advancing: true });
      },
      log: log.child('directive'),
    });
    registerAllDirectives(directives, {
      ledger,
      config: () => this.#config,
      catalog: () => this.generation.catalog,
      health: this.health,
      reloader: this.inForce.reloader,
      switches: this.switches,
      tokens: this.tokens,
      vault: this.vault,
      status: () => this.#life.status(),
      onCancel: (jobId, answer) => this.#cancelled(jobId, answer),
      onQueued: () => this.#mayClaimMore(),
      onPause: () => this.pause.changed(),
      onSwitch: () => this.#refreshSwitches(),
      onSchedules: () => this.scheduler.soon(),
      onAcknowledged: () => this.watch.soon(),
      processId: this.processId,
      within: (asked, work) => this.quota.within(asked, work),
      current: () => this.generation,
      onNews: (news) => this.runs.heed(news),
      ...seamsOfTenancy(this.#parts, () => this.#config),
      compile: this.#parts.compile,
      packageRoots: () => this.inForce.packageRoots,
      onInstalled: () => this.inForce.installations.look(),
      hooks: this.runs.hooks,
      tenant: this.#parts.tenant,
      reach: this.#parts.reach,
      receive: (hookId, incoming) => this.#life.receive(hookId, incoming),
    });
    return directives;
  }

  async #retain(): Promise<void> {
    const request = { type: retentionType.type, params: {}, actor: RUNTIME_SOURCE };
    const { error } = await this.directives.direct(request);
    if (error !== null) this.#log.warn('history was not pruned', { error });
  }

  /** What was given back is ready now, here and elsewhere. */
  #reaped(settlement: Settlement, written: readonly Closing[]): void {
    this.observer.saw(written);
    this.#settled({ ...settlement, written: [] });
    this.#mayClaimMore();
  }

  #settled({ enqueued, written, news }: WrittenSettlement): void {
    this.activity.notice();
    this.runs.heed(news);
    if (enqueued.length > 0) this.#arrived(enqueued);
    if (enqueued.length > 0 || news.queued) {
      this.vitals.reaper.endForsaken().catch((error: unknown) => {
        this.#log.warn('jobs of removed plugins could not be ended', { error: messageOf(error) });
      });
    }
    for (const closing of written) {
      this.tally.emitted(closing.signals);
      logAttemptEnd(closing, this.#jobLog);
      if (closing.ending.delayMs > 0) this.waker.dueIn(closing.ending.delayMs);
    }
    this.observer.saw(written);
    if (written.some(({ job }) => job.command === 'init')) void this.health.look();
  }

  /** Work was queued by what was just written. */
  #arrived(enqueued: readonly Enqueued[]): void {
    logDuplicates(enqueued, this.#log);
    this.dispatcher.arrived();
    this.#parts.ledger.hint();
  }

  /** What waits may be claimed now, here and elsewhere, though nothing need have been written. */
  #mayClaimMore(): void {
    this.dispatcher.wake();
    this.#parts.ledger.hint();
  }

  async #look(): Promise<void> {
    await this.quota.review();
    await this.pause.look();
    await this.#refreshSwitches();
    await this.inForce.installations.look();
    await this.health.look();
    await this.directives.waiting.beginDue();
  }

  /** When this resolves, nothing of a plugin that is off is started here any more. */
  async #refreshSwitches(): Promise<void> {
    await this.switches.refresh();
    if (this.switches.off.length === 0) return;
    await this.dispatcher.withhold((plugin) => this.switches.isOff(plugin));
  }

  /** Another host that runs it learns of it with its next heartbeat. */
  #cancelled(jobId: string, answer: CancelAnswer): void {
    if (answer === 'requested') this.dispatcher.stopJob(jobId, 'cancelled');
  }
}
