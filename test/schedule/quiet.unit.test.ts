import { describe, expect, test } from 'vitest';
import { quietUntil, type QuietHours } from '../../src/schedule/window.ts';
import { zoneOf } from '../../src/schedule/zone.ts';

const none: QuietHours = { start: undefined, end: undefined };
const utc = zoneOf('UTC');

function until(at: string, own: QuietHours, usual = none, zone = utc): string | undefined {
  const ms = quietUntil(own, usual, Date.parse(at), zone);
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

describe('C-01 quiet hours', () => {
  const night = { start: 21, end: 8 };
  const noon = { start: 12, end: 14 };

  test.each([
    ['2026-11-16T20:59:59.999Z', night, undefined],
    ['2026-11-16T21:00:00.000Z', night, '2026-11-17T08:00:00.000Z'],
    ['2026-11-17T00:00:00.000Z', night, '2026-11-17T08:00:00.000Z'],
    ['2026-11-17T07:59:59.999Z', night, '2026-11-17T08:00:00.000Z'],
    ['2026-11-17T08:00:00.000Z', night, undefined],
    ['2026-11-16T11:59:59.999Z', noon, undefined],
    ['2026-11-16T12:00:00.000Z', noon, '2026-11-16T14:00:00.000Z'],
    ['2026-11-16T13:59:59.999Z', noon, '2026-11-16T14:00:00.000Z'],
    ['2026-11-16T14:00:00.000Z', noon, undefined],
    ['2026-11-16T23:30:00.000Z', { start: 22, end: 0 }, '2026-11-17T00:00:00.000Z'],
    ['2026-11-16T00:00:00.000Z', { start: 0, end: 6 }, '2026-11-16T06:00:00.000Z'],
    ['2026-11-16T23:59:00.000Z', { start: 0, end: 6 }, undefined],
  ])('at %s with %j end at %s', (at, hours, expected) => {
    expect(until(at, hours)).toBe(expected);
  });

  test('that begin and end at the same hour are none', () => {
    for (const hour of ['00', '08', '12']) {
      expect(until(`2026-11-16T${hour}:00:00Z`, { start: 8, end: 8 })).toBeUndefined();
    }
  });

  test('take each side that is not said from the usual ones', () => {
    const at = '2026-11-16T22:00:00Z';
    expect(until(at, none, night)).toBe('2026-11-17T08:00:00.000Z');
    expect(until(at, { start: 23, end: undefined }, night)).toBeUndefined();
    expect(until(at, { start: undefined, end: 23 }, night)).toBe('2026-11-16T23:00:00.000Z');
    expect(until(at, { start: 21, end: undefined })).toBeUndefined();
    expect(until(at, none)).toBeUndefined();
  });

  test('are those of the clock on the wall', () => {
    const berlin = zoneOf('Europe/Berlin');
    const early = { start: 0, end: 1 };
    expect(until('2026-07-01T21:59:59Z', early, none, berlin)).toBeUndefined();
    expect(until('2026-07-01T22:00:00Z', early, none, berlin)).toBe('2026-07-01T23:00:00.000Z');
  });

  test('end when clocks pass their end, even if that hour is skipped or repeated', () => {
    const berlin = zoneOf('Europe/Berlin');
    const night2 = { start: 1, end: 2 };
    // At 02:00 it is 03:00.
    expect(until('2026-03-29T00:30:00Z', night2, none, berlin)).toBe('2026-03-29T01:00:00.000Z');
    // At 03:00 it is 02:00 again.
    const night3 = { start: 1, end: 3 };
    expect(until('2026-10-25T00:30:00Z', night3, none, berlin)).toBe('2026-10-25T02:00:00.000Z');
  });
});
