import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import {
  firstSlot,
  nextSlot,
  planDue,
  type DuePlan,
  type TimedSchedule,
} from '../../src/schedule/plan.ts';
import { at, iso, timed } from './support.ts';

const GRACE_MS = 60_000;

function slots(on: TimedSchedule, from: string, count: number): (string | undefined)[] {
  const found: (string | undefined)[] = [];
  let slot = firstSlot(on, 0, at(from));
  while (found.length < count && slot !== undefined) {
    found.push(iso(slot.dueMs));
    slot = nextSlot(on, found.length, slot.slotMs);
  }
  return found;
}

function plan(on: TimedSchedule, due: string, now: string, completed?: string): DuePlan {
  const state = {
    seq: 1,
    slotMs: at(due),
    dueMs: at(due),
    completedMs: completed === undefined ? undefined : at(completed),
  };
  return planDue(on, state, at(now), GRACE_MS);
}

function shown(made: DuePlan): unknown {
  const next = iso(made.next?.dueMs);
  if (made.kind === 'wait') return { wait: next };
  return { fires: made.kind === 'fire' ? made.slots.map(iso) : [], next };
}

describe('an interval', () => {
  test('is due at once, and then counts from the last completion', () => {
    const on = timed({ every: '1h' });
    expect(iso(firstSlot(on, 0, at('2026-11-15T10:07:00Z'))?.dueMs)).toBe('2026-11-15T10:07:00Z');
    expect(
      shown(plan(on, '2026-11-15T11:00:00Z', '2026-11-15T11:00:00Z', '2026-11-15T10:20:00Z')),
    ).toEqual({ wait: '2026-11-15T11:20:00Z' });
    expect(
      shown(plan(on, '2026-11-15T11:20:00Z', '2026-11-15T11:20:00Z', '2026-11-15T10:20:00Z')),
    ).toEqual({ fires: ['2026-11-15T11:20:00Z'], next: '2026-11-15T12:20:00Z' });
  });

  test("in days keeps the time of day when clocks change, and in hours doesn't", () => {
    expect(slots(timed({ every: 'daily' }, 'Europe/Berlin'), '2026-03-28T08:00:00Z', 3)).toEqual([
      '2026-03-28T08:00:00Z',
      '2026-03-29T07:00:00Z',
      '2026-03-30T07:00:00Z',
    ]);
    expect(slots(timed({ every: '1d' }, 'Europe/Berlin'), '2026-03-28T08:00:00Z', 2)).toEqual([
      '2026-03-28T08:00:00Z',
      '2026-03-29T08:00:00Z',
    ]);
  });

  test('in months fires on the same day, or on the last day of a short month', () => {
    expect(slots(timed({ every: 'monthly' }), '2026-12-31T06:00:00Z', 3)).toEqual([
      '2026-12-31T06:00:00Z',
      '2027-01-31T06:00:00Z',
      '2027-02-28T06:00:00Z',
    ]);
  });

  test('that would come outside of its window moves to the next start', () => {
    const on = timed({ every: '4h', only_between: '08:00-18:00', not_on: ['sat', 'sun'] });
    expect(slots(on, '2026-11-13T12:00:00Z', 4)).toEqual([
      '2026-11-13T12:00:00Z',
      '2026-11-13T16:00:00Z',
      '2026-11-16T08:00:00Z',
      '2026-11-16T12:00:00Z',
    ]);
  });

  test('keeps to a window over midnight: its start is in it, its end is not', () => {
    const on = timed({ every: '1h', only_between: '22:00-06:00' });
    const first = (text: string): string | undefined => iso(firstSlot(on, 0, at(text))?.dueMs);
    expect(first('2026-11-15T21:59:59Z')).toBe('2026-11-15T22:00:00Z');
    expect(first('2026-11-15T22:00:00Z')).toBe('2026-11-15T22:00:00Z');
    expect(first('2026-11-16T05:59:59Z')).toBe('2026-11-16T05:59:59Z');
    expect(first('2026-11-16T06:00:00Z')).toBe('2026-11-16T22:00:00Z');
  });
});

describe('a cron line', () => {
  test('passes times that only_between and not_on forbid', () => {
    const on = timed({ cron: '0 */6 * * *', only_between: '05:00-13:00', not_on: ['sunday'] });
    expect(slots(on, '2026-11-14T00:00:00Z', 4)).toEqual([
      '2026-11-14T06:00:00Z',
      '2026-11-14T12:00:00Z',
      '2026-11-16T06:00:00Z',
      '2026-11-16T12:00:00Z',
    ]);
  });

  test('is moved by the preferred window, and what moves to the same start comes once', () => {
    const on = timed({ cron: '0 * * * *', preferred_window: { start: '02:30', end: '04:30' } });
    expect(slots(on, '2026-11-15T00:00:00Z', 4)).toEqual([
      '2026-11-15T02:30:00Z',
      '2026-11-15T03:00:00Z',
      '2026-11-15T04:00:00Z',
      '2026-11-16T02:30:00Z',
    ]);
  });
});

test('a one-time schedule fires at its time, or when it was first seen', () => {
  expect(slots(timed({ at: '2026-11-15T12:00:00+02:00' }), '2026-01-01T00:00:00Z', 9)).toEqual([
    '2026-11-15T10:00:00Z',
  ]);
  expect(slots(timed({ after: '90s' }), '2026-01-01T00:00:00Z', 9)).toEqual([
    '2026-01-01T00:01:30Z',
  ]);
  expect(
    shown(plan(timed({ after: '90s' }), '2026-01-01T00:01:30Z', '2026-06-01T00:00:00Z')),
  ).toEqual({ fires: ['2026-01-01T00:01:30Z'], next: undefined });
});

describe('jitter', () => {
  const range = Array.from({ length: 200 }, (_, seq) => seq);

  test('is the same on every host, differs from run to run, and stays in its range', () => {
    const hosts = [0, 1].map(() => timed({ cron: '0 * * * *', jitter: '10m' }));
    const [one, two] = hosts.map((on) =>
      range.map((seq) => nextSlot(on, seq, at('2026-11-15T00:30:00Z'))?.dueMs ?? 0),
    );
    expect(one).toEqual(two);
    const offsets = (one ?? []).map((ms) => ms - at('2026-11-15T01:00:00Z'));
    expect(Math.min(...offsets)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...offsets)).toBeLessThan(10 * 60_000);
    expect(new Set(offsets).size).toBeGreaterThan(150);
  });

  test('lies around the time of an interval, and never leads out of a window', () => {
    const after = at('2026-11-15T10:00:00Z');
    const around = timed({ every: '1h', jitter: '10m' });
    const offsets = range.map(
      (seq) => (nextSlot(around, seq, after)?.dueMs ?? 0) - after - 3_600_000,
    );
    expect(Math.min(...offsets)).toBeLessThan(-60_000);
    expect(Math.max(...offsets)).toBeGreaterThan(60_000);
    expect(offsets.every((ms) => Math.abs(ms) <= 5 * 60_000)).toBe(true);
    const within = timed({ every: '1h', jitter: '30m', only_between: '08:00-11:10' });
    for (const seq of range) {
      const due = new Date(nextSlot(within, seq, after)?.dueMs ?? 0);
      expect(due.getUTCHours() * 60 + due.getUTCMinutes()).toBeLessThan(11 * 60 + 10);
    }
  });
});

describe('times that were missed', () => {
  const DOWN = ['2026-11-15T10:00:00Z', '2026-11-15T13:30:00Z'] as const;

  test.each([
    ['every: skip', { every: '1h' }, [], '2026-11-15T14:00:00Z'],
    ['cron: skip', { cron: '0 * * * *' }, [], '2026-11-15T14:00:00Z'],
    [
      'every: run_once',
      { every: '1h', catch_up: 'run_once' },
      ['2026-11-15T10:00:00Z'],
      '2026-11-15T14:30:00Z',
    ],
    [
      'cron: run_once',
      { cron: '0 * * * *', catch_up: 'run_once' },
      ['2026-11-15T10:00:00Z'],
      '2026-11-15T14:00:00Z',
    ],
    [
      'every: run_all',
      { every: '1h', catch_up: 'run_all' },
      [10, 11, 12, 13].map((hour) => `2026-11-15T${hour}:00:00Z`),
      '2026-11-15T14:30:00Z',
    ],
    [
      'cron: run_all',
      { cron: '0 * * * *', catch_up: 'run_all' },
      [10, 11, 12, 13].map((hour) => `2026-11-15T${hour}:00:00Z`),
      '2026-11-15T14:00:00Z',
    ],
  ])('%s', (_, entry, fires, next) => {
    expect(shown(plan(timed(entry), ...DOWN))).toEqual({ fires, next });
  });

  test('a little late is not missed', () => {
    expect(
      shown(plan(timed({ cron: '0 * * * *' }), '2026-11-15T10:00:00Z', '2026-11-15T10:00:59Z')),
    ).toEqual({ fires: ['2026-11-15T10:00:00Z'], next: '2026-11-15T11:00:00Z' });
  });

  test('are made up for up to a limit, the oldest first', () => {
    const on = timed({ cron: '* * * * *', catch_up: 'run_all' });
    const made = plan(on, '2026-01-01T00:00:00Z', '2027-01-01T00:00:30Z');
    expect(made.kind === 'fire' && made.slots.length).toBe(limits.catchUpJobsMax);
    expect(iso(made.next?.dueMs)).toBe('2027-01-01T00:01:00Z');
  });
});

describe('a late slot', () => {
  const office = { only_between: '08:00-18:00', not_on: ['sunday'] };
  const night = { preferred_window: { start: '02:30', end: '04:30' } };
  // A Saturday evening, a Monday morning.
  const [EVENING, MORNING] = ['2026-11-14T20:00:00Z', '2026-11-16T08:00:00Z'];

  test.each([
    ['cron: run_once', { cron: '0 * * * *', catch_up: 'run_once', ...office }],
    ['every: run_all', { every: '1h', catch_up: 'run_all', ...office }],
    ['at', { at: '2026-11-14T16:00:00Z', ...office }],
    ['after', { after: '1h', ...office }],
  ])('%s waits for a moment that its windows allow', (_, entry) => {
    expect(shown(plan(timed(entry), '2026-11-14T16:00:00Z', EVENING))).toEqual({ wait: MORNING });
  });

  test('is moved into the preferred window', () => {
    const on = timed({ cron: '0 * * * *', catch_up: 'run_once', ...night });
    expect(shown(plan(on, '2026-11-14T03:00:00Z', '2026-11-14T10:00:00Z'))).toEqual({
      wait: '2026-11-15T02:30:00Z',
    });
  });

  /** The result at the postponed moment. */
  function putOff(entry: Readonly<Record<string, unknown>>): unknown {
    const on = timed(entry);
    const [slotMs, dueMs] = [at('2026-11-14T16:00:00Z'), at(MORNING)];
    const state = { seq: 1, slotMs, dueMs, completedMs: undefined };
    return shown(planDue(on, state, dueMs, GRACE_MS));
  }

  test('comes as catch_up says when that moment has come', () => {
    const once = { cron: '0 * * * *', catch_up: 'run_once', ...office };
    const missed = ['14T16', '14T17', '16T08'].map((hour) => `2026-11-${hour}:00:00Z`);
    expect(putOff(once)).toEqual({ fires: missed.slice(0, 1), next: '2026-11-16T09:00:00Z' });
    expect(putOff({ ...once, catch_up: 'run_all' })).toEqual({
      fires: missed,
      next: '2026-11-16T09:00:00Z',
    });
    expect(putOff({ every: '1h', catch_up: 'run_all', ...office })).toEqual({
      fires: missed,
      next: '2026-11-16T09:00:00Z',
    });
    expect(putOff({ at: '2026-11-14T16:00:00Z', ...office })).toEqual({
      fires: missed.slice(0, 1),
      next: undefined,
    });
  });

  test('passes at once when nothing is made up for', () => {
    const on = timed({ cron: '0 * * * *', ...office });
    expect(shown(plan(on, '2026-11-14T16:00:00Z', EVENING))).toEqual({ fires: [], next: MORNING });
  });

  test('by less than counts as missed comes although its window has just closed', () => {
    const on = timed({ cron: '59 17 * * *', ...office });
    expect(shown(plan(on, '2026-11-14T17:59:00Z', '2026-11-14T18:00:00Z'))).toMatchObject({
      fires: ['2026-11-14T17:59:00Z'],
    });
  });
});

test('the calendar of a zone is made once for all schedules in it', () => {
  const names = Intl.supportedValuesOf('timeZone').slice(0, 40);
  const made = vi.spyOn(Intl, 'DateTimeFormat');
  onTestFinished(() => made.mockRestore());
  for (let index = 0; index < 1000; index += 1) {
    const on = timed({ cron: `${index % 60} 3 * * *` }, names[index % names.length]);
    nextSlot(on, 0, at('2026-11-15T00:00:00Z'));
  }
  expect(made.mock.calls.length).toBeLessThanOrEqual(2 * names.length);
});
