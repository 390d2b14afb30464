import { limits } from './limits.ts';

/** A timer that goes off at the earliest of the times that it is set to. */
export interface Alarm {
  in(ms: number): void;
  /** It does not go off any more, whatever it is set to. */
  stop(): void;
}

export function makeAlarm(ring: () => void): Alarm {
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Infinity;
  let isStopped = false;
  return {
    in(ms) {
      const waitMs = Math.min(Math.max(1, ms), limits.timerMsMax);
      const at = performance.now() + waitMs;
      if (isStopped || at >= dueAt) return;
      clearTimeout(timer);
      dueAt = at;
      timer = setTimeout(() => {
        dueAt = Infinity;
        ring();
      }, waitMs);
      timer.unref();
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
