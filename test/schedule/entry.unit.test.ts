import { describe, expect, test } from 'vitest';
import { faults, schedule } from './support.ts';

describe('a schedule entry', () => {
  test('has defaults for all but its timing', () => {
    expect(schedule({ every: '5m' })).toEqual({
      id: 'default',
      timing: { mode: 'every', text: '5m', every: { unit: 'ms', count: 300_000 } },
      command: 'poll',
      payload: {},
      jitterMs: 0,
      catchUp: 'skip',
      ifRunning: 'skip',
      onlyBetween: undefined,
      notOn: [],
      preferredWindow: undefined,
      timezone: undefined,
      quiet: { start: undefined, end: undefined },
      quietAction: 'skip',
      dependency: undefined,
    });
  });

  test.each([
    ['5m', { unit: 'ms', count: 300_000 }],
    ['1h30m', { unit: 'ms', count: 5_400_000 }],
    ['2d', { unit: 'ms', count: 172_800_000 }],
    ['2w', { unit: 'ms', count: 1_209_600_000 }],
    ['hourly', { unit: 'ms', count: 3_600_000 }],
    ['daily', { unit: 'days', count: 1 }],
    ['weekly', { unit: 'days', count: 7 }],
    ['monthly', { unit: 'months', count: 1 }],
  ])('every %s', (every, expected) => {
    expect(schedule({ every }).timing).toMatchObject({ every: expected });
  });

  test('takes days by name, short name and number, where 0 and 7 are Sunday', () => {
    const notOn = ['Saturday', 'sun', 7, '3'];
    expect(schedule({ every: '1h', not_on: notOn }).notOn).toEqual([0, 3, 6]);
  });

  test('takes a window over midnight, and one to the end of the day', () => {
    expect(schedule({ every: '1h', only_between: '22:00-06:00' }).onlyBetween).toEqual({
      start: 22 * 60,
      end: 6 * 60,
    });
    expect(schedule({ every: '1h', only_between: '08:00-24:00' }).onlyBetween?.end).toBe(24 * 60);
  });

  test('ignores keys without a value', () => {
    expect(schedule({ every: '1h', cron: null, jitter: null }).timing.mode).toBe('every');
  });

  test.each([
    [{}, 'every: or one of cron, at and after is required'],
    [{ every: '1h', cron: '* * * * *' }, 'cron: and every exclude each other'],
    [{ every: '0s' }, 'every: must be between'],
    [{ every: 'often' }, 'every: is not a duration'],
    [{ every: '5' }, 'every: needs a unit'],
    [{ cron: '0 0 31 2 *' }, 'cron: never matches'],
    [{ at: 'tomorrow' }, 'at: is not a date with a time'],
    [{ at: '2026-01-01T00:00:00' }, 'at: is not a date with a time'],
    [{ after: '-5m' }, 'after: is not a duration'],
    [{ every: '1h', command: 'handle' }, 'command: must not be handle'],
    [{ every: '1h', jitter: 'some' }, 'jitter: is not a duration'],
    [{ every: '1h', timezone: 'Mars/Base' }, 'timezone: is not a time zone'],
    [{ every: '1h', not_on: ['someday'] }, 'not_on.0: is not a day of the week'],
    [{ every: '1h', not_on: [0, 1, 2, 3, 4, 5, 6] }, 'not_on: leaves no time'],
    [{ every: '1h', only_between: '08:00-08:00' }, 'only_between: starts and ends'],
    [{ every: '1h', only_between: '8-9' }, 'only_between: is not a window'],
    [{ every: '1h', only_between: '08:00-25:00' }, 'only_between: is not a window'],
    [
      {
        every: '1h',
        only_between: '08:00-12:00',
        preferred_window: { start: '13:00', end: '14:00' },
      },
      'preferred_window: leaves no time',
    ],
    [{ cron: '0 9 * * *', only_between: '10:00-11:00' }, 'cron: never matches a time'],
    [{ cron: '0 9 * * sat', not_on: ['sat'] }, 'cron: never matches a time'],
    [{ at: '2026-01-01T00:00:00Z', catch_up: 'run_all' }, 'catch_up: is only for every and cron'],
    [{ every: '1h', catch_up: 'always' }, 'catch_up: '],
    [{ at: '2027-02-31T08:00:00Z' }, 'at: is not a date with a time'],
    [{ every: '1h', when: 'late' }, ': Unrecognized key'],
    [{ every: '1h', quiet_start: 24 }, 'quiet_start: '],
    [{ every: '1h', quiet_end: -1 }, 'quiet_end: '],
    [{ every: '1h', quiet_action: 'wait' }, 'quiet_action: '],
    [{ cron: '0 22-23 * * *', quiet_start: 21, quiet_end: 8 }, 'cron: matches only quiet hours'],
    [{ every: '1h', dependency: ' ' }, 'dependency: must not be blank'],
    [{ every: '1h', dependency: 'a\u0000' }, 'dependency: must not contain control characters'],
    [{ every: '1h', dependency: 'a'.repeat(201) }, 'dependency: '],
  ])('%j is refused', (entry, message) => {
    expect(faults(entry).join('\n')).toContain(message);
  });

  test('is checked in bounded time, however hostile', () => {
    const before = process.cpuUsage();
    const numbers = Array.from({ length: 100_000 }, (_, index) => index % 60).join(',');
    expect(faults({ cron: `${numbers} * * * *` })).not.toEqual([]);
    expect(faults({ every: '9'.repeat(100_000) })).not.toEqual([]);
    expect(faults({ every: '1h', timezone: 'A/'.repeat(50_000) })).not.toEqual([]);
    // Only this process's own time counts, so that a busy machine doesn't matter.
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  });
});
