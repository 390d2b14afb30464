import { parseOk, parseFault, type ParseResult } from '../base/quantity.ts';
import { weekdayOf } from './window.ts';
import { instantsOf, localOf, toUtc, type Zone } from './zone.ts';

/** A cron line of five fields. The values of each are sorted. */
export interface Cron {
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: readonly number[];
  readonly months: readonly number[];
  /** 0 is Sunday. */
  readonly weekdays: readonly number[];
  /** Which fields restrict the days. `either`: both do, combined with "or". */
  readonly daysBy: 'any' | 'day' | 'weekday' | 'either';
  /**
   * Minutes or hours begin with `*`: a fixed rhythm that continues in real time through clock
   * changes.
   */
  readonly isRhythm: boolean;
}

const fields = [
  { name: 'minute', min: 0, max: 59, words: [] },
  { name: 'hour', min: 0, max: 23, words: [] },
  { name: 'day of month', min: 1, max: 31, words: [] },
  {
    name: 'month',
    min: 1,
    max: 12,
    words: 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' '),
  },
  { name: 'day of week', min: 0, max: 7, words: 'sun mon tue wed thu fri sat'.split(' ') },
] as const;

type Field = (typeof fields)[number];

/** Longer lines are refused before parsing. */
const TEXT_CHARS_MAX = 400;
const FORM =
  'Write five fields: minute hour day-of-month month day-of-week, as in "30 6 * * mon-fri".';

export function parseCron(text: string): ParseResult<Cron> {
  const parts = text.trim().split(/\s+/);
  if (text.length > TEXT_CHARS_MAX || parts.length !== fields.length) {
    return parseFault(`has ${parts.length} fields instead of five`, FORM);
  }
  const values: number[][] = [];
  for (const [index, field] of fields.entries()) {
    const parsed = parseField(field, parts[index] ?? '');
    if (!parsed.ok) return parsed;
    values.push(parsed.value);
  }
  const [minutes = [], hours = [], days = [], months = [], sevens = []] = values;
  const weekdays = [...new Set(sevens.map((day) => day % 7))].sort((a, b) => a - b);
  const daysBy = daysByOf(parts[2] !== '*', parts[4] !== '*');
  if (daysBy === 'day' && !months.some((month) => days.some((day) => day <= longest(month)))) {
    return parseFault('never matches: no month has that day', FORM);
  }
  const isRhythm = parts.slice(0, 2).some((part) => part.startsWith('*'));
  return parseOk({ minutes, hours, days, months, weekdays, daysBy, isRhythm });
}

function daysByOf(byDay: boolean, byWeekday: boolean): Cron['daysBy'] {
  if (byDay) return byWeekday ? 'either' : 'day';
  return byWeekday ? 'weekday' : 'any';
}

function longest(month: number): number {
  return month === 2 ? 29 : [4, 6, 9, 11].includes(month) ? 30 : 31;
}

function parseField(field: Field, text: string): ParseResult<number[]> {
  const values = new Set<number>();
  for (const item of text.split(',')) {
    const range = parseItem(field, item);
    if (range === undefined) {
      const shown = JSON.stringify(item);
      return parseFault(`has ${shown} as ${field.name}, which is not ${bounds(field)}`, FORM);
    }
    for (let value = range.first; value <= range.last; value += range.step) values.add(value);
  }
  return parseOk([...values].sort((a, b) => a - b));
}

function bounds({ min, max }: Field): string {
  return `${min} to ${max}, a list, an ascending range, or a step`;
}

interface Range {
  readonly first: number;
  readonly last: number;
  readonly step: number;
}

/**
 * Parses `*`, `5` or `1-5`, each with an optional `/2`. A single value with a step extends to the
 * end.
 */
function parseItem(field: Field, item: string): Range | undefined {
  const match = /^(\*|[a-z0-9]+)(?:-([a-z0-9]+))?(?:\/(\d{1,2}))?$/i.exec(item);
  if (match === null) return undefined;
  const [, from = '', to, stepText] = match;
  const step = stepText === undefined ? 1 : Number(stepText);
  if (step === 0) return undefined;
  if (from === '*') {
    return to === undefined ? { first: field.min, last: wholeEnd(field), step } : undefined;
  }
  const first = parseValue(field, from);
  const last = to === undefined ? undefined : parseValue(field, to);
  if (first === undefined || (to !== undefined && last === undefined)) return undefined;
  const end = last ?? (stepText === undefined ? first : wholeEnd(field));
  return first <= end ? { first, last: end, step } : undefined;
}

/** Returns the end of `*`: 7 is another name of Sunday, not an eighth day. */
function wholeEnd({ max }: Field): number {
  return max === 7 ? 6 : max;
}

function parseValue({ min, max, words }: Field, text: string): number | undefined {
  const word = words.findIndex((name) => name === text.toLowerCase());
  if (word !== -1) return min + word;
  const value = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}

const MINUTE_MS = 60 * 1000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * Leap days are at most eight years apart, so every line that ever matches does so within these
 * days.
 */
const DAYS_MAX = 9 * 366;

/**
 * Finds the first match after a moment, by the clocks of a zone. A time that the clocks skip comes
 * at the first minute after the gap. A time that they show twice comes once, the first time. A
 * rhythm such as every ten minutes continues in real time through both.
 */
export function nextCron(cron: Cron, zone: Zone, afterMs: number): number | undefined {
  const local = localOf(zone, afterMs);
  // Includes the day before: if clocks go back over midnight, its times can still come.
  let day = Math.floor(local / DAY_MS) * DAY_MS - DAY_MS;
  for (let days = 0; days < DAYS_MAX; days += 1) {
    if (!cron.months.includes(new Date(day).getUTCMonth() + 1)) {
      const next = startOfNextMonth(day);
      days += (next - day) / DAY_MS - 1;
      day = next;
      continue;
    }
    const found = matchesDay(cron, day) ? firstOfDay(cron, zone, day, afterMs) : undefined;
    if (found !== undefined) return found;
    day += DAY_MS;
  }
  return undefined;
}

function startOfNextMonth(day: number): number {
  const date = new Date(day);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}

function matchesDay({ daysBy, days, weekdays }: Cron, day: number): boolean {
  const byDay = days.includes(new Date(day).getUTCDate());
  const byWeekday = weekdays.includes(weekdayOf(day));
  if (daysBy === 'either') return byDay || byWeekday;
  return (daysBy === 'weekday' || byDay) && (daysBy === 'day' || byWeekday);
}

function firstOfDay(cron: Cron, zone: Zone, day: number, afterMs: number): number | undefined {
  const offset = zone.offsetAt(day - 2 * DAY_MS);
  const isPlain =
    offset === zone.offsetAt(day + 3 * DAY_MS) && offset === zone.offsetAt(day + DAY_MS);
  return isPlain
    ? firstOfPlainDay(cron, day - offset, afterMs)
    : firstOfChangingDay(cron, zone, day, afterMs);
}

function firstOfPlainDay(
  { hours, minutes }: Cron,
  startMs: number,
  afterMs: number,
): number | undefined {
  for (const hour of hours) {
    const first = firstOfPlainHour(minutes, startMs + hour * HOUR_MS, afterMs);
    if (first !== undefined) return first;
  }
  return undefined;
}

function firstOfPlainHour(
  minutes: readonly number[],
  startMs: number,
  afterMs: number,
): number | undefined {
  if (startMs + HOUR_MS <= afterMs) return undefined;
  const minute = minutes.find((value) => startMs + value * MINUTE_MS > afterMs);
  return minute === undefined ? undefined : startMs + minute * MINUTE_MS;
}

/** Finds the first match near a clock change, where every minute of the affected hours is checked. */
function firstOfChangingDay(
  cron: Cron,
  zone: Zone,
  day: number,
  afterMs: number,
): number | undefined {
  const offsets = [zone.offsetAt(day - 2 * DAY_MS), zone.offsetAt(day + 3 * DAY_MS)];
  const [most, least] = [Math.max(...offsets), Math.min(...offsets)];
  let first: number | undefined;
  for (const hour of cron.hours) {
    const local = day + hour * HOUR_MS;
    // A skipped time comes after the gap, at most by the size of the change later.
    if (local + HOUR_MS - least + (most - least) <= afterMs) continue;
    if (first !== undefined && local - most > first) break;
    const offset = zone.offsetAt(local - most);
    const found =
      offset === zone.offsetAt(local + HOUR_MS - least)
        ? firstOfPlainHour(cron.minutes, local - offset, afterMs)
        : firstOfChangingHour(cron, zone, local, afterMs);
    if (found !== undefined && (first === undefined || found < first)) first = found;
  }
  return first;
}

function firstOfChangingHour(
  { minutes, isRhythm }: Cron,
  zone: Zone,
  hour: number,
  afterMs: number,
): number | undefined {
  const times = minutes.flatMap((minute) => {
    const local = hour + minute * MINUTE_MS;
    return isRhythm ? instantsOf(zone, local) : [toUtc(zone, local)];
  });
  const later = times.filter((ms) => ms > afterMs);
  return later.length === 0 ? undefined : Math.min(...later);
}
