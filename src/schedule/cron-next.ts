import type { Cron } from './cron.ts';
import { weekdayOf } from './window.ts';
import { instantsOf, localOf, toUtc, type Zone } from './zone.ts';

const MINUTE_MS = 60 * 1000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Leap days are at most eight years apart, so whatever comes at all comes within these days. */
const DAYS_MAX = 9 * 366;

/**
 * The first time after a moment, by the clocks of a zone. A time that the clocks skip comes at the
 * first minute after the gap, and one that they show twice comes once, the first time. A rhythm such
 * as every ten minutes goes on in real time through both.
 */
export function nextCron(cron: Cron, zone: Zone, afterMs: number): number | undefined {
  const local = localOf(zone, afterMs);
  // The day before too: where clocks go back over midnight, its times may still come.
  let day = Math.floor(local / DAY_MS) * DAY_MS - DAY_MS;
  for (let looked = 0; looked < DAYS_MAX; looked += 1) {
    if (!cron.months.includes(new Date(day).getUTCMonth() + 1)) {
      const next = startOfNextMonth(day);
      looked += (next - day) / DAY_MS - 1;
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

/** Near a change of the clocks, of the hours that it touches every minute is looked at. */
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
    // A time that is skipped comes after the gap, at most the whole change later.
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
