import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { digest } from '../../src/operation/result/digest.ts';

const jobs = Array.from({ length: 300 }, (_, index) => ({
  id: index,
  status: index % 3 === 0 ? 'failed' : 'succeeded',
  note: 'x'.repeat(50),
}));

describe('digest', () => {
  test('shows all of what fits', () => {
    const value = { jobs: jobs.slice(0, 3), total: 3 };
    expect(digest(value, 1000)).toEqual({ value, cuts: [] });
  });

  test('shows the head of a list, and says how many there are of which kind', () => {
    const { value, cuts } = digest({ jobs, total: 300 }, 5000);
    const shown = (value as { jobs: unknown[] }).jobs;
    expect(shown).toEqual(jobs.slice(0, shown.length));
    expect(shown.length).toBeGreaterThan(10);
    expect(cuts).toEqual([
      {
        path: [0],
        kind: 'list',
        total: 300,
        shown: shown.length,
        by_status: { failed: 100, succeeded: 200 },
      },
    ]);
  });

  test('starts at the entry or character that the caller names', () => {
    expect(digest(jobs, 1_000_000, { from: 298 })).toEqual({ value: jobs.slice(298), cuts: [] });
    expect(digest('abcdef', 100, { from: 4 })).toEqual({ value: 'ef', cuts: [] });
    expect(digest({ a: 1, b: 2, c: 3 }, 100, { from: 1 }).value).toEqual({ b: 2, c: 3 });
  });

  test('cuts long texts before it cuts lists, and never in the middle of a sign', () => {
    const { value, cuts } = digest({ log: '😀'.repeat(10_000), rows: [1, 2, 3] }, 2000);
    expect(value).toMatchObject({ rows: [1, 2, 3] });
    expect(JSON.stringify(value)).not.toContain('\\ud83d');
    expect(cuts).toMatchObject([{ path: [0], kind: 'text', total: 20_000 }]);
  });

  test('keys and depths are cut too', () => {
    const wide = Object.fromEntries(jobs.map(({ id }) => [`${'k'.repeat(500)}${id}`, 'v']));
    let deep: unknown = 'bottom';
    for (let level = 0; level < 60; level += 1) deep = { deep, also: 'x'.repeat(30) };
    for (const value of [wide, deep, { wide, deep }]) {
      const made = digest(value, 1000);
      expect(JSON.stringify(made.value).length).toBeLessThanOrEqual(1000);
      expect(made.cuts.length).toBeGreaterThan(0);
    }
  });

  test('is within its size for anything, and the same each time', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 6 }),
        fc.integer({ min: 700, max: 20_000 }),
        (value, size) => {
          const first = digest(value, size);
          expect(JSON.stringify(first.value).length).toBeLessThanOrEqual(size);
          expect(digest(value, size)).toEqual(first);
          if (JSON.stringify(value).length <= 500) expect(first.cuts).toEqual([]);
        },
      ),
    );
  });
});
