/** Windows and quiet hours of a schedule, with plain data. */
import { describe, expect, test } from 'vitest';
import { describeScheduleHours } from '../../src/insight/why/schedule-holds.ts';
import { timed } from '../schedule/support.ts';

const usual = { start: 22, end: 6 };

function hours(entry: Readonly<Record<string, unknown>>, now: string, dueAt: string) {
  const quiet = entry['usual'] === true ? usual : undefined;
  const { usual: _, ...rest } = entry;
  return describeScheduleHours({
    timed: timed(rest, 'UTC', quiet),
    now,
    seq: 1,
    slotAt: dueAt,
    dueAt,
  });
}

const noon = '2030-01-01T12:00:00.000Z';
const night = '2030-01-01T23:00:00.000Z';
const deep = '2030-01-02T03:00:00.000Z';
const morning = '2030-01-02T08:00:00.000Z';

describe('a schedule', () => {
  test('that may fire now and at its next time is not held back', () => {
    expect(hours({ cron: '0 3 * * *' }, noon, deep)).toBeUndefined();
    expect(hours({ every: '1h', only_between: '08:00-22:00' }, noon, noon)).toBeUndefined();
  });

  test('outside of its window says which and when it opens', () => {
    expect(hours({ every: '1h', only_between: '08:00-22:00' }, night, morning)).toMatchObject({
      fact: 'it is outside the hours in which it fires',
      evidence: 'only_between: 08:00-22:00 (UTC)',
      movesAt: morning,
    });
  });

  test('on a day that it leaves out says so', () => {
    const explanation = hours(
      { every: '1h', not_on: ['tuesday'] },
      noon,
      '2030-01-02T00:00:00.000Z',
    );
    expect(explanation?.fact).toMatch(/day of the week/);
  });

  test('whose next time is quiet is left out, and fires at the first that is not', () => {
    const explanation = hours({ cron: '0 3,12 * * *', usual: true }, noon, deep);
    expect(explanation).toMatchObject({
      fact: expect.stringMatching(/until 2030-01-02T06:00:00.000Z, and is skipped/) as string,
      evidence: 'service.quiet_hours: 22:00-06:00 (UTC)',
      movesAt: '2030-01-02T12:00:00.000Z',
    });
  });

  test('that is due in quiet hours alone says that no time is near', () => {
    expect(hours({ cron: '0 3 * * *', usual: true }, noon, deep)).toMatchObject({
      movesAt: null,
      movesBy: expect.stringMatching(/none is near/) as string,
    });
  });

  test('that defers instead of skipping fires at the end of the quiet hours', () => {
    const entry = { cron: '0 3 * * *', quiet_start: 22, quiet_end: 6, quiet_action: 'defer' };
    expect(hours(entry, noon, deep)).toMatchObject({
      fact: expect.stringMatching(/deferred/) as string,
      evidence: 'quiet_start and quiet_end: 22:00-06:00 (UTC)',
      movesAt: '2030-01-02T06:00:00.000Z',
    });
    expect(hours(entry, night, '2030-01-02T06:00:00.000Z')?.fact).toMatch(/due after them/);
  });
});
