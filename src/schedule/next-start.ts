import { addEvery, countEvery } from './every.ts';
import { deferred, nextSlot, quietEnd, type Slot, type Timed } from './plan.ts';

/** As many times are looked at; those of a minute reach over a day. */
const SLOTS_MAX = 2000;

/**
 * Finds the first time from a moment on at which a schedule really starts a job. Due times before it
 * are skipped, as an open breaker skips them, and so are quiet hours. Undefined when none is near.
 */
export function findNextStart(
  timed: Timed,
  state: Slot & { readonly seq: number },
  notBeforeMs: number,
): number | undefined {
  const isClock = timed.schedule.timing.mode === 'cron';
  let { seq } = state;
  let slot: Slot | undefined = skipUntil(timed, state, notBeforeMs);
  for (let round = 0; slot !== undefined && round < SLOTS_MAX; round += 1) {
    const { slotMs, dueMs } = deferred(timed, seq, slot);
    if (dueMs >= notBeforeMs && quietEnd(timed, dueMs) === undefined) return dueMs;
    seq += 1;
    slot = nextSlot(timed, seq, isClock ? slotMs : dueMs);
  }
  return undefined;
}

/** Steps over many due times at once: a breaker may be open for thousands of them. */
function skipUntil(
  timed: Timed,
  state: Slot & { readonly seq: number },
  notBeforeMs: number,
): Slot | undefined {
  const { timing } = timed.schedule;
  if (state.dueMs >= notBeforeMs) return state;
  if (timing.mode === 'cron') return nextSlot(timed, state.seq + 1, notBeforeMs - 1);
  // A time that comes only once is tried again until it is allowed.
  if (timing.mode !== 'every') return { slotMs: state.slotMs, dueMs: notBeforeMs };
  const times = countEvery(timing.every, state.dueMs, notBeforeMs - 1, timed.zone);
  const before = addEvery(timing.every, state.dueMs, times - 1, timed.zone);
  return nextSlot(timed, state.seq + times, before);
}
