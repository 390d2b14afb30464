import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { settlesWithin } from '../base/timer.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Host } from '../plugin/process.ts';
import type { Dispatcher } from '../job/dispatcher.service.ts';

/** The time for the last writes at shutdown, if the database doesn't answer. */
export const LAST_WRITES_MS = 10_000;

/** Runs the steps one after another. No step starts after a stop was requested. */
export async function startInSteps(
  steps: readonly (() => Promise<unknown> | void)[],
  isStopping: () => boolean,
): Promise<void> {
  for (const step of steps) {
    await step();
    if (isStopping()) throw new DuctileError('STOPPING', 'the engine was stopped while it started');
  }
}

/**
 * Ends a start that may wait for a spawner that must not come any more; waits for its pending
 * writes.
 */
export async function endStart(starting: Promise<void>, host: Pick<Host, 'stop'>): Promise<void> {
  await host.stop();
  const ended = starting.catch(() => undefined);
  await settlesWithin(ended, LAST_WRITES_MS);
}

/** Lets running attempts end by themselves for this long, then stops and releases the others. */
export async function drain(
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
export async function leaveLedger(
  ledger: LedgerSubset<'processes.leave'>,
  processId: string,
  log: Log,
): Promise<void> {
  await ledger.processes.leave(processId).catch((error: unknown) => {
    log.warn('could not remove this process from the ledger', { error: messageOf(error) });
  });
}
