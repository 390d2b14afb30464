import { makeFailureLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { makeEarliestTimer } from '../base/timer.ts';
import type { LedgerContext } from '../engine/context.ts';

/** A service of its own, because it wakes more than the dispatcher: runs, tenants and directives, too. */
export interface Waker extends Service {
  /** Checks for work in this time, if that is before the next check. */
  dueIn(ms: number): void;
}

/**
 * Checks for work at an interval, and when a delayed job is due. Hints from other hosts and from
 * the commits of this process only make the next check sooner: no work depends on them.
 */
export function makeWaker(context: LedgerContext, review: () => Promise<void>): Waker {
  const { ledger, commits } = context;
  const log = context.log.child('waker');
  let isStarted = false;
  const timer = makeEarliestTimer(() => checkForWork());
  const failureLog = makeFailureLog((fields) => log.warn('checking for work failed', fields));

  const wake = (): void => commits.publish({ promoted: true });
  const checkForWork = async (): Promise<void> => {
    let nextInMs = context.config.service.pollIntervalMs;
    try {
      await review();
      const promotion = await ledger.jobs.promote();
      nextInMs = Math.min(nextInMs, promotion.nextInMs ?? nextInMs);
      failureLog.reset();
      wake();
    } catch (error) {
      failureLog.report(error);
    }
    timer.in(nextInMs);
  };

  return {
    name: 'waker',
    async start() {
      isStarted = true;
      ledger.onHint(wake);
      await checkForWork();
    },
    stop: () => timer.stop(),
    dueIn: (ms) => {
      if (isStarted) timer.in(ms);
    },
  };
}
