import { limits } from '../base/limits.ts';
import { nextCron } from './cron.ts';
import { addEvery, countEvery } from './every.ts';
import { digestOf, fractionOf } from '../base/hash.ts';
import { quietUntil, findObstacle, moveInto, type QuietHours, type Constraints } from './window.ts';
import type { Schedule } from './schedule.ts';
import { zoneOf, type Zone } from './zone.ts';

/** A schedule with all that its due times are computed from. */
export interface Timed {
  readonly plugin: string;
  readonly schedule: Schedule;
  readonly zone: Zone;
  /** The quiet hours of those that say nothing else. */
  readonly usualQuiet: QuietHours;
  /** Changes with whatever changes the due times; quiet hours leave out or put off what is due. */
  readonly generation: string;
}

/** What counts where an entry says nothing. */
export interface ScheduleDefaults {
  readonly timezone: string;
  readonly quietHours: QuietHours;
}

export function makeTimed(plugin: string, schedule: Schedule, usual: ScheduleDefaults): Timed {
  const zone = zoneOf(schedule.timezone ?? usual.timezone);
  const { timing, command, jitterMs, onlyBetween, notOn, preferredWindow } = schedule;
  const parts = [timing.mode, timing.text, command, zone.name, jitterMs];
  const generation = digestOf(JSON.stringify([...parts, onlyBetween, notOn, preferredWindow]));
  return { plugin, schedule, zone, usualQuiet: usual.quietHours, generation };
}

/** A time at which something is due, before and after jitter. */
export interface Slot {
  readonly slotMs: number;
  readonly dueMs: number;
}

/** The first time of a schedule that was first seen at this moment. An interval is due at once. */
export function firstSlot(timed: Timed, seq: number, seenMs: number): Slot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode === 'cron') return nextCronSlot(timed, seq, seenMs);
  if (timing.mode === 'every') return placed(timed, seq, seenMs, 0);
  return placed(timed, seq, timing.mode === 'at' ? timing.atMs : seenMs + timing.afterMs, 1);
}

/** The time after this one; for an interval, after the completion of what was last done. */
export function nextSlot(timed: Timed, seq: number, afterMs: number): Slot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode === 'cron') return nextCronSlot(timed, seq, afterMs);
  if (timing.mode !== 'every') return undefined;
  const base = addEvery(timing.every, afterMs, 1, timed.zone);
  const slot = placed(timed, seq, base, 1, 'around');
  return slot === undefined ? undefined : { ...slot, dueMs: Math.max(slot.dueMs, afterMs) };
}

/** What is known of a schedule that has come due. */
export interface DueState extends Slot {
  readonly seq: number;
  /** When the job that it last caused was completed; undefined when it is open or was never. */
  readonly completedMs: number | undefined;
}

/**
 * `wait`: it is not due yet after all. `fire`: the times to make a job for, oldest first, and when it
 * is due again. `skip`: there are none, because they were missed and are not made up for, or quiet.
 */
export type Plan =
  | { readonly kind: 'wait'; readonly next: Slot; readonly reason?: 'quiet_hours' }
  | {
      readonly kind: 'fire';
      readonly slots: readonly number[];
      readonly next: Slot | undefined;
      /** Missed times of the clock, which are to be made up for also when a job is open now. */
      readonly isMissed?: boolean;
    }
  | {
      readonly kind: 'skip';
      readonly reason: 'missed' | 'quiet_hours';
      readonly next: Slot | undefined;
    };

/** What is to be done about a schedule whose due time has come. */
export function planDue(timed: Timed, state: DueState, nowMs: number, graceMs: number): Plan {
  const { timing, catchUp } = timed.schedule;
  const { seq } = state;
  const counted = timing.mode === 'every' ? countFromCompletion(timed, state) : state;
  const due = deferred(timed, seq, counted);
  if (due.dueMs > nowMs) {
    return { kind: 'wait', next: due, ...(due === counted ? {} : { reason: 'quiet_hours' }) };
  }
  if (!isLate(timed, due, nowMs, graceMs)) {
    const after = nextSlot(timed, seq + 1, timing.mode === 'every' ? nowMs : due.slotMs);
    // Where jitter is longer than the distance of two times, the later one may have come before.
    const next = after && { ...after, dueMs: Math.max(after.dueMs, nowMs) };
    if (quietEnd(timed, due.dueMs) !== undefined) {
      return { kind: 'skip', reason: 'quiet_hours', next };
    }
    return { kind: 'fire', slots: [due.slotMs], next };
  }
  const isOnce = isDueOnce(timed);
  const allowedMs = allowedFrom(timed, nowMs);
  if (allowedMs > nowMs && (isOnce || catchUp !== 'skip')) {
    return { kind: 'wait', next: { slotMs: due.slotMs, dueMs: allowedMs } };
  }
  if (isOnce) return { kind: 'fire', slots: [due.slotMs], next: undefined };
  return planMissed(timed, due, seq, nowMs);
}

/** The first moment from this one on that the windows and the quiet hours of a schedule allow. */
export function allowedFrom(timed: Timed, ms: number): number {
  const { schedule, zone } = timed;
  let allowed = ms;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const within = moveInto(schedule, allowed, zone) ?? allowed;
    const end = quietEnd(timed, within);
    if (end === undefined) return within;
    allowed = end;
  }
  return ms;
}

/** Until when it is quiet for a schedule at this moment; undefined when it is not. */
export function quietEnd({ schedule, usualQuiet, zone }: Timed, ms: number): number | undefined {
  return quietUntil(schedule.quiet, usualQuiet, ms, zone);
}

/** A time in quiet hours moves to their end when it is put off and not left out. */
export function deferred<S extends Slot>(timed: Timed, seq: number, slot: S): S | Slot {
  if (!isPutOff(timed)) return slot;
  const end = quietEnd(timed, slot.dueMs);
  if (end === undefined) return slot;
  const moved = placed(timed, seq, end, 1);
  if (moved === undefined) return { slotMs: end, dueMs: end };
  return quietEnd(timed, moved.dueMs) === undefined ? moved : { ...moved, dueMs: moved.slotMs };
}

/** What comes only once is never left out: it would never come at all. */
function isPutOff(timed: Timed): boolean {
  return timed.schedule.quietAction === 'defer' || isDueOnce(timed);
}

function isDueOnce({ schedule: { timing } }: Timed): boolean {
  return timing.mode === 'at' || timing.mode === 'after';
}

/** What was put off has another due time; that it is late is told by its slot. */
function isLate(
  { schedule }: Timed,
  { slotMs, dueMs }: Slot,
  nowMs: number,
  graceMs: number,
): boolean {
  return nowMs - dueMs > graceMs || nowMs - slotMs > graceMs + schedule.jitterMs;
}

/** While a job is open, the next due time is only a guess; its completion moves it on. */
function countFromCompletion(timed: Timed, state: DueState): Slot {
  if (state.completedMs === undefined) return state;
  const counted = nextSlot(timed, state.seq, state.completedMs);
  return counted !== undefined && counted.dueMs > state.dueMs ? counted : state;
}

function planMissed(timed: Timed, due: Slot, seq: number, nowMs: number): Plan {
  const { catchUp } = timed.schedule;
  if (catchUp === 'skip') {
    return { kind: 'skip', reason: 'missed', next: nextOnGrid(timed, due, seq, nowMs) };
  }
  const most = catchUp === 'run_once' ? 1 : limits.catchUpJobsMax;
  const slots = missedSlots(timed, due, seq, { nowMs, most });
  const next = nextSlot(timed, seq + Math.max(1, slots.length), nowMs);
  if (slots.length === 0) return { kind: 'skip', reason: 'quiet_hours', next };
  // Of an interval nothing is missed while a job is open: it counts from the completion.
  return { kind: 'fire', slots, next, isMissed: timed.schedule.timing.mode === 'cron' };
}

/** Of an interval, the grid that the missed time lies on goes on. */
function nextOnGrid(timed: Timed, due: Slot, seq: number, nowMs: number): Slot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode !== 'every') return nextSlot(timed, seq + 1, nowMs);
  const times = countEvery(timing.every, due.slotMs, nowMs, timed.zone);
  const base = addEvery(timing.every, due.slotMs, times, timed.zone);
  return placed(timed, seq + 1, base, 1);
}

/** The oldest of the times that were missed, as many as are made up for; what was quiet is not one. */
function missedSlots(
  timed: Timed,
  due: Slot,
  seq: number,
  { nowMs, most }: { readonly nowMs: number; readonly most: number },
): number[] {
  const slots: number[] = [];
  let slot: Slot | undefined = due;
  for (let round = 0; round < MISSED_ROUNDS_MAX && slots.length < most; round += 1) {
    if (slot === undefined || slot.slotMs > nowMs) break;
    const { slotMs } = slot;
    const end = quietEnd(timed, slotMs);
    const put = end === undefined || !isPutOff(timed) ? slotMs : allowedFrom(timed, end);
    if (put > nowMs) break;
    const isLeftOut = end !== undefined && put === slotMs;
    if (!isLeftOut) slots.push(put);
    slot = missedAfter(timed, seq + slots.length, slotMs, isLeftOut ? end - 1 : put);
  }
  return slots;
}

/** More than there are days and jobs to make up for in some years. */
const MISSED_ROUNDS_MAX = 2000;

/** The first time after a moment; of an interval on the grid of the one before. */
function missedAfter(timed: Timed, seq: number, lastMs: number, afterMs: number): Slot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode !== 'every') return nextSlot(timed, seq, afterMs);
  const times = countEvery(timing.every, lastMs, afterMs, timed.zone);
  return placed(timed, seq, addEvery(timing.every, lastMs, times, timed.zone), 0);
}

/** Rounds that find a time within windows: leap days on all weekdays take seven. */
const ROUNDS_MAX = 60;

/** A time that `only_between` or `not_on` forbids is none; the preferred window moves it. */
function nextCronSlot(timed: Timed, seq: number, afterMs: number): Slot | undefined {
  const { schedule, zone } = timed;
  if (schedule.timing.mode !== 'cron') return undefined;
  const strict: Constraints = { ...schedule, preferredWindow: undefined };
  let after = afterMs;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const ms = nextCron(schedule.timing.cron, zone, after);
    if (ms === undefined) return undefined;
    if (findObstacle(strict, ms, zone) === undefined) return placed(timed, seq, ms, 1);
    const allowed = moveInto(strict, ms, zone);
    if (allowed === undefined) return undefined;
    after = allowed - 1;
  }
  return undefined;
}

/** The time within its windows, and the jitter of this run where the windows allow it. */
function placed(
  timed: Timed,
  seq: number,
  baseMs: number,
  share: 0 | 1,
  side: 'after' | 'around' = 'after',
): Slot | undefined {
  const { schedule, zone } = timed;
  const slotMs = moveInto(schedule, baseMs, zone);
  if (slotMs === undefined) return undefined;
  const range = schedule.jitterMs * share;
  if (range === 0) return { slotMs, dueMs: slotMs };
  const place = fractionOf(`${timed.plugin}/${schedule.id}/${timed.generation}/${seq}`);
  // What was moved to the start of a window cannot come before it.
  const offset = side === 'around' && slotMs === baseMs ? place - 0.5 : place;
  const dueMs = slotMs + Math.floor(offset * range);
  return { slotMs, dueMs: findObstacle(schedule, dueMs, zone) === undefined ? dueMs : slotMs };
}
