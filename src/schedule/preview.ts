import type { Yield } from '../base/timer.ts';
import { limits } from '../base/limits.ts';
import { nextCron, type Cron } from './cron.ts';
import { addEvery, countEvery } from './schedule.ts';
import {
  deferSlot,
  firstSlot,
  nextSlot,
  quietEnd,
  type ScheduleSlot,
  type TimedSchedule,
} from './plan.ts';
import { findObstacle } from './window.ts';
import { localOf } from './zone.ts';

/** A schedule with its state. Without a state, it is first seen when the preview starts. */
export interface PreviewEntry {
  readonly timed: TimedSchedule;
  readonly state?: ScheduleSlot & { readonly seq: number };
  /** The reason why it doesn't fire at all, such as a pause. */
  readonly held?: string;
}

/**
 * A time at which a schedule would fire, or several at which it would not, for the same reason. The
 * later times of a frequent schedule share a row, too.
 */
interface PreviewRow {
  readonly plugin: string;
  readonly scheduleId: string;
  readonly command: string;
  readonly atMs: number;
  readonly untilMs: number;
  readonly count: number;
  readonly fires: boolean;
  /** The reason why it doesn't fire, or fires at another time than the entry says. */
  readonly reason: string | undefined;
}

interface Preview {
  readonly rows: readonly PreviewRow[];
  /** There are more rows. */
  readonly truncated: boolean;
}

/**
 * Lists what would fire in a period, and what would not and why. It needs no clock: intervals count
 * as if every job were completed at its due time. It yields to the event loop, because there can be
 * very many times.
 */
export async function previewSchedules(
  entries: readonly PreviewEntry[],
  fromMs: number,
  toMs: number,
  yieldNow: Yield,
): Promise<Preview> {
  let rows: PreviewRow[] = [];
  let truncated = false;
  for (const entry of entries) {
    const times = await groupTimes(entry, timesOf(entry, fromMs, toMs), yieldNow);
    rows.push(...times.rows);
    truncated ||= times.truncated;
    // With many schedules, only the first rows overall are kept.
    if (rows.length < 4 * limits.previewRowsMax) continue;
    rows = firstRows(rows);
    truncated = true;
  }
  const first = firstRows(rows);
  return { rows: first, truncated: truncated || first.length < rows.length };
}

function firstRows(rows: readonly PreviewRow[]): PreviewRow[] {
  return rows.toSorted((a, b) => a.atMs - b.atMs).slice(0, limits.previewRowsMax);
}

interface PreviewTime {
  readonly atMs: number;
  readonly fires: boolean;
  readonly reason: string | undefined;
}

/** The most times of one schedule that are computed. */
const TIMES_MAX = 20_000;
/** The most rows of one schedule, so that it doesn't hide the others. */
const ROWS_OF_ONE_MAX = 50;

async function groupTimes(
  { timed, held }: PreviewEntry,
  times: Iterable<PreviewTime>,
  yieldNow: Yield,
): Promise<Preview> {
  const rows: PreviewRow[] = [];
  let seen = 0;
  for (const time of times) {
    const pause = yieldNow();
    if (pause !== undefined) await pause;
    const fires = time.fires && held === undefined;
    const reason = held ?? time.reason;
    const last = rows.at(-1);
    seen += 1;
    const isAlike = last !== undefined && last.fires === fires && last.reason === reason;
    if (isAlike && (!fires || rows.length >= ROWS_OF_ONE_MAX)) {
      rows[rows.length - 1] = { ...last, untilMs: time.atMs, count: last.count + 1 };
    } else {
      const { plugin, schedule } = timed;
      const key = { plugin, scheduleId: schedule.id, command: schedule.command };
      rows.push({ ...key, atMs: time.atMs, untilMs: time.atMs, count: 1, fires, reason });
    }
    if (seen >= TIMES_MAX || rows.length > limits.previewRowsMax) {
      return { rows, truncated: true };
    }
  }
  return { rows, truncated: false };
}

function timesOf(entry: PreviewEntry, fromMs: number, toMs: number): Iterable<PreviewTime> {
  return entry.timed.schedule.timing.mode === 'cron'
    ? cronTimes(entry, fromMs, toMs)
    : otherTimes(entry, fromMs, toMs);
}

function* cronTimes(
  { timed, state }: PreviewEntry,
  fromMs: number,
  toMs: number,
): Iterable<PreviewTime> {
  const { schedule, zone } = timed;
  const { timing } = schedule;
  if (timing.mode !== 'cron') return;
  let seq = state?.seq ?? 0;
  let after = fromMs - 1;
  for (;;) {
    const ms = nextCron(timing.cron, zone, after);
    if (ms === undefined || ms > toMs) return;
    const obstacle = findObstacle(schedule, ms, zone);
    after = ms;
    if (obstacle === 'outside_day_constraint' || obstacle === 'outside_time_window') {
      yield { atMs: ms, fires: false, reason: obstacle };
      continue;
    }
    const slot = nextSlot(timed, seq, ms - 1);
    if (slot === undefined || slot.dueMs > toMs) return;
    const { due, quiet } = applyQuietHours(timed, seq, slot);
    if (due.dueMs > toMs) return;
    const moved = isSkippedByClocks(timing.cron, localOf(zone, ms)) ? 'clock_change' : undefined;
    yield {
      atMs: due.dueMs,
      fires: quiet !== 'skipped',
      reason: reasonOf(quiet) ?? obstacle ?? moved,
    };
    after = due.slotMs;
    seq += 1;
  }
}

/** Applies quiet hours to a slot, as firing does. */
function applyQuietHours(
  timed: TimedSchedule,
  seq: number,
  slot: ScheduleSlot,
): { readonly due: ScheduleSlot; readonly quiet: 'skipped' | 'deferred' | undefined } {
  const due = deferSlot(timed, seq, slot);
  if (due !== slot) return { due, quiet: 'deferred' };
  return { due, quiet: quietEnd(timed, due.dueMs) === undefined ? undefined : 'skipped' };
}

function reasonOf(quiet: 'skipped' | 'deferred' | undefined): string | undefined {
  return quiet === undefined ? undefined : 'quiet_hours';
}

/** Returns whether the clocks skipped the time, so that it comes at another one. */
function isSkippedByClocks({ hours, minutes }: Cron, localMs: number): boolean {
  const local = new Date(localMs);
  return !hours.includes(local.getUTCHours()) || !minutes.includes(local.getUTCMinutes());
}

function* otherTimes(
  { timed, state }: PreviewEntry,
  fromMs: number,
  toMs: number,
): Iterable<PreviewTime> {
  const { schedule, zone } = timed;
  const { timing } = schedule;
  let seq = state?.seq ?? 0;
  let slot = state ?? firstSlot(timed, seq, fromMs);
  let wanted = slot === undefined ? fromMs : wantedFirst(timed, slot, fromMs);
  while (slot !== undefined && Math.max(slot.dueMs, fromMs) <= toMs) {
    const { due, quiet } = applyQuietHours(timed, seq, slot);
    const atMs = Math.max(due.dueMs, fromMs);
    if (atMs > toMs) return;
    const reason = reasonOf(quiet) ?? findObstacle(schedule, wanted, zone);
    yield { atMs, fires: quiet !== 'skipped', reason };
    seq += 1;
    slot = nextSlot(timed, seq, atMs);
    if (timing.mode === 'every') wanted = addEvery(timing.every, atMs, 1, zone);
  }
}

/** Returns the first time without windows. */
function wantedFirst({ schedule }: TimedSchedule, slot: ScheduleSlot, fromMs: number): number {
  const { timing } = schedule;
  if (timing.mode === 'at') return timing.atMs;
  return timing.mode === 'after' ? slot.slotMs : Math.min(slot.slotMs, fromMs);
}

/**
 * Returns whether quiet hours skip every time of a cron line. It checks all times of the next days,
 * and at least a few, because a line may come once a month. Other schedules leave the quiet hours
 * sooner or later.
 */
export function isAlwaysQuiet(timed: TimedSchedule, fromMs: number): boolean {
  const { timing, quietAction } = timed.schedule;
  if (timing.mode !== 'cron' || quietAction !== 'skip') return false;
  const { daysMs, timesMin, timesMax } = limits.quietHoursPreview;
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

/** The most slots to check. Slots of each minute cover more than a day. */
const SLOTS_MAX = 2000;

/**
 * Finds the first time from a moment on at which a schedule really starts a job. It skips earlier
 * due times, as an open breaker does, and quiet hours. Undefined if none is near.
 */
export function findNextStart(
  timed: TimedSchedule,
  state: ScheduleSlot & { readonly seq: number },
  notBeforeMs: number,
): number | undefined {
  const isClock = timed.schedule.timing.mode === 'cron';
  let { seq } = state;
  let slot: ScheduleSlot | undefined = skipUntil(timed, state, notBeforeMs);
  for (let round = 0; slot !== undefined && round < SLOTS_MAX; round += 1) {
    const { slotMs, dueMs } = deferSlot(timed, seq, slot);
    if (dueMs >= notBeforeMs && quietEnd(timed, dueMs) === undefined) return dueMs;
    seq += 1;
    slot = nextSlot(timed, seq, isClock ? slotMs : dueMs);
  }
  return undefined;
}

/** Steps over many due times at once: a breaker can be open for thousands of them. */
function skipUntil(
  timed: TimedSchedule,
  state: ScheduleSlot & { readonly seq: number },
  notBeforeMs: number,
): ScheduleSlot | undefined {
  const { timing } = timed.schedule;
  if (state.dueMs >= notBeforeMs) return state;
  if (timing.mode === 'cron') return nextSlot(timed, state.seq + 1, notBeforeMs - 1);
  // A time that comes only once is retried until it is allowed.
  if (timing.mode !== 'every') return { slotMs: state.slotMs, dueMs: notBeforeMs };
  const times = countEvery(timing.every, state.dueMs, notBeforeMs - 1, timed.zone);
  const before = addEvery(timing.every, state.dueMs, times - 1, timed.zone);
  return nextSlot(timed, state.seq + times, before);
}
