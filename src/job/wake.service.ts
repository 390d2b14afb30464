import { makeEarliestTimer } from '../base/timer.ts';
import { makeFailureLog, type Log } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import type { Ledger } from '../ledger/ledger.ts';

export interface Waker extends Service {
  /** A job will be due in this time; look then, if that is sooner than the next look. */
  dueIn(ms: number): void;
}

export interface WakerOptions {
  readonly ledger: Ledger;
  readonly pollMs: () => number;
  /** There may be work, and the ledger answers. */
  readonly onWork: () => void;
  /** What else is to be looked at, first. */
  readonly onLook: () => Promise<void>;
  readonly log: Log;
}

/**
 * Looks for work at an interval and whenever a delayed job is due. Hints from other hosts and from
 * this process's own commits only make it sooner; looking is the truth.
 */
export function makeWaker({ ledger, pollMs, onWork, onLook, log }: WakerOptions): Waker {
  let isStarted = false;
  const alarm = makeEarliestTimer(() => look());
  const complaint = makeFailureLog((fields) => log.warn('looking for work failed', fields));

  const look = async (): Promise<void> => {
    let nextInMs = pollMs();
    try {
      await onLook();
      const promotion = await ledger.jobs.promote();
      nextInMs = Math.min(nextInMs, promotion.nextInMs ?? nextInMs);
      complaint.reset();
      onWork();
    } catch (error) {
      complaint.report(error);
    }
    alarm.in(nextInMs);
  };

  return {
    name: 'waker',
    async start() {
      isStarted = true;
      ledger.onHint(onWork);
      await look();
    },
    stop: () => alarm.stop(),
    dueIn: (ms) => {
      if (isStarted) alarm.in(ms);
    },
  };
}
