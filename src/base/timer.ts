import { limits } from './limits.ts';

/** A timer that goes off at the earliest of the times that it is set to. */
export interface Alarm {
  in(ms: number): void;
  /** It does not go off any more, whatever it is set to; resolves when what it began is over. */
  stop(): Promise<void>;
}

/**
 * What it begins is done one at a time: an alarm that goes off meanwhile counts when that is over.
 * Else those that come faster than they are done would pile up, and wait for each other.
 */
export function makeAlarm(ring: () => Promise<void> | void): Alarm {
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Infinity;
  let isStopped = false;
  let isOwed = false;
  let round: Promise<void> | undefined;

  const goOff = (): void => {
    isOwed = round !== undefined;
    if (isOwed || isStopped) return;
    round = Promise.resolve(ring()).finally(() => {
      round = undefined;
      if (isOwed) goOff();
    });
  };

  return {
    in(ms) {
      const waitMs = Math.min(Math.max(1, ms), limits.timerMsMax);
      const at = performance.now() + waitMs;
      if (isStopped || at >= dueAt) return;
      clearTimeout(timer);
      dueAt = at;
      timer = setTimeout(() => {
        dueAt = Infinity;
        goOff();
      }, waitMs);
      timer.unref();
    },
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await round;
    },
  };
}
