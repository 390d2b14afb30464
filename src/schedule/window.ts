import { parseOk, parseFault, type ParseResult } from '../base/quantity.ts';
import { localOf, toUtc, type Zone } from './zone.ts';

/**
 * A part of each day in minutes since midnight. It crosses midnight if it ends before it starts.
 */
export interface DayWindow {
  readonly start: number;
  /** The first minute after it. */
  readonly end: number;
}

const MINUTE_MS = 60 * 1000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const FORM = 'Write it like 08:00-22:00; 22:00-06:00 crosses midnight.';

export function parseWindow(text: string): ParseResult<DayWindow> {
  const [start = '', end = '', ...rest] = text.split('-');
  if (rest.length > 0) return parseFault('is not a window of the day', FORM);
  return makeWindow(start.trim(), end.trim());
}

export function makeWindow(from: string, to: string): ParseResult<DayWindow> {
  const start = parseTimeOfDay(from);
  const end = parseTimeOfDay(to);
  if (start === undefined || end === undefined || start === 24 * 60) {
    return parseFault('is not a window of the day', FORM);
  }
  if (start === end % (24 * 60)) return parseFault('starts and ends at the same time', FORM);
  return parseOk({ start, end });
}

export function isWithinWindow({ start, end }: DayWindow, minuteOfDay: number): boolean {
  if (start < end) return minuteOfDay >= start && minuteOfDay < end;
  return minuteOfDay >= start || minuteOfDay < end;
}

/** The windows and weekdays at which an entry may be due. */
export interface Constraints {
  readonly onlyBetween: DayWindow | undefined;
  readonly notOn: readonly number[];
  readonly preferredWindow: DayWindow | undefined;
}

export type Obstacle =
  | 'outside_day_constraint'
  | 'outside_time_window'
  | 'outside_preferred_window';

/** Returns why an entry may not be due at this moment. Undefined if it may. */
export function findObstacle(
  constraints: Constraints,
  ms: number,
  zone: Zone,
): Obstacle | undefined {
  const { onlyBetween, notOn, preferredWindow } = constraints;
  if (onlyBetween === undefined && preferredWindow === undefined && notOn.length === 0) {
    return undefined;
  }
  const local = localOf(zone, ms);
  const minute = Math.floor((((local % DAY_MS) + DAY_MS) % DAY_MS) / MINUTE_MS);
  if (notOn.includes(weekdayOf(local))) return 'outside_day_constraint';
  if (onlyBetween !== undefined && !isWithinWindow(onlyBetween, minute))
    return 'outside_time_window';
  if (preferredWindow === undefined || isWithinWindow(preferredWindow, minute)) return undefined;
  return 'outside_preferred_window';
}

/**
 * The rounds to reach an allowed moment if there is one: a week of days, and some for the windows.
 */
const ROUNDS_MAX = 40;

/** Finds the first allowed moment from this one on. Undefined if there is none. */
export function moveInto(constraints: Constraints, fromMs: number, zone: Zone): number | undefined {
  let ms = fromMs;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const obstacle = findObstacle(constraints, ms, zone);
    if (obstacle === undefined) return ms;
    const { onlyBetween, preferredWindow } = constraints;
    const window = obstacle === 'outside_time_window' ? onlyBetween : preferredWindow;
    const start = obstacle === 'outside_day_constraint' ? 0 : (window?.start ?? 0);
    ms = nextTimeOfDay(zone, ms, start);
  }
  return undefined;
}

/** Returns whether the windows allow any minute of some day. */
export function hasAllowedTime({ onlyBetween, notOn, preferredWindow }: Constraints): boolean {
  if (new Set(notOn).size === 7) return false;
  for (let minute = 0; minute < 24 * 60; minute += 1) {
    const only = onlyBetween === undefined || isWithinWindow(onlyBetween, minute);
    if (only && (preferredWindow === undefined || isWithinWindow(preferredWindow, minute)))
      return true;
  }
  return false;
}

function nextTimeOfDay(zone: Zone, afterMs: number, minute: number): number {
  const local = localOf(zone, afterMs);
  const day = local - (((local % DAY_MS) + DAY_MS) % DAY_MS);
  for (let days = 0; ; days += 1) {
    const ms = toUtc(zone, day + days * DAY_MS + minute * MINUTE_MS);
    if (ms > afterMs) return ms;
  }
}

/** Returns the weekday of a local time. 0 is Sunday. */
export function weekdayOf(localMs: number): number {
  return (((Math.floor(localMs / DAY_MS) + 4) % 7) + 7) % 7;
}

function parseTimeOfDay(text: string): number | undefined {
  const match = /^(\d{1,2}):(\d{2})$/.exec(text);
  if (match === null) return undefined;
  const minute = Number(match[1]) * 60 + Number(match[2]);
  return Number(match[2]) < 60 && minute <= 24 * 60 ? minute : undefined;
}

/** Whole hours of the day in which nothing starts. An unset side is undefined. */
export interface QuietHours {
  readonly start: number | undefined;
  /** The first hour that isn't quiet. */
  readonly end: number | undefined;
}

/** A due time in quiet hours is skipped, or deferred to their end. */
export const quietActions = ['skip', 'defer'] as const;
export type QuietAction = (typeof quietActions)[number];

/**
 * Returns the end of the quiet hours, or undefined if it isn't quiet. Unset sides have
 * the default. There are no quiet hours without both sides, or if they start and end at the same
 * hour.
 */
export function quietUntil(
  own: QuietHours,
  usual: QuietHours,
  nowMs: number,
  zone: Zone,
): number | undefined {
  const start = own.start ?? usual.start;
  const end = own.end ?? usual.end;
  if (start === undefined || end === undefined || start === end) return undefined;
  const awake: DayWindow = { start: end * 60, end: start * 60 };
  const until = moveInto(
    { onlyBetween: awake, notOn: [], preferredWindow: undefined },
    nowMs,
    zone,
  );
  return until === nowMs ? undefined : until;
}
