import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { backoffMs, crashDelayMs } from '../../src/job/outcome.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

describe('the wait after a failure', () => {
  test.each([
    [1, 30_000],
    [2, 60_000],
    [3, 120_000],
    [4, 240_000],
  ])('doubles: after failure %d it is %d ms and up', (failures, ms) => {
    expect(backoffMs(failures, 30_000, 0)).toBe(ms);
    expect(backoffMs(failures, 30_000, 0.5)).toBe(ms + 15_000);
  });

  test('lies between its power of two and one base more, and never passes a day', () => {
    const failures = fc.integer({ min: 1, max: 2000 });
    const base = fc.integer({ min: 0, max: DAY_MS });
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(failures, base, random, (n, baseMs, chance) => {
        const ms = backoffMs(n, baseMs, chance);
        const least = baseMs === 0 ? 0 : Math.min(baseMs * 2 ** (n - 1), DAY_MS);
        expect(Number.isSafeInteger(ms)).toBe(true);
        expect(ms).toBeGreaterThanOrEqual(least);
        expect(ms).toBeLessThanOrEqual(Math.min(least + baseMs, DAY_MS));
      }),
      { seed: 1, numRuns: 1000 },
    );
  });
});

describe('the wait after a crash', () => {
  test('is none in the first third of the budget, and then grows', () => {
    const waits = Array.from({ length: 9 }, (_, index) => crashDelayMs(index + 1, 10) / 1000);
    expect(waits).toEqual([0, 0, 0, 0, 50, 60, 70, 80, 90]);
  });

  test('is none while a budget of three lasts the first time', () => {
    expect([1, 2].map((crashes) => crashDelayMs(crashes, 3))).toEqual([0, 20_000]);
  });
});
