import { describe as group, expect, test } from 'vitest';
import { describe, summarize } from './report.ts';

group('a campaign', () => {
  test('that is clean reports how much that proves', () => {
    const lines = [0, 1, 2].map((index) => ({
      index,
      seed: 7 + index,
      ms: 20_000,
      figures: { kills: 2, readyMs: [index, 10] },
    }));
    const summary = summarize(lines);
    expect(summary).toMatchObject({
      trials: 3,
      clean: 3,
      bound: 1,
      minutes: 1,
      sums: { kills: 6 },
    });
    expect(summary.samples['readyMs']).toEqual({ n: 6, p50: 10, p99: 10, max: 10 });
    expect(describe('kills', summary)).toContain('kills: 3 of 3 trials clean');
  });

  test('with a fault has no bound, and says how to see it again', () => {
    const lines = [
      { index: 4, seed: 14, ms: 1, figures: {} },
      { index: 5, seed: 15, ms: 1, fault: 'lost 1\nmore' },
    ];
    const summary = summarize(lines);
    expect(summary).toMatchObject({ clean: 1, bound: null });
    const text = describe('kills', summary);
    expect(text).toContain('FAULT in trial 5: lost 1\n');
    expect(text).toContain('npm run prove -- kills --seed 10 --from 5 --trials 1');
  });
});
