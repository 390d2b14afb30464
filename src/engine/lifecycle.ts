import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { settlesWithin } from '../base/timer.ts';
import type { Dispatcher } from '../job/dispatcher.service.ts';
import type { LedgerContext } from './context.ts';
import type { StartMode } from './engine.ts';
import { logSchemaProblems } from './generation.ts';
import type { LedgerSetup } from './process-context.ts';
import type { LedgerServices } from './services.ts';

/** The services of one ledger, with the context and the setup that they were created from. */
export interface LedgerRuntime {
  readonly context: LedgerContext;
  readonly setup: LedgerSetup;
  readonly services: LedgerServices;
}

/** The time for the last writes at shutdown, if the database doesn't answer. */
const LAST_WRITES_MS = 10_000;

/**
 * Starts the services in order. `extend` adds installations to the first generation. No step starts
 * after a stop was requested.
 */
export async function startServices(
  { context, setup, services }: LedgerRuntime,
  mode: StartMode,
  extend: () => Promise<void>,
  isStopping: () => boolean,
): Promise<void> {
  context.state = 'starting';
  const { waker, liveness, pruner, scheduler, advancer, tokens, incidentWatcher } = services;
  const periodic = mode === 'all' ? [pruner, scheduler, incidentWatcher] : [];
  const loops = [waker, liveness.reaper, tokens, advancer, ...periodic];
  const steps: (() => Promise<unknown> | void)[] = [
    // The spawner is ready only after the spawner of an earlier engine has died, and its
    // processes with it.
    () => setup.host.start(),
    extend,
    () => setup.runner.prewarm(context.generation),
    () => liveness.heartbeat.start(),
    () => services.reloader.begin(),
    () => services.pluginInits.request(),
    () => services.installations.recordErrors(context.generation.installed),
    () => liveness.recover(),
    () => services.pause.load(),
    () => services.switches.refresh(),
    () => services.credentials.start(),
    () => incidentWatcher.restore(),
    () => startWork({ context, setup, services }),
    ...loops.map((loop) => () => loop.start()),
    () => (context.tenant === undefined ? services.tracer.start() : undefined),
    () => setup.tenants?.start(),
  ];
  for (const step of steps) {
    await step();
    if (isStopping())
      throw new DuctileError('STOPPING', 'the service was stopped while it started');
  }
}

/** Lets the dispatcher claim jobs, unless the service is paused. */
function startWork({ context, setup, services }: LedgerRuntime): void {
  context.state = 'running';
  if (!services.pause.isOn) services.dispatcher.startClaiming();
  void logSchemaProblems(context.generation, setup.log);
}

/** Stops the services in the opposite order; `starting` is the start, which may be in progress. */
export async function stopServices(
  { context, setup, services }: LedgerRuntime,
  starting: Promise<void> | undefined,
): Promise<void> {
  const isStarting = context.state === 'starting';
  context.state = 'stopping';
  const tenantsStopped = setup.tenants?.stop();
  const { dispatcher, scheduler, waker, liveness, pruner, advancer, incidentWatcher } = services;
  const log = setup.log.child('engine');
  void dispatcher.stopClaiming();
  if (isStarting && starting !== undefined) {
    // The start may wait for a spawner, which must not come any more.
    await setup.host.stop();
    await settlesWithin(
      starting.catch(() => undefined),
      LAST_WRITES_MS,
    );
  }
  for (const loop of [incidentWatcher, scheduler, waker, liveness.reaper, pruner, advancer]) {
    await loop.stop();
  }
  await drain(dispatcher, context.config.service.shutdownTimeoutMs, log);
  await settlesWithin(services.directives.stop(), LAST_WRITES_MS);
  await services.tokens.stop();
  await services.credentials.stop();
  await settlesWithin(services.observations.stop(), LAST_WRITES_MS);
  // Attempts of tenants run in the host of this engine, which lives as long as its heartbeats.
  await tenantsStopped;
  await liveness.heartbeat.stop();
  await leaveLedger(context, log);
  if (context.tenant === undefined) await services.tracer.stop();
  setup.runner.stop();
  await setup.host.stop();
  dispatcher.leavePool();
  context.state = 'stopped';
}

/** Lets running attempts end by themselves for this long, then stops and releases the others. */
async function drain(
  dispatcher: Pick<Dispatcher, 'awaitIdle' | 'running' | 'stopAll' | 'abandon'>,
  shutdownMs: number,
  log: Log,
): Promise<void> {
  if (await settlesWithin(dispatcher.awaitIdle(), shutdownMs)) return;
  const jobs = dispatcher.running.length;
  log.warn('stopping and releasing running attempts', { jobs });
  dispatcher.stopAll('shutdown');
  const lastMs = limits.killGraceMs + limits.drainMs + LAST_WRITES_MS;
  if (!(await settlesWithin(dispatcher.awaitIdle(), lastMs))) dispatcher.abandon();
}

/** Removes this process from the ledger. If that fails, others presume it dead a little later. */
async function leaveLedger({ ledger, processId }: LedgerContext, log: Log): Promise<void> {
  await ledger.processes.leave(processId).catch((error: unknown) => {
    log.warn('could not remove this process from the ledger', { error: messageOf(error) });
  });
}
