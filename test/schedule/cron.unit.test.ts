import { describe, expect, test } from 'vitest';
import { nextCron, parseCron, type Cron } from '../../src/schedule/cron.ts';
import { zoneOf } from '../../src/schedule/zone.ts';
import { at, iso } from './support.ts';

function parse(text: string): Cron {
  const parsed = parseCron(text);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.value;
}

function times(text: string, zone: string, from: string, count: number): (string | undefined)[] {
  const cron = parse(text);
  const found: (string | undefined)[] = [];
  let after: number | undefined = at(from);
  while (found.length < count && after !== undefined) {
    after = nextCron(cron, zoneOf(zone), after);
    found.push(iso(after));
  }
  return found;
}

describe('a cron line', () => {
  test('has lists, ranges, steps and names, and 7 is Sunday', () => {
    expect(parse('0,30 8-10 */10 jan,MAR-apr 5-7')).toMatchObject({
      minutes: [0, 30],
      hours: [8, 9, 10],
      days: [1, 11, 21, 31],
      months: [1, 3, 4],
      weekdays: [0, 5, 6],
      daysBy: 'either',
    });
    expect(parse('5/20 * * * sun').minutes).toEqual([5, 25, 45]);
    expect(parse('* * * * *').weekdays).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  test.each([
    ['* * * *', 'has 4 fields instead of five'],
    ['60 * * * *', 'has "60" as minute'],
    ['* 24 * * *', 'has "24" as hour'],
    ['* * 0 * *', 'has "0" as day of month'],
    ['* * * 13 *', 'has "13" as month'],
    ['* * * * 8', 'has "8" as day of week'],
    ['5-1 * * * *', 'has "5-1" as minute'],
    ['*/0 * * * *', 'has "*/0" as minute'],
    ['*-5 * * * *', 'has "*-5" as minute'],
    ['1,,2 * * * *', 'has "" as minute'],
    ['0 0 31 2,4 *', 'never matches'],
    ['0 0 30 feb *', 'never matches'],
    [`${'1,'.repeat(1000)}1 * * * *`, 'fields'],
  ])('%s is refused', (text, message) => {
    expect(parseCron(text)).toMatchObject({ ok: false, message: expect.stringContaining(message) });
  });

  test('with both kinds of days comes on either, with one star on the other alone', () => {
    expect(times('0 0 13 * fri', 'UTC', '2026-11-01T00:00:00Z', 4)).toEqual([
      '2026-11-06T00:00:00Z',
      '2026-11-13T00:00:00Z',
      '2026-11-20T00:00:00Z',
      '2026-11-27T00:00:00Z',
    ]);
    expect(times('0 0 13 * *', 'UTC', '2026-11-01T00:00:00Z', 2)).toEqual([
      '2026-11-13T00:00:00Z',
      '2026-12-13T00:00:00Z',
    ]);
  });

  test('finds a leap day over a century that has none', () => {
    expect(times('0 12 29 2 *', 'UTC', '2096-03-01T00:00:00Z', 1)).toEqual([
      '2104-02-29T12:00:00Z',
    ]);
  });

  test('is strictly later than the given moment', () => {
    expect(times('*/15 * * * *', 'UTC', '2026-11-15T10:15:00Z', 2)).toEqual([
      '2026-11-15T10:30:00Z',
      '2026-11-15T10:45:00Z',
    ]);
    expect(times('59 23 31 12 *', 'UTC', '2026-12-31T23:58:59Z', 2)).toEqual([
      '2026-12-31T23:59:00Z',
      '2027-12-31T23:59:00Z',
    ]);
  });

  test('is read in its zone, also in one with half hours', () => {
    expect(times('30 6 * * *', 'Asia/Kolkata', '2026-11-15T00:00:00Z', 1)).toEqual([
      '2026-11-15T01:00:00Z',
    ]);
  });
});

describe('when clocks go forward', () => {
  // In Berlin 02:00 became 03:00 on 2026-03-29, at 01:00 UTC.
  test('a time that does not exist comes at the first minute after the gap', () => {
    expect(times('30 2 * * *', 'Europe/Berlin', '2026-03-28T00:00:00Z', 3)).toEqual([
      '2026-03-28T01:30:00Z',
      '2026-03-29T01:00:00Z',
      '2026-03-30T00:30:00Z',
    ]);
  });

  test('several such times, and the one after them, come once', () => {
    expect(times('0,30 2,3 * * *', 'Europe/Berlin', '2026-03-29T00:00:00Z', 3)).toEqual([
      '2026-03-29T01:00:00Z',
      '2026-03-29T01:30:00Z',
      '2026-03-30T00:00:00Z',
    ]);
  });

  test('a rhythm continues in real time', () => {
    expect(times('*/30 * * * *', 'Europe/Berlin', '2026-03-29T00:00:00Z', 4)).toEqual([
      '2026-03-29T00:30:00Z',
      '2026-03-29T01:00:00Z',
      '2026-03-29T01:30:00Z',
      '2026-03-29T02:00:00Z',
    ]);
    expect(times('0 */2 * * *', 'Europe/Berlin', '2026-03-28T22:30:00Z', 3)).toEqual([
      '2026-03-28T23:00:00Z',
      '2026-03-29T02:00:00Z',
      '2026-03-29T04:00:00Z',
    ]);
  });

  test('a midnight that is skipped comes at one', () => {
    expect(times('0 0 * * *', 'America/Sao_Paulo', '2018-11-03T12:00:00Z', 2)).toEqual([
      '2018-11-04T03:00:00Z',
      '2018-11-05T02:00:00Z',
    ]);
  });
});

describe('when clocks go back', () => {
  // In Berlin 03:00 became 02:00 on 2026-10-25, at 01:00 UTC.
  test('a time that exists twice comes once, the first time', () => {
    expect(times('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 2)).toEqual([
      '2026-10-25T00:30:00Z',
      '2026-10-26T01:30:00Z',
    ]);
  });

  test('a rhythm continues in real time', () => {
    expect(times('*/30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 5)).toEqual([
      '2026-10-25T00:00:00Z',
      '2026-10-25T00:30:00Z',
      '2026-10-25T01:00:00Z',
      '2026-10-25T01:30:00Z',
      '2026-10-26T01:00:00Z',
    ]);
    expect(times('0 * * * *', 'America/New_York', '2026-11-01T04:30:00Z', 3)).toEqual([
      '2026-11-01T05:00:00Z',
      '2026-11-01T06:00:00Z',
      '2026-11-01T07:00:00Z',
    ]);
  });

  test('half an hour is enough of a change', () => {
    // Lord Howe goes back from 02:00 to 01:30 on 2026-04-05, at 15:00 UTC the day before.
    expect(times('45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T00:00:00Z', 2)).toEqual([
      '2026-04-04T14:45:00Z',
      '2026-04-05T15:15:00Z',
    ]);
  });
});

test('a year of every minute is one step after the other in every zone', () => {
  const cron = parse('*/20 * * * *');
  for (const name of ['Europe/Berlin', 'America/St_Johns', 'Africa/Casablanca', 'Pacific/Apia']) {
    const zone = zoneOf(name);
    let ms = at('2026-01-01T00:00:00Z');
    const offset = zone.offsetAt(ms) % (20 * 60_000);
    for (let step = 0; step < (365 * 24 * 60) / 20; step += 1) {
      const next = nextCron(cron, zone, ms) ?? 0;
      if (step > 0) expect(next - ms).toBe(20 * 60_000);
      ms = next;
    }
    expect((ms + offset) % (20 * 60_000)).toBe(0);
  }
});

test.each([
  ['Europe/Berlin', '2026-03-29T00:00:00Z'],
  ['Europe/Berlin', '2026-10-25T00:00:00Z'],
  ['Australia/Lord_Howe', '2026-04-04T14:00:00Z'],
  ['Australia/Lord_Howe', '2026-10-03T14:00:00Z'],
  ['Africa/Cairo', '2026-04-23T21:00:00Z'],
  ['America/Havana', '2026-11-01T04:00:00Z'],
  ['Pacific/Apia', '2011-12-30T09:00:00Z'],
  ['Asia/Kathmandu', '2026-03-29T00:00:00Z'],
])('every minute comes, once, around %s %s', (name, middle) => {
  const cron = parse('* * * * *');
  const from = Date.parse(middle) - 30 * 60 * 60_000;
  let ms = from;
  for (let minute = 1; minute <= 60 * 60; minute += 1) {
    ms = nextCron(cron, zoneOf(name), ms) ?? 0;
    expect(ms).toBe(from + minute * 60_000);
  }
});
