import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { settlesWithin } from '../base/timer.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Host } from '../plugin/process.ts';
import type { Dispatcher } from '../job/dispatcher.service.ts';

/** What the last writes get when the ledger does not answer at shutdown. */
export const LAST_WRITES_MS = 10_000;

/** One after the other; none of them begins once somebody has asked for the end. */
export async function startInSteps(
  steps: readonly (() => Promise<unknown> | void)[],
  isStopping: () => boolean,
): Promise<void> {
  for (const step of steps) {
    await step();
    if (isStopping()) throw new DuctileError('STOPPING', 'the engine was stopped while it started');
  }
}

/** It may wait for a helper that must not come now; what it has asked the ledger for is awaited. */
export async function endStart(starting: Promise<void>, host: Pick<Host, 'stop'>): Promise<void> {
  await host.stop();
  const ended = starting.catch(() => undefined);
  await settlesWithin(ended, LAST_WRITES_MS);
}

/** Lets what runs end by itself for this long; what takes longer is stopped and given back. */
export async function drain(
  dispatcher: Pick<Dispatcher, 'drained' | 'running' | 'stopAll' | 'abandon'>,
  shutdownMs: number,
  log: Log,
): Promise<void> {
  if (await settlesWithin(dispatcher.drained(), shutdownMs)) return;
  const jobs = dispatcher.running.length;
  log.warn('running attempts are cut short and given back', { jobs });
  dispatcher.stopAll('shutdown');
  const lastMs = limits.killGraceMs + limits.drainMs + LAST_WRITES_MS;
  if (!(await settlesWithin(dispatcher.drained(), lastMs))) dispatcher.abandon();
}

/** Whoever could not say that it goes is taken for dead a little later. */
export async function takeLeave(
  ledger: LedgerSubset<'processes.leave'>,
  processId: string,
  log: Log,
): Promise<void> {
  await ledger.processes.leave(processId).catch((error: unknown) => {
    log.warn('could not take leave of the ledger', { error: messageOf(error) });
  });
}
