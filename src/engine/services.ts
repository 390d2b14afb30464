import type { Directive } from '../directive/directive.ts';
import type { LedgerRules } from '../ledger/rules.ts';
import { makeSealingMask } from '../signal/mask.ts';
import { makeGrantAccess, makeCredentials } from '../access/credentials.service.ts';
import { isToken, makeTokenStore, type TokenStore } from '../access/tokens.service.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { purposes } from '../base/seal.ts';
import { Directives } from '../directive/request.service.ts';
import { makeObservations } from '../insight/observations.service.ts';
import { makeObserver, observeWebhooks } from '../insight/observer.service.ts';
import { makeProcessCounter } from '../insight/metrics.service.ts';
import { makeIncidentWatcher } from '../insight/incident-watcher.service.ts';
import { makeCompletion } from '../job/completion.service.ts';
import { Dispatcher } from '../job/dispatcher.service.ts';
import { makeEnqueuer } from '../job/enqueue.service.ts';
import { makeExecutor } from '../job/executor.service.ts';
import { makeLiveness, SpawnLease } from '../job/heartbeat.service.ts';
import { enforceSwitches, makePluginSwitches, Pause } from '../job/pause.service.ts';
import { InitHealth, makePluginInits } from '../job/plugin-init.service.ts';
import { makePruner } from '../job/prune.service.ts';
import { logDuplicateRuns, logDuplicates, makeSettler } from '../job/settle.service.ts';
import { makeWaker } from '../job/wake.service.ts';
import {
  checkHandlers,
  findHandlerTypes,
  makeSignalDirectiveRule,
  type HandlerTypes,
} from '../package/handlers.service.ts';
import { makeActiveInstallations } from '../package/installations.service.ts';
import { makeFollowHalt } from '../pipeline/follow-signal.ts';
import { makeAdvancer } from '../pipeline/run/advancer.service.ts';
import { makeRunStarter } from '../pipeline/run/start.service.ts';
import { makeScheduler } from '../schedule/scheduler.service.ts';
import { configInvalid } from '../config/problem.ts';
import { makeActivity } from '../signal/event-feed.service.ts';
import { makeSignalEmitter } from '../signal/emit.service.ts';
import { makeWebhookIntake } from '../webhook/accept.service.ts';
import { makeWebhooks, type ResultWaiter } from '../webhook/receive.service.ts';
import type { Config } from '../config/config.ts';
import type { LedgerContext } from './context.ts';
import type { Blueprint } from './generation.ts';
import { createDirectiveContext, listLedgerDirectives } from './directive-context.ts';
import type { Engine } from './engine.ts';
import type { LedgerSetup, ProcessContext } from './process-context.ts';
import { makeReloader } from './reload.ts';

export type LedgerServices = ReturnType<typeof createServices>;

/** The objects from which the services of a ledger are created. */
interface CreationContext {
  readonly context: LedgerContext;
  readonly process: ProcessContext;
  readonly setup: LedgerSetup;
  readonly engine: Engine & ResultWaiter;
}

/** Creates the services of one ledger. Each phase uses only what the phases before it created. */
export function createServices(
  context: LedgerContext,
  process: ProcessContext,
  setup: LedgerSetup,
  engine: Engine & ResultWaiter,
) {
  const handlerTypes = findHandlerTypes(process.directives);
  provideRules(context, handlerTypes);
  const base = { context, process, setup, engine };
  const state = createState(context);
  const intake = createIntake(base);
  const execution = createExecution(base, state);
  const timing = createTiming(base, { ...state, ...execution });
  const change = createChange(base, handlerTypes, {
    ...state,
    ...intake,
    ...execution,
    ...timing,
  });
  const upkeep = createUpkeep(base, { ...state, ...execution, ...timing, ...change });
  const { metrics, tracer } = process;
  const { tenants } = setup;
  const shared = { metrics, tracer, tenants };
  return { ...state, ...intake, ...execution, ...timing, ...change, ...upkeep, ...shared };
}

/** Phase 1: state and counters. */
function createState(context: LedgerContext) {
  const { ledger } = context;
  return {
    activity: makeActivity(),
    counter: makeProcessCounter(context.tenant?.slug),
    observations: makeObservations(context),
    completion: makeCompletion(ledger),
    switches: makePluginSwitches(ledger),
    initHealth: new InitHealth(context),
    lease: new SpawnLease(ledger.kind),
    credentials: makeCredentials(context),
    tokens: makeTokenStore(context),
  };
}

type StateServices = ReturnType<typeof createState>;

/** Phase 2: the intake of jobs, runs, signals and deliveries. */
function createIntake({ context, process, setup, engine }: CreationContext) {
  const webhookIntake = makeWebhookIntake(context);
  return {
    enqueuer: makeEnqueuer(context),
    runs: makeRunStarter(context),
    signals: makeSignalEmitter(context),
    webhookIntake,
    webhooks: observeWebhooks(makeWebhooks(context, webhookIntake, engine, setup.tenants), process),
  };
}

type IntakeServices = ReturnType<typeof createIntake>;

/** Phase 3: the execution of attempts and runs. */
function createExecution({ context, process, setup }: CreationContext, state: StateServices) {
  const { initHealth, switches, lease, credentials } = state;
  const access = makeGrantAccess(context, process.runTokens);
  const mask = makeSealingMask(context.vault, context.log.child('executor'));
  const execute = makeExecutor(context, setup.runner, credentials, access, mask);
  const claimRules = {
    plugins: (generation: LedgerContext['generation']) =>
      initHealth.listClaimable(generation).filter(({ name }) => !switches.isDisabled(name)),
    mayStart: () => lease.isValid,
  };
  const settler = makeSettler(context);
  return {
    dispatcher: new Dispatcher(context, settler, process.slotPool, claimRules, execute),
    advancer: makeAdvancer(context),
  };
}

type ExecutionServices = ReturnType<typeof createExecution>;

/** Phase 4: pauses, health, heartbeats and schedules, which decide when work is done. */
function createTiming(
  { context, process, setup }: CreationContext,
  services: StateServices & ExecutionServices,
) {
  const { initHealth, switches, lease, dispatcher } = services;
  const { host, tenants } = setup;
  return {
    pause: new Pause(context, dispatcher, tenants),
    pluginInits: makePluginInits(context, initHealth, dispatcher),
    liveness: makeLiveness(context, { ...process, host }, lease, dispatcher, tenants),
    scheduler: makeScheduler(context, (plugin) => {
      const skipReason = context.quota.skipReason();
      if (skipReason !== undefined) return skipReason;
      if (switches.isDisabled(plugin)) return 'plugin_disabled';
      return initHealth.isReady(plugin) ? undefined : 'plugin_unhealthy';
    }),
  };
}

type TimingServices = ReturnType<typeof createTiming>;

/** Phase 5: reloads and directives, which change the system. */
function createChange(
  base: CreationContext,
  handlerTypes: HandlerTypes,
  services: StateServices & IntakeServices & ExecutionServices & TimingServices,
) {
  const { context, process, setup } = base;
  const { source, tenants, isolation } = setup;
  const { webhookIntake, liveness, tokens } = services;
  const compile = (config: Config): Blueprint => {
    const problems = checkHandlers(config.handlers, handlerTypes);
    if (problems.length > 0) throw configInvalid(problems);
    return source.compile(config);
  };
  const installations = makeActiveInstallations(context, compile);
  const { reaper } = liveness;
  const reloader = makeReloader(context, {
    ...setup,
    ...services,
    installations,
    reaper,
    tenants,
    isolation,
  });
  const renewInstallations = (): Promise<void> =>
    installations.renewIfChanged(() => reloader.renew());
  /** Lists the directories of packages; the first of two equal packages counts. */
  const packageRoots = (): readonly string[] => {
    const configured = context.config.packageRoots.map(({ path }) => path);
    return [...configured, ...[process.shippedPackages ?? []].flat()];
  };
  const packages = { context, webhookIntake, compile, packageRoots, renew: renewInstallations };
  const changeable = { ...services, reloader, packages, tenants, isolation };
  const directives = new Directives(
    createDirectiveContext(context, changeable),
    listLedgerDirectives(process.directives, context),
    (directive) => authorizeAgain(directive, tokens, base),
  );
  return { installations, reloader, renewInstallations, packageRoots, directives };
}

type ChangeServices = ReturnType<typeof createChange>;

/** Phase 6: periodic services. */
function createUpkeep(
  { context, process }: CreationContext,
  services: StateServices & ExecutionServices & TimingServices & ChangeServices,
) {
  const { switches, dispatcher, pause, pluginInits, directives, renewInstallations } = services;
  const incidentWatcher = makeIncidentWatcher(context, pause, switches, process.indexChecks);
  return {
    incidentWatcher,
    pruner: makePruner(context, directives),
    observer: makeObserver(context, process.metrics, process.tracer, incidentWatcher),
    waker: makeWaker(context, async () => {
      await context.quota.review();
      await pause.refresh();
      await enforceSwitches(switches, dispatcher);
      await renewInstallations();
      await pluginInits.refresh();
      await directives.waiting.startDue();
    }),
  };
}

/** Throws if the requester of a directive has lost the right to it while the directive waited. */
async function authorizeAgain(
  directive: Directive,
  tokens: Pick<TokenStore, 'findByActor'>,
  { process, engine }: CreationContext,
): Promise<void> {
  // Only tokens can lose rights; other actors are the operator or an installation.
  if (!isToken(directive.actor)) return;
  const principal = await tokens.findByActor(directive.actor);
  if (principal === undefined) {
    const message = `${directive.actor}, who requested ${directive.type}, no longer exists`;
    throw new DuctileError('FORBIDDEN', message);
  }
  await process.authorize(engine, principal, directive);
}

/** Provides the rules that the ledger applies inside its transactions. */
function provideRules(context: LedgerContext, handlerTypes: HandlerTypes): void {
  const { ledger, vault, commits, log } = context;
  const follow = makeFollowHalt(() => context.generation.rules);
  const rules: LedgerRules = {
    followHalt: follow,
    followApproval: follow,
    openSignal: (id, sealed) => vault.open(sealed, purposes.payload(id)),
    listSignalDirectives: makeSignalDirectiveRule(
      () => context.config,
      handlerTypes,
      log.child('handlers'),
    ),
    onSignalDirectives: (requested) => commits.publish({ requested }),
  };
  ledger.provideRules(rules);
}

/** Hands the events of each commit to the services that act on them. */
export function subscribeServices(context: LedgerContext, services: LedgerServices): void {
  const { commits, ledger, log } = context;
  const { dispatcher, advancer, waker, scheduler, liveness, pluginInits, incidentWatcher } =
    services;
  const engineLog = log.child('engine');

  commits.subscribe(({ enqueued = [], dropped = [], failures = [] }) => {
    logDuplicates(enqueued, engineLog);
    logDuplicateRuns(dropped, log);
    for (const { branchId, error } of failures) {
      const fields = { branch_id: branchId, error };
      log.error('a branch could not be advanced after its job ended', fields);
    }
  });

  // The dispatcher and other hosts look for work.
  commits.subscribe(({ arriving, claimable, adopted, promoted, cancelling = [], ...events }) => {
    if (promoted === true) services.tenants?.soon();
    if (promoted === true) dispatcher.retryNow();
    if (arriving === true || claimable === true || adopted === true) dispatcher.wake();
    const isQueued = events.queued === true || (events.enqueued ?? []).length > 0;
    if (isQueued) dispatcher.notifyWork();
    if (isQueued || claimable === true) ledger.hint();
    for (const jobId of cancelling) dispatcher.stopJob(jobId, 'cancelled');
    // A job that ran during a reload can queue jobs for plugins that the reload removed.
    if (isQueued && events.endedJobs !== undefined) {
      liveness.reaper.endLateJobs().catch((error: unknown) => {
        const fields = { error: messageOf(error) };
        engineLog.warn('jobs of removed plugins could not be ended', fields);
      });
    }
  });
  commits.subscribe(({ advancing, dueInMs, promoted }) => {
    if (advancing === true || promoted === true) advancer.soon();
    if (dueInMs !== undefined) advancer.dueIn(dueInMs);
  });
  commits.subscribe(({ jobDueInMs, requested, adopted }) => {
    if (jobDueInMs !== undefined) waker.dueIn(jobDueInMs);
    if (requested !== undefined || adopted === true) waker.dueIn(0);
  });
  commits.subscribe(({ schedules, adopted }) => {
    if (schedules === true || adopted === true) scheduler.soon();
  });
  commits.subscribe(({ endedJobs = [], adopted }) => {
    const isFenced = endedJobs.some(({ report }) => report.cause === 'fenced');
    if (isFenced || adopted === true) liveness.heartbeat.soon();
    if (endedJobs.some(({ job }) => job.command === 'init')) void pluginInits.refresh();
  });

  // Counters, traces and readers that wait for something new.
  commits.subscribe(({ endedJobs, ended, signals, settleMs, suppressed, ...events }) => {
    if (endedJobs !== undefined || signals !== undefined) services.activity.notice();
    if (settleMs !== undefined) services.metrics.observeCommit(settleMs);
    if (ended !== undefined) services.observer.observeRuns(ended);
    if (endedJobs !== undefined) services.observer.observeAttempts(endedJobs);
    if (signals !== undefined) services.counter.countSignals(signals);
    if (suppressed !== undefined) services.observations.countSuppressed(suppressed);
    for (const { draft } of events.requested ?? [])
      services.counter.countDirective(draft, 'requested');
    for (const { directive, moment } of events.moments ?? []) {
      services.counter.countDirective(directive, moment);
    }
    if (events.acknowledged === true) incidentWatcher.soon();
  });
}
