import { limits } from './limits.ts';
import { setImmediate as turn } from 'node:timers/promises';
import { createContext, Script } from 'node:vm';

/** A timer that goes off at the earliest of the times that it is set to. */
export interface EarliestTimer {
  in(ms: number): void;
  /** It does not go off any more, whatever it is set to; resolves when what it began is over. */
  stop(): Promise<void>;
}

/**
 * What it begins is done one at a time: an alarm that goes off meanwhile counts when that is over.
 * Else those that come faster than they are done would pile up, and wait for each other.
 */
export function makeEarliestTimer(ring: () => Promise<void> | void): EarliestTimer {
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

/** Asked for between small pieces of long work: something to wait for when others are to have a turn. */
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

/** Runs it to its end or stops it, even inside a regular expression; then it throws. */
export function runWithinMs<T>(ms: number, work: () => T): T {
  if (runner === undefined) {
    const context = createContext(slot);
    const script = new Script('work()');
    runner = (options) => script.runInContext(context, options) as unknown;
  }
  slot.work = work;
  return runner({ timeout: ms }) as T;
}

/** Whether the work is over within this time; it goes on either way. */
export async function settlesWithin(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const result = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return result;
}
