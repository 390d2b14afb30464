import { limits } from '../base/limits.ts';
import { nextCron } from './cron.ts';
import { addEvery, countEvery, type Schedule } from './schedule.ts';
import { quietUntil, findObstacle, moveInto, type QuietHours, type Constraints } from './window.ts';
import { zoneOf, type Zone } from './zone.ts';

/** A schedule with everything that its due times are computed from. */
export interface TimedSchedule {
  readonly plugin: string;
  readonly schedule: Schedule;
  readonly zone: Zone;
  /** The default quiet hours. */
  readonly defaultQuiet: QuietHours;
  /** Changes with everything that changes the due times. Quiet hours only skip or defer them. */
  readonly generation: string;
}

/** The service's defaults for entries. */
interface ScheduleDefaults {
  readonly timezone: string;
  readonly quietHours: QuietHours;
}

export function makeTimedSchedule(
  plugin: string,
  schedule: Schedule,
  defaults: ScheduleDefaults,
): TimedSchedule {
  const zone = zoneOf(schedule.timezone ?? defaults.timezone);
  const { timing, command, jitterMs, onlyBetween, notOn, preferredWindow } = schedule;
  const parts = [timing.mode, timing.text, command, zone.name, jitterMs];
  const generation = digestText(JSON.stringify([...parts, onlyBetween, notOn, preferredWindow]));
  return { plugin, schedule, zone, defaultQuiet: defaults.quietHours, generation };
}

/** A due time before and after jitter. */
export interface ScheduleSlot {
  readonly slotMs: number;
  readonly dueMs: number;
}

/**
 * Returns the first slot of a schedule that was first seen at this moment. An interval is due at
 * once.
 */
export function firstSlot(
  timed: TimedSchedule,
  seq: number,
  seenMs: number,
): ScheduleSlot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode === 'cron') return nextCronSlot(timed, seq, seenMs);
  if (timing.mode === 'every') return placeSlot(timed, seq, seenMs, 0);
  return placeSlot(timed, seq, timing.mode === 'at' ? timing.atMs : seenMs + timing.afterMs, 1);
}

/** Returns the next slot. An interval counts from the completion of its last job. */
export function nextSlot(
  timed: TimedSchedule,
  seq: number,
  afterMs: number,
): ScheduleSlot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode === 'cron') return nextCronSlot(timed, seq, afterMs);
  if (timing.mode !== 'every') return undefined;
  const base = addEvery(timing.every, afterMs, 1, timed.zone);
  const slot = placeSlot(timed, seq, base, 1, 'around');
  return slot === undefined ? undefined : { ...slot, dueMs: Math.max(slot.dueMs, afterMs) };
}

/** The state of a schedule that has come due. */
export interface DueState extends ScheduleSlot {
  readonly seq: number;
  /** The completion of its last job. Undefined if that is open or there was none. */
  readonly completedMs: number | undefined;
}

/**
 * `wait`: it isn't due yet. `fire`: the slots that get a job, oldest first, and the next slot.
 * `skip`: no slot gets a job, because they were missed without catch-up, or fall into quiet hours.
 */
export type DuePlan =
  | { readonly kind: 'wait'; readonly next: ScheduleSlot; readonly reason?: 'quiet_hours' }
  | {
      readonly kind: 'fire';
      readonly slots: readonly number[];
      readonly next: ScheduleSlot | undefined;
      /** Missed cron times that must be caught up even if a job is open now. */
      readonly isMissed?: boolean;
    }
  | {
      readonly kind: 'skip';
      readonly reason: 'missed' | 'quiet_hours';
      readonly next: ScheduleSlot | undefined;
    };

/** Decides what to do about a schedule whose due time has come. */
export function planDue(
  timed: TimedSchedule,
  state: DueState,
  nowMs: number,
  graceMs: number,
): DuePlan {
  const { timing, catchUp } = timed.schedule;
  const { seq } = state;
  const counted = timing.mode === 'every' ? countFromCompletion(timed, state) : state;
  const due = deferSlot(timed, seq, counted);
  if (due.dueMs > nowMs) {
    return { kind: 'wait', next: due, ...(due === counted ? {} : { reason: 'quiet_hours' }) };
  }
  if (!isLate(timed, due, nowMs, graceMs)) {
    const after = nextSlot(timed, seq + 1, timing.mode === 'every' ? nowMs : due.slotMs);
    // If jitter is longer than the distance of two slots, the later one may be due already.
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

/** Finds the first moment from this one on that the windows and quiet hours allow. */
export function allowedFrom(timed: TimedSchedule, ms: number): number {
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

/** Returns the end of the quiet hours at this moment. Undefined if it isn't quiet. */
export function quietEnd(
  { schedule, defaultQuiet, zone }: TimedSchedule,
  ms: number,
): number | undefined {
  return quietUntil(schedule.quiet, defaultQuiet, ms, zone);
}

/** Moves a slot in quiet hours to their end, if the schedule defers instead of skipping. */
export function deferSlot<S extends ScheduleSlot>(
  timed: TimedSchedule,
  seq: number,
  slot: S,
): S | ScheduleSlot {
  if (!isDeferred(timed)) return slot;
  const end = quietEnd(timed, slot.dueMs);
  if (end === undefined) return slot;
  const moved = placeSlot(timed, seq, end, 1);
  if (moved === undefined) return { slotMs: end, dueMs: end };
  return quietEnd(timed, moved.dueMs) === undefined ? moved : { ...moved, dueMs: moved.slotMs };
}

/** Returns whether quiet hours defer a slot. A schedule that is due once is never skipped. */
function isDeferred(timed: TimedSchedule): boolean {
  return timed.schedule.quietAction === 'defer' || isDueOnce(timed);
}

function isDueOnce({ schedule: { timing } }: TimedSchedule): boolean {
  return timing.mode === 'at' || timing.mode === 'after';
}

/** Returns whether a slot was missed. A deferred slot has another due time, so the slot counts, too. */
function isLate(
  { schedule }: TimedSchedule,
  { slotMs, dueMs }: ScheduleSlot,
  nowMs: number,
  graceMs: number,
): boolean {
  return nowMs - dueMs > graceMs || nowMs - slotMs > graceMs + schedule.jitterMs;
}

/** Counts an interval from the end of its last job. The stored due time is only an estimate. */
function countFromCompletion(timed: TimedSchedule, state: DueState): ScheduleSlot {
  if (state.completedMs === undefined) return state;
  const counted = nextSlot(timed, state.seq, state.completedMs);
  return counted !== undefined && counted.dueMs > state.dueMs ? counted : state;
}

function planMissed(timed: TimedSchedule, due: ScheduleSlot, seq: number, nowMs: number): DuePlan {
  const { catchUp } = timed.schedule;
  if (catchUp === 'skip') {
    return { kind: 'skip', reason: 'missed', next: nextOnGrid(timed, due, seq, nowMs) };
  }
  const most = catchUp === 'run_once' ? 1 : limits.catchUpJobsMax;
  const slots = missedSlots(timed, due, seq, { nowMs, most });
  const next = nextSlot(timed, seq + Math.max(1, slots.length), nowMs);
  if (slots.length === 0) return { kind: 'skip', reason: 'quiet_hours', next };
  // An interval misses nothing while a job is open: it counts from the completion.
  return { kind: 'fire', slots, next, isMissed: timed.schedule.timing.mode === 'cron' };
}

/** Returns the first slot after now. An interval continues on the grid of the missed slot. */
function nextOnGrid(
  timed: TimedSchedule,
  due: ScheduleSlot,
  seq: number,
  nowMs: number,
): ScheduleSlot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode !== 'every') return nextSlot(timed, seq + 1, nowMs);
  const times = countEvery(timing.every, due.slotMs, nowMs, timed.zone);
  const base = addEvery(timing.every, due.slotMs, times, timed.zone);
  return placeSlot(timed, seq + 1, base, 1);
}

/** Returns the oldest missed slots, up to the limit. Skipped quiet hours don't count. */
function missedSlots(
  timed: TimedSchedule,
  due: ScheduleSlot,
  seq: number,
  { nowMs, most }: { readonly nowMs: number; readonly most: number },
): number[] {
  const slots: number[] = [];
  let slot: ScheduleSlot | undefined = due;
  for (let round = 0; round < MISSED_ROUNDS_MAX && slots.length < most; round += 1) {
    if (slot === undefined || slot.slotMs > nowMs) break;
    const { slotMs } = slot;
    const end = quietEnd(timed, slotMs);
    const placedMs = end === undefined || !isDeferred(timed) ? slotMs : allowedFrom(timed, end);
    if (placedMs > nowMs) break;
    const isSkipped = end !== undefined && placedMs === slotMs;
    if (!isSkipped) slots.push(placedMs);
    slot = missedAfter(timed, seq + slots.length, slotMs, isSkipped ? end - 1 : placedMs);
  }
  return slots;
}

/** More rounds than years of daily slots and catch-up jobs need. */
const MISSED_ROUNDS_MAX = 2000;

/** Finds the next slot after a moment. An interval stays on the grid of the one before. */
function missedAfter(
  timed: TimedSchedule,
  seq: number,
  lastMs: number,
  afterMs: number,
): ScheduleSlot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode !== 'every') return nextSlot(timed, seq, afterMs);
  const times = countEvery(timing.every, lastMs, afterMs, timed.zone);
  return placeSlot(timed, seq, addEvery(timing.every, lastMs, times, timed.zone), 0);
}

/** The rounds to find a time within windows. Leap days on all weekdays need seven. */
const ROUNDS_MAX = 60;

/** Finds the next cron time that `only_between` and `not_on` allow. The preferred window moves it. */
function nextCronSlot(
  timed: TimedSchedule,
  seq: number,
  afterMs: number,
): ScheduleSlot | undefined {
  const { schedule, zone } = timed;
  if (schedule.timing.mode !== 'cron') return undefined;
  const strict: Constraints = { ...schedule, preferredWindow: undefined };
  let after = afterMs;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const ms = nextCron(schedule.timing.cron, zone, after);
    if (ms === undefined) return undefined;
    if (findObstacle(strict, ms, zone) === undefined) return placeSlot(timed, seq, ms, 1);
    const allowed = moveInto(strict, ms, zone);
    if (allowed === undefined) return undefined;
    after = allowed - 1;
  }
  return undefined;
}

/** Moves a time into its windows, and adds the jitter of this slot if the windows allow it. */
function placeSlot(
  timed: TimedSchedule,
  seq: number,
  baseMs: number,
  share: 0 | 1,
  side: 'after' | 'around' = 'after',
): ScheduleSlot | undefined {
  const { schedule, zone } = timed;
  const slotMs = moveInto(schedule, baseMs, zone);
  if (slotMs === undefined) return undefined;
  const range = schedule.jitterMs * share;
  if (range === 0) return { slotMs, dueMs: slotMs };
  const fraction = toFraction(`${timed.plugin}/${schedule.id}/${timed.generation}/${seq}`);
  // A time that was moved to the start of a window can't come before it.
  const offset = side === 'around' && slotMs === baseMs ? fraction - 0.5 : fraction;
  const dueMs = slotMs + Math.floor(offset * range);
  return { slotMs, dueMs: findObstacle(schedule, dueMs, zone) === undefined ? dueMs : slotMs };
}

/** Maps a text to a number in [0, 1): the same on every host, and very different for similar texts. */
function toFraction(text: string): number {
  return hashText(text, 0x811c9dc5) / 2 ** 32;
}

/** Returns a short digest that distinguishes versions of a text. It isn't cryptographic. */
function digestText(text: string): string {
  return [0x811c9dc5, 0x9747b28c]
    .map((seed) => hashText(text, seed).toString(16).padStart(8, '0'))
    .join('');
}

/** Computes FNV-1a over the UTF-16 units, mixed at the end so that the last units change every bit. */
function hashText(text: string, seed: number): number {
  let value = seed;
  for (let at = 0; at < text.length; at += 1) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x7feb352d);
  value = Math.imul(value ^ (value >>> 15), 0x846ca68b);
  return (value ^ (value >>> 16)) >>> 0;
}
