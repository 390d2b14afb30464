import type { LedgerRules } from '../ledger/rules.ts';
import { makeSealingMask } from '../signal/seal.service.ts';
import { makeGrantAccess } from '../access/attempt-tokens.service.ts';
import { makeCredentials } from '../access/credentials.service.ts';
import { isToken } from '../access/principal.service.ts';
import { makeTokenStore } from '../access/tokens.service.ts';
import { purposes } from '../access/vault.service.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { Directives } from '../directive/request.service.ts';
import { makeObservations } from '../insight/observations.service.ts';
import { makeObserver } from '../insight/observer.service.ts';
import { makeTally } from '../insight/job-counts.service.ts';
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
import { makeAsksOf } from '../package/handlers.service.ts';
import { makeInstallationKeeper } from '../package/installations.service.ts';
import { makeFollowHalt } from '../pipeline/follow-signal.ts';
import { makeAdvancer } from '../pipeline/run/advancer.service.ts';
import { makeRunDoor } from '../pipeline/run/start.service.ts';
import { makeScheduler } from '../schedule/scheduler.service.ts';
import { makeActivity } from '../signal/activity.service.ts';
import { makeSignalEmitter } from '../signal/emit.service.ts';
import { makeHookDoor } from '../webhook/accept.service.ts';
import type { Waiter } from '../webhook/await-result.service.ts';
import { observeWebhooks } from '../webhook/metrics.service.ts';
import { makeWebhooks } from '../webhook/receive.service.ts';
import type { LedgerContext } from './context.ts';
import { registerAllDirectives } from './directives.ts';
import type { Engine } from './engine.ts';
import type { LedgerSetup, ProcessContext } from './process-context.ts';
import { makeReloader } from './reload.ts';

export type LedgerServices = ReturnType<typeof createServices>;

/** Creates the services of one ledger. Each phase uses only what the phases before it created. */
export function createServices(
  context: LedgerContext,
  process: ProcessContext,
  setup: LedgerSetup,
  engine: Engine & Waiter,
) {
  const { ledger } = context;
  const { meters, tracer } = process;
  const { runner, tenants, isolation, source } = setup;
  giveRules(context);

  // 1. State and counters.
  const activity = makeActivity();
  const tally = makeTally(context.tenant?.slug);
  const observations = makeObservations(context);
  const completion = makeCompletion(ledger);
  const switches = makePluginSwitches(ledger);
  const initHealth = new InitHealth(context);
  const lease = new SpawnLease(ledger.kind);
  const credentials = makeCredentials(context);
  const tokens = makeTokenStore(context);

  // 2. Intake of jobs, runs, signals and deliveries.
  const enqueuer = makeEnqueuer(context);
  const runs = makeRunDoor(context);
  const signals = makeSignalEmitter(context);
  const hooks = makeHookDoor(context);
  const webhooks = observeWebhooks(makeWebhooks(context, hooks, engine, tenants), process);

  // 3. Execution of attempts and runs.
  const access = makeGrantAccess(context, process.runTokens);
  const mask = makeSealingMask(context.vault, context.log.child('executor'));
  const execute = makeExecutor(context, runner, credentials, access, mask);
  const claimRules = {
    plugins: (generation: LedgerContext['generation']) =>
      initHealth.limit(generation).filter(({ name }) => !switches.isOff(name)),
    mayStart: () => lease.isValid,
  };
  const settler = makeSettler(context);
  const dispatcher = new Dispatcher(context, settler, process.slotPool, claimRules, execute);
  const advancer = makeAdvancer(context);

  // 4. Pauses, health, heartbeats and schedules, which decide when work is done.
  const pause = new Pause(context, dispatcher, tenants);
  const health = makePluginInits(context, initHealth, dispatcher);
  const liveness = makeLiveness(
    context,
    { ...process, host: setup.host },
    lease,
    dispatcher,
    tenants,
  );
  const scheduler = makeScheduler(context, (plugin) => {
    const held = context.quota.held();
    if (held !== undefined) return held;
    if (switches.isOff(plugin)) return 'plugin_disabled';
    return initHealth.isWell(plugin) ? undefined : 'plugin_unhealthy';
  });

  // 5. Reloads and directives, which change the system.
  const installations = makeInstallationKeeper(context, source.compile);
  const { reaper } = liveness;
  const reloading = { installations, health, hooks, runner, reaper, tenants, isolation, source };
  const reloader = makeReloader(context, reloading);
  const renewInstallations = (): Promise<void> => installations.look(() => reloader.renew());
  const directives = new Directives(context, async (directive) => {
    // Only tokens can lose rights; all others speak for the operator or an installation.
    if (!isToken(directive.actor)) return;
    const principal = await tokens.holderOf(directive.actor);
    if (principal === undefined) {
      const message = `${directive.actor}, who asked for ${directive.type}, is gone`;
      throw new DuctileError('FORBIDDEN', message);
    }
    await process.authorize(engine, principal, directive);
  });
  /** The directories of packages; the first of two equal packages counts. */
  const packageRoots = (): readonly string[] => {
    const configured = context.config.packageRoots.map(({ path }) => path);
    return [...configured, ...[process.shippedPackages ?? []].flat()];
  };
  registerAllDirectives(directives, context, {
    dispatcher,
    pause,
    switches,
    tokens,
    health,
    reloader,
    hooks,
    webhooks,
    tenants,
    isolation,
    packages: { context, hooks, compile: source.compile, packageRoots, renew: renewInstallations },
  });

  // 6. Periodic services.
  const pruner = makePruner(context, directives);
  const watch = makeIncidentWatcher(context, pause, switches, process.indexChecks);
  const observer = makeObserver(context, meters, tracer, watch);
  const waker = makeWaker(context, async () => {
    await context.quota.review();
    await pause.look();
    await enforceSwitches(switches, dispatcher);
    await renewInstallations();
    await health.look();
    await directives.waiting.beginDue();
  });

  return {
    activity,
    advancer,
    credentials,
    directives,
    dispatcher,
    enqueuer,
    health,
    hooks,
    installations,
    meters,
    observations,
    observer,
    packageRoots,
    pause,
    pruner,
    reloader,
    runs,
    scheduler,
    signals,
    switches,
    tally,
    tenants,
    tokens,
    tracer,
    liveness,
    completion,
    waker,
    watch,
    webhooks,
  };
}

/** Gives the ledger the rules that it applies inside its transactions. */
function giveRules(context: LedgerContext): void {
  const { ledger, vault, commits, log } = context;
  const follow = makeFollowHalt(() => context.generation.rules);
  const rules: LedgerRules = {
    followHalt: follow,
    followQuestion: follow,
    openSignal: (id, sealed) => vault.open(sealed, purposes.payload(id)),
    asksOf: makeAsksOf(() => context.config, log.child('handlers')),
    onAsked: (requested) => commits.publish({ requested }),
  };
  ledger.provideRules(rules);
}

/** Hands the events of each commit to the services that act on them. */
export function subscribeServices(context: LedgerContext, services: LedgerServices): void {
  const { commits, ledger, log } = context;
  const { dispatcher, advancer, waker, scheduler, liveness, health, watch } = services;
  const engineLog = log.child('engine');

  commits.subscribe(({ enqueued = [], dropped = [], failures = [] }) => {
    logDuplicates(enqueued, engineLog);
    logDuplicateRuns(dropped, log);
    for (const { branchId, error } of failures) {
      const fields = { branch_id: branchId, error };
      log.error('a branch could not be moved on where its job was settled', fields);
    }
  });

  // This process and other hosts look for work.
  commits.subscribe(({ arriving, claimable, adopted, promoted, cancelling = [], ...events }) => {
    if (promoted === true) services.tenants?.soon();
    if (promoted === true) dispatcher.wakeSurely();
    if (arriving === true || claimable === true || adopted === true) dispatcher.wake();
    const isQueued = events.queued === true || (events.enqueued ?? []).length > 0;
    if (isQueued) dispatcher.arrived();
    if (isQueued || claimable === true) ledger.hint();
    for (const jobId of cancelling) dispatcher.stopJob(jobId, 'cancelled');
    // A job that ran during a reload can queue jobs for plugins that the reload removed.
    if (isQueued && events.endedJobs !== undefined) {
      liveness.reaper.endForsaken().catch((error: unknown) => {
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
    if (endedJobs.some(({ job }) => job.command === 'init')) void health.look();
  });

  // Counters, traces and readers that wait for something new.
  commits.subscribe(({ endedJobs, ended, signals, settleMs, suppressed, ...events }) => {
    if (endedJobs !== undefined || signals !== undefined) services.activity.notice();
    if (settleMs !== undefined) services.meters.observeCommit(settleMs);
    if (ended !== undefined) services.observer.ended(ended);
    if (endedJobs !== undefined) services.observer.saw(endedJobs);
    if (signals !== undefined) services.tally.emitted(signals);
    if (suppressed !== undefined) services.observations.noteSuppressed(suppressed);
    for (const { draft } of events.requested ?? []) services.tally.directive(draft, 'requested');
    for (const { directive, moment } of events.moments ?? []) {
      services.tally.directive(directive, moment);
    }
    if (events.acknowledged === true) watch.soon();
  });
}
