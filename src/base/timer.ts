import { limits } from './limits.ts';
import { setImmediate as turn } from 'node:timers/promises';
import { createContext, Script } from 'node:vm';

/** A timer that fires at the earliest of the times that it was set to. */
interface EarliestTimer {
  in(ms: number): void;
  /** Stops the timer for good. Resolves when the callback in progress is done. */
  stop(): Promise<void>;
}

/**
 * Makes a timer that runs one callback at a time. If it fires during a callback, the next one starts
 * after it. Otherwise callbacks would pile up when the timer fires faster than they finish.
 */
export function makeEarliestTimer(onFire: () => Promise<void> | void): EarliestTimer {
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Infinity;
  let isStopped = false;
  let hasFiredMeanwhile = false;
  let round: Promise<void> | undefined;

  const fire = (): void => {
    hasFiredMeanwhile = round !== undefined;
    if (hasFiredMeanwhile || isStopped) return;
    round = Promise.resolve(onFire()).finally(() => {
      round = undefined;
      if (hasFiredMeanwhile) fire();
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
        fire();
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

/** Called between small pieces of long work. Returns a promise to await when other work should get its turn. */
export type Yield = () => Promise<void> | undefined;

export function makeYield(): Yield {
  let since = performance.now();
  return () => {
    if (performance.now() - since < limits.sliceMs) return undefined;
    return turn().then(() => void (since = performance.now()));
  };
}

const slot: { work: () => unknown } = { work: () => undefined };
let runner: ((options: { timeout: number }) => unknown) | undefined;

/**
 * Runs work, and throws if it takes longer, even inside a regular expression. It costs a quarter of a
 * millisecond, so callers use it only for work that may never end.
 */
export function runWithinMs<T>(ms: number, work: () => T): T {
  if (runner === undefined) {
    const context = createContext(slot);
    const script = new Script('work()');
    runner = (options) => script.runInContext(context, options) as unknown;
  }
  slot.work = work;
  return runner({ timeout: ms }) as T;
}

/** Resolves to whether the work settles within this time. It continues in either case. */
export async function settlesWithin(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const result = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return result;
}
