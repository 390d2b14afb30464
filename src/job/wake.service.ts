import { makeEarliestTimer } from '../base/timer.ts';
import { makeFailureLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import type { LedgerContext } from '../engine/context.ts';

export interface Waker extends Service {
  /** A job will be due in this time; look then, if that is sooner than the next look. */
  dueIn(ms: number): void;
}

/**
 * Looks for work at an interval and whenever a delayed job is due. Hints from other hosts and from
 * this process's own commits only make it sooner; looking is the truth.
 */
export function makeWaker(context: LedgerContext, review: () => Promise<void>): Waker {
  const { ledger, commits } = context;
  const log = context.log.child('waker');
  let isStarted = false;
  const alarm = makeEarliestTimer(() => look());
  const complaint = makeFailureLog((fields) => log.warn('looking for work failed', fields));

  const wake = (): void => commits.publish({ promoted: true });
  const look = async (): Promise<void> => {
    let nextInMs = context.config.service.pollIntervalMs;
    try {
      await review();
      const promotion = await ledger.jobs.promote();
      nextInMs = Math.min(nextInMs, promotion.nextInMs ?? nextInMs);
      complaint.reset();
      wake();
    } catch (error) {
      complaint.report(error);
    }
    alarm.in(nextInMs);
  };

  return {
    name: 'waker',
    async start() {
      isStarted = true;
      ledger.onHint(wake);
      await look();
    },
    stop: () => alarm.stop(),
    dueIn: (ms) => {
      if (isStarted) alarm.in(ms);
    },
  };
}
