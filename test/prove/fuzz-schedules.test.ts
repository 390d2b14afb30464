/** Texts about time: durations, cron lines, windows of the day, whole entries. */
import assert from 'node:assert/strict';
import { formatDuration, parseDuration } from '../../src/base/quantity.ts';
import { parseDocument } from '../../src/config/document.ts';
import { nextCron, parseCron, type Cron } from '../../src/schedule/cron.ts';
import { scheduleEntry, toSchedule } from '../../src/schedule/entry.ts';
import { parseEvery } from '../../src/schedule/schedule.ts';
import { firstSlot, makeTimedSchedule, nextSlot } from '../../src/schedule/plan.ts';
import { parseWindow } from '../../src/schedule/window.ts';
import { localOf, zoneOf } from '../../src/schedule/zone.ts';
import type { Target } from './support/fuzz.ts';
import { fuzzing } from './support/fuzzing.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const MINUTE_MS = 60 * 1000;

const duration: Target = {
  name: 'duration',
  share: 8,
  examples: ['200ms', '5s', '1h30m', '1w2d3h4m5s6ms', '1.5d', '90', '99999999999999999999w', ''],
  words: ['ms', 's', 'm', 'h', 'd', 'w', '.', '.5', '1', '00', '9007199254740991', '-', ' ', 'M'],
  check(input) {
    const parsed = parseDuration(input);
    const every = parseEvery(input);
    if (!parsed.ok) return `${parsed.message} ${every.ok}`;
    assert.ok(Number.isSafeInteger(parsed.ms) && parsed.ms >= 0);
    assert.deepEqual(parseDuration(formatDuration(parsed.ms)), parsed);
    if (every.ok && every.value.unit === 'ms') assert.equal(every.value.count, parsed.ms);
    return `ok ${every.ok}`;
  },
};

/** Start times for cron lines: around both clock changes, and a leap day. */
const moments = [
  Date.parse('2026-03-29T00:30:00Z'),
  Date.parse('2026-10-25T00:59:59.999Z'),
  Date.parse('2027-12-31T23:59:00Z'),
  Date.parse('2028-02-28T12:00:00Z'),
  Date.parse('2038-01-19T03:14:07Z'),
];
const zones = ['UTC', 'Europe/Lisbon', 'America/New_York', 'Asia/Kathmandu', 'Pacific/Apia'];

const cron: Target = {
  name: 'cron',
  share: 2,
  examples: [
    '* * * * *',
    '30 6 * * mon-fri',
    '0 0 1 jan sun',
    '*/15 0-6,22-23 1,15 * *',
    '0 12 29 2 *',
    '59 23 31 12 7',
    '5/10 */3 * feb-nov/2 1-5',
    '@daily',
    '0 0 30 2 *',
  ],
  words: [
    '*',
    '/',
    '-',
    ',',
    ' ',
    '\t',
    '0',
    '7',
    '31',
    '59',
    '60',
    '00',
    '*/0',
    '*/99',
    'jan',
    'DEC',
    'sun',
    'sat',
    '1-1',
    '5-1',
    '0-59',
    '@hourly',
    'L',
    '#',
    '?',
    '29',
    '30 2',
  ],
  check(input) {
    const parsed = parseCron(input);
    if (!parsed.ok) return parsed.message;
    const after = moments[input.length % moments.length] ?? 0;
    const zone = zoneOf(zones[input.charCodeAt(0) % zones.length] ?? 'UTC');
    const inUtc = nextCron(parsed.value, zoneOf('UTC'), after);
    assert.ok(inUtc !== undefined && inUtc > after, 'it never comes');
    assert.ok(matches(parsed.value, inUtc), 'it comes when it should not');
    for (let ms = inUtc - MINUTE_MS; ms > after && ms > inUtc - DAY_MS / 24; ms -= MINUTE_MS) {
      assert.ok(!matches(parsed.value, ms), 'an earlier time was passed over');
    }
    const first = nextCron(parsed.value, zone, after) ?? 0;
    const second = nextCron(parsed.value, zone, first) ?? 0;
    assert.ok(first > after && second > first, 'times do not rise');
    const isMoved = zone.offsetAt(first) !== zone.offsetAt(first - DAY_MS);
    if (!isMoved) assert.ok(matches(parsed.value, localOf(zone, first)), 'wrong in its zone');
    return `ok ${parsed.value.daysBy} ${parsed.value.isRhythm} ${isMoved}`;
  },
};

/** By the calendar alone, one minute at a time. */
function matches({ minutes, hours, days, months, weekdays, daysBy }: Cron, ms: number): boolean {
  const date = new Date(ms);
  const byDay = days.includes(date.getUTCDate());
  const byWeekday = weekdays.includes(date.getUTCDay());
  const onDay = { any: true, day: byDay, weekday: byWeekday, either: byDay || byWeekday }[daysBy];
  const atTime = minutes.includes(date.getUTCMinutes()) && hours.includes(date.getUTCHours());
  return onDay && atTime && months.includes(date.getUTCMonth() + 1);
}

const window: Target = {
  name: 'window',
  share: 8,
  examples: ['08:00-22:00', '22:00-06:00', '0:00-24:00', '7:05 - 9:30', '24:00-01:00', '8-9'],
  words: [':', '-', '00', '24', '59', '60', ' ', '8:00', '08:0', '١٢:00'],
  check(input) {
    const parsed = parseWindow(input);
    if (!parsed.ok) return parsed.message;
    const { start, end } = parsed.value;
    assert.ok(start >= 0 && start < 1440 && end >= 0 && end <= 1440 && start !== end % 1440);
    return `ok ${start < end}`;
  },
};

const entry: Target = {
  name: 'schedule',
  examples: [
    'every: 5m\njitter: 30s\nif_running: queue\n',
    'id: a\ncron: "0 6 * * mon"\ntimezone: Europe/Lisbon\nonly_between: 05:00-09:00\nnot_on: [sat, 0]\n',
    'at: 2027-01-31T08:00:00+01:00\ncommand: sync\npayload: {a: [1]}\n',
    'after: 2h\nquiet_start: 22\nquiet_end: 6\nquiet_action: defer\n',
    'every: month\npreferred_window: {start: "08:00", end: "09:00"}\ncatch_up: run_all\n',
  ],
  words: [
    'every: ',
    'cron: ',
    'at: ',
    'after: ',
    '\n',
    ': ',
    '- ',
    '[]',
    '{}',
    'null',
    '1',
    'daily',
    'weekly',
    'not_on: [mon, tue, wed, thu, fri, sat, sun]',
    '2024-02-30T00:00Z',
    'UTC',
    '"',
    'timezone: GMT+25',
    'jitter: 99d',
    '9999-12-31T23:59:59Z',
    '0000-01-01T00:00Z',
    'handle',
  ],
  check(input) {
    const { value } = parseDocument(input, 'f');
    if (value === undefined) return 'no document';
    const parsed = scheduleEntry.safeParse(value);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`;
    }
    const usual = { timezone: 'UTC', quietHours: { start: undefined, end: undefined } };
    const timed = makeTimedSchedule('p', toSchedule(parsed.data), usual);
    const seen = moments[input.length % moments.length] ?? 0;
    const first = firstSlot(timed, 1, seen);
    if (first === undefined) return `ok ${timed.schedule.timing.mode} never`;
    assert.ok(Number.isFinite(first.slotMs) && first.dueMs >= first.slotMs);
    const next = nextSlot(timed, 2, first.slotMs);
    if (next !== undefined) assert.ok(next.slotMs > first.slotMs, 'times do not rise');
    return `ok ${timed.schedule.timing.mode} ${next !== undefined}`;
  },
};

fuzzing('fuzz-schedules', { cases: 20_000 }, [duration, cron, window, entry]);
