import { limits } from '../base/limits.ts';
import { nextSlot, quietEnd, type Timed } from './plan.ts';

/**
 * Tells whether quiet hours skip every time of a cron line: all times of the next days, and at least a
 * few, because a line may come once a month. Other schedules move out of quiet hours sooner or later.
 */
export function isAlwaysQuiet(timed: Timed, fromMs: number): boolean {
  const { timing, quietAction } = timed.schedule;
  if (timing.mode !== 'cron' || quietAction !== 'skip') return false;
  const { daysMs, timesMin, timesMax } = limits.quietLook;
  let afterMs = fromMs;
  for (let seq = 0; seq < timesMax; seq += 1) {
    const slot = nextSlot(timed, seq, afterMs);
    if (slot === undefined) return seq > 0;
    if (quietEnd(timed, slot.dueMs) === undefined) return false;
    if (seq >= timesMin && slot.dueMs > fromMs + daysMs) return true;
    afterMs = slot.slotMs;
  }
  return true;
}
