import type { JsonObject } from '../base/json.ts';
import type { Cron } from './cron.ts';
import type { QuietAction, QuietHours, DayWindow } from './window.ts';
import { limits } from '../base/limits.ts';
import {
  formatDuration,
  parseDuration,
  parseFault,
  parseOk,
  type ParseResult,
} from '../base/quantity.ts';
import { addDays, addMonths, type Zone } from './zone.ts';

/** A checked entry of `plugins.<name>.schedules`: when a command of a plugin is due. */
export interface Schedule {
  readonly id: string;
  readonly timing: Timing;
  readonly command: string;
  readonly payload: Readonly<JsonObject>;
  readonly jitterMs: number;
  readonly catchUp: CatchUp;
  readonly ifRunning: IfRunning;
  readonly onlyBetween: DayWindow | undefined;
  /** Weekdays on which nothing is due. 0 is Sunday. */
  readonly notOn: readonly number[];
  readonly preferredWindow: DayWindow | undefined;
  /** An IANA name. Undefined: `service.timezone`. */
  readonly timezone: string | undefined;
  /** Unset hours default to `service.quiet_hours`. */
  readonly quiet: QuietHours;
  readonly quietAction: QuietAction;
  /** The dependency key of its jobs. */
  readonly dependency: string | undefined;
}

/** `text` is the operator's spelling. */
export type Timing =
  | { readonly mode: 'every'; readonly text: string; readonly every: Every }
  | { readonly mode: 'cron'; readonly text: string; readonly cron: Cron }
  | { readonly mode: 'at'; readonly text: string; readonly atMs: number }
  | { readonly mode: 'after'; readonly text: string; readonly afterMs: number };

export type ScheduleMode = Timing['mode'];

export const catchUps = ['skip', 'run_once', 'run_all'] as const;
type CatchUp = (typeof catchUps)[number];

export const ifRunnings = ['skip', 'queue', 'cancel'] as const;
type IfRunning = (typeof ifRunnings)[number];

/** The reason why a due time is skipped. */
export type SkipReason =
  | 'missed'
  | 'quiet_hours'
  | 'already_running'
  | 'outstanding_limit'
  | 'circuit_open'
  | 'plugin_disabled'
  | 'plugin_unhealthy'
  | 'tenant_limit'
  | 'tenant_suspended';

export interface OverlapRules {
  readonly ifRunning: IfRunning;
  /** The most open jobs of one schedule with `if_running: queue`. */
  readonly outstandingMax: number;
}

/** Decides what to do if jobs of the same schedule are open. */
export function decideOverlap(
  { ifRunning, outstandingMax }: OverlapRules,
  outstanding: number,
): 'fire' | 'cancel' | SkipReason {
  if (outstanding === 0) return 'fire';
  if (ifRunning === 'cancel') return 'cancel';
  if (ifRunning === 'skip') return 'already_running';
  return outstanding < outstandingMax ? 'fire' : 'outstanding_limit';
}

/** An interval in real time, or in the calendar of a timezone. */
interface Every {
  readonly unit: 'ms' | 'days' | 'months';
  readonly count: number;
}

const words: Readonly<Record<string, Every>> = {
  hourly: { unit: 'ms', count: 60 * 60 * 1000 },
  daily: { unit: 'days', count: 1 },
  weekly: { unit: 'days', count: 7 },
  monthly: { unit: 'months', count: 1 },
};

const FORMS = 'Write 5m, 2h, 1d or 2w, or one of hourly, daily, weekly and monthly.';

export function parseEvery(text: string): ParseResult<Every> {
  const word = Object.hasOwn(words, text) ? words[text] : undefined;
  if (word !== undefined) return parseOk(word);
  const parsed = parseDistance(text);
  if (!parsed.ok) return parseFault(parsed.message, FORMS);
  return parseOk({ unit: 'ms', count: parsed.value });
}

/** Parses a duration within the limits of schedules. */
export function parseDistance(text: string): ParseResult<number> {
  const parsed = parseDuration(text);
  if (!parsed.ok) return parsed;
  const { scheduleMsMin: min, scheduleMsMax: max } = limits;
  if (parsed.ms >= min && parsed.ms <= max) return parseOk(parsed.ms);
  const bounds = `between ${formatDuration(min)} and ${formatDuration(max)}`;
  return parseFault(`must be ${bounds}`, `Write a duration ${bounds}.`);
}

/** Adds an interval `times` times. */
export function addEvery(
  { unit, count }: Every,
  fromMs: number,
  times: number,
  zone: Zone,
): number {
  if (unit === 'ms') return fromMs + count * times;
  return (unit === 'days' ? addDays : addMonths)(zone, fromMs, count * times);
}

/** Counts the intervals from `fromMs` to the first moment after `nowMs`. At least 1. */
export function countEvery(every: Every, fromMs: number, nowMs: number, zone: Zone): number {
  const longest = every.count * longestMs[every.unit];
  // Days and months differ in length. With the longest length this never exceeds the result.
  let times = Math.max(1, Math.floor((nowMs - fromMs) / longest));
  while (addEvery(every, fromMs, times, zone) <= nowMs) times += 1;
  return times;
}

const HOUR_MS = 60 * 60 * 1000;
const longestMs = { ms: 1, days: 26 * HOUR_MS, months: 32 * 24 * HOUR_MS } as const;
