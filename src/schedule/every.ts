import { formatDuration, parseDuration } from '../base/quantity.ts';
import { limits } from '../base/limits.ts';
import { parseOk, parseFault, type ParseResult } from './parse-result.ts';
import { addDays, addMonths, type Zone } from './zone.ts';

/** A distance in real time, or in the calendar of a timezone. */
export interface Every {
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

/** A duration that a schedule may wait for. */
export function parseDistance(text: string): ParseResult<number> {
  const parsed = parseDuration(text);
  if (!parsed.ok) return parsed;
  const { scheduleMsMin: min, scheduleMsMax: max } = limits;
  if (parsed.ms >= min && parsed.ms <= max) return parseOk(parsed.ms);
  const bounds = `between ${formatDuration(min)} and ${formatDuration(max)}`;
  return parseFault(`must be ${bounds}`, `Write a duration ${bounds}.`);
}

/** The moment that lies `times` distances after another one. */
export function addEvery(
  { unit, count }: Every,
  fromMs: number,
  times: number,
  zone: Zone,
): number {
  if (unit === 'ms') return fromMs + count * times;
  return (unit === 'days' ? addDays : addMonths)(zone, fromMs, count * times);
}

/** How many distances after `fromMs` the first moment lies that is later than `nowMs`; at least 1. */
export function countEvery(every: Every, fromMs: number, nowMs: number, zone: Zone): number {
  const longest = every.count * longestMs[every.unit];
  // Days and months differ in length; with the longest of them this never passes the answer.
  let times = Math.max(1, Math.floor((nowMs - fromMs) / longest));
  while (addEvery(every, fromMs, times, zone) <= nowMs) times += 1;
  return times;
}

const HOUR_MS = 60 * 60 * 1000;
const longestMs = { ms: 1, days: 26 * HOUR_MS, months: 32 * 24 * HOUR_MS } as const;
