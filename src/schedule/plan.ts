import { limits } from '../base/limits.ts';
import { nextCron } from './cron-next.ts';
import { addEvery, countEvery } from './every.ts';
import { digestOf, fractionOf } from './hash.ts';
import type { Schedule } from './schedule.ts';
import { findObstacle, moveInto, type Constraints } from './window.ts';
import { zoneOf, type Zone } from './zone.ts';

/** A schedule with all that its due times are computed from. */
export interface Timed {
  readonly plugin: string;
  readonly schedule: Schedule;
  readonly zone: Zone;
  /** Changes with whatever changes the due times. */
  readonly generation: string;
}

export function makeTimed(plugin: string, schedule: Schedule, serviceTimezone: string): Timed {
  const zone = zoneOf(schedule.timezone ?? serviceTimezone);
  const { timing, command, jitterMs, onlyBetween, notOn, preferredWindow } = schedule;
  const parts = [timing.mode, timing.text, command, zone.name, jitterMs];
  const generation = digestOf(JSON.stringify([...parts, onlyBetween, notOn, preferredWindow]));
  return { plugin, schedule, zone, generation };
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
 * is due again; none of them when they were missed and are not made up for.
 */
export type Plan =
  | { readonly kind: 'wait'; readonly next: Slot }
  | { readonly kind: 'fire'; readonly slots: readonly number[]; readonly next: Slot | undefined };

/** What is to be done about a schedule whose due time has come. */
export function planDue(timed: Timed, state: DueState, nowMs: number, graceMs: number): Plan {
  const { timing, catchUp } = timed.schedule;
  const { seq } = state;
  const due = timing.mode === 'every' ? countFromCompletion(timed, state) : state;
  if (due.dueMs > nowMs) return { kind: 'wait', next: due };
  if (!isLate(timed, due, nowMs, graceMs)) {
    const from = timing.mode === 'every' ? nowMs : due.slotMs;
    return { kind: 'fire', slots: [due.slotMs], next: nextSlot(timed, seq + 1, from) };
  }
  const isOnce = timing.mode === 'at' || timing.mode === 'after';
  const allowedMs = allowedFrom(timed, nowMs);
  if (allowedMs > nowMs && (isOnce || catchUp !== 'skip')) {
    return { kind: 'wait', next: { slotMs: due.slotMs, dueMs: allowedMs } };
  }
  if (isOnce) return { kind: 'fire', slots: [due.slotMs], next: undefined };
  return planMissed(timed, due, seq, nowMs);
}

/** The first moment from this one on that the windows of a schedule allow. */
export function allowedFrom({ schedule, zone }: Timed, ms: number): number {
  return moveInto(schedule, ms, zone) ?? ms;
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
    return { kind: 'fire', slots: [], next: nextOnGrid(timed, due, seq, nowMs) };
  }
  const slots = catchUp === 'run_once' ? [due.slotMs] : missedSlots(timed, due, seq, nowMs);
  return { kind: 'fire', slots, next: nextSlot(timed, seq + slots.length, nowMs) };
}

/** Of an interval, the grid that the missed time lies on goes on. */
function nextOnGrid(timed: Timed, due: Slot, seq: number, nowMs: number): Slot | undefined {
  const { timing } = timed.schedule;
  if (timing.mode !== 'every') return nextSlot(timed, seq + 1, nowMs);
  const times = countEvery(timing.every, due.slotMs, nowMs, timed.zone);
  const base = addEvery(timing.every, due.slotMs, times, timed.zone);
  return placed(timed, seq + 1, base, 1);
}

/** The oldest of the times that were missed, as many as are made up for. */
function missedSlots(timed: Timed, due: Slot, seq: number, nowMs: number): number[] {
  const { timing } = timed.schedule;
  const slots = [due.slotMs];
  while (slots.length < limits.catchUpJobsMax) {
    const last = slots.at(-1) ?? nowMs;
    const next =
      timing.mode === 'every'
        ? placed(timed, seq, addEvery(timing.every, last, 1, timed.zone), 0)
        : nextSlot(timed, seq + slots.length, last);
    if (next === undefined || next.slotMs > nowMs) break;
    slots.push(next.slotMs);
  }
  return slots;
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
