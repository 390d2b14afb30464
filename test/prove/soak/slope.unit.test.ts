import { describe, expect, test } from 'vitest';
import { makeRandom } from '../../support/crash/random.ts';
import { makeCourse } from './course.ts';
import type { Sample } from './sample.ts';
import { medianOf, slopeOf } from './slope.ts';

describe('the slope', () => {
  test('is exact for a line', () => {
    expect(slopeOf([3, 5, 7, 9])).toBe(2);
    expect(slopeOf([9, 7, 5])).toBe(-2);
  });

  test('is none where there is nothing to compare', () => {
    expect([slopeOf([]), slopeOf([5])]).toEqual([0, 0]);
  });

  test('is not changed by a few wild values', () => {
    expect(slopeOf([1, 1, 1, 900, 1, 1, 1, 1, 1, 1])).toBe(0);
    expect(slopeOf([0, 1, 2, 3, 400, 5, 6, 7, 8, 9])).toBe(1);
  });

  test('finds a small leak in much noise', () => {
    const random = makeRandom(1);
    const noise = Array.from({ length: 60 }, () => 100 + 20 * random());
    expect(Math.abs(slopeOf(noise))).toBeLessThan(0.1);
    const leaking = slopeOf(noise.map((value, index) => value + index / 2));
    expect(Math.abs(leaking - 0.5)).toBeLessThan(0.1);
  });
});

test('the median is in the middle, or between the two that are', () => {
  expect([medianOf([5, 1, 3]), medianOf([4, 1, 3, 2]), medianOf([])]).toEqual([3, 2.5, 0]);
});

describe('a course', () => {
  const SLICES = 30;
  const MINUTE_MS = 60_000;

  /** Adds slices, of which each has samples around what `levelOf` says. */
  function follow(levelOf: (slice: number) => Omit<Sample, 'zombies'>): unknown[] {
    const course = makeCourse();
    return Array.from({ length: SLICES }, (_, slice) => {
      const samples = [0, 900, 0].map((wild) => {
        const levels = Object.entries(levelOf(slice)).map(([name, level]) => [name, level + wild]);
        return { ...(Object.fromEntries(levels) as Sample), zombies: 0 };
      });
      return course.add(samples, MINUTE_MS);
    });
  }

  test('that rises while it warms up and then stays is reported with its slope', () => {
    const figures = follow((slice) => ({
      rssMib: Math.min(100, 60 + 10 * slice),
      descriptors: 20,
    }));
    expect(figures[0]).toEqual({ rssMib: [60], descriptors: [20] });
    expect(figures.at(-1)).toEqual({
      rssMib: [100],
      rssMibPerHour: [0],
      descriptors: [20],
      descriptorsPerHour: [0],
    });
  });

  /** Memory as a server shows it, beside what is left of it after each slice. */
  const sawTooth = (slice: number, leak: number) => ({
    rssMib: 140 + 15 * (slice % 5),
    leftHeapMib: 30 + (slice % 3) / 2 + leak * slice,
    leftRssMib: 120 + 3 * (slice % 4) + leak * slice,
  });

  test('accepts memory that goes up and down', () => {
    expect(follow((slice) => sawTooth(slice, 0)).at(-1)).toMatchObject({
      leftHeapMibPerHour: [0],
      leftRssMibPerHour: [0],
    });
  });

  test('refuses memory of which a little is never released', () => {
    expect(() => follow((slice) => sawTooth(slice, 0.3))).toThrow(/^leftHeapMib grows: /);
  });

  test('refuses memory outside of the heap that is never released', () => {
    const leak = (slice: number) => ({ ...sawTooth(slice, 0), leftRssMib: 120 + slice });
    expect(() => follow(leak)).toThrow(/^leftRssMib grows: /);
  });

  test('refuses descriptors that leak, one in four slices', () => {
    const leak = (slice: number) => ({ rssMib: 100, descriptors: 20 + Math.floor(slice / 4) });
    expect(() => follow(leak)).toThrow(/^descriptors grows: /);
  });
});
