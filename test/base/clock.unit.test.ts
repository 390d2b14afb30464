import { describe, expect, test } from 'vitest';
import { fromTimestamp, toTimestamp } from '../../src/base/clock.ts';

describe('a timestamp', () => {
  const now = Date.UTC(2026, 10, 17, 9, 59, 59, 998);
  // Each beside others of its own second and of the next, because the last second is remembered.
  test.each([
    now,
    now + 1,
    now + 2,
    now + 1002,
    now,
    0,
    7,
    61,
    -1,
    -1000,
    -1001,
    999.9,
    -0.5,
    8.63e15,
  ])('for %s is what ISO 8601 says', (ms) => {
    expect(toTimestamp(ms)).toBe(new Date(ms).toISOString());
    expect(toTimestamp(ms + 1)).toBe(new Date(ms + 1).toISOString());
  });

  test.each([NaN, Infinity, -Infinity, 8.65e15])('for %s is refused', (ms) => {
    expect(() => toTimestamp(ms)).toThrow(RangeError);
    expect(toTimestamp(now)).toBe('2026-11-17T09:59:59.998Z');
  });

  test('leads back to its moment', () => {
    expect(fromTimestamp(toTimestamp(now))).toBe(now);
  });
});
