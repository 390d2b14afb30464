/** The generated charts and the page of limits show what their sources say. */
import { expect, test } from 'vitest';
import { type Chart, drawChart, findUnmeasured } from '../../tools/charts.ts';
import { readComments, showLimit } from '../../tools/reference/limits.ts';

const bar = { label: 'Ductile <1>', value: 1060, row: '1' };
const chart: Chart = {
  name: 'speed',
  title: 'Jobs & more',
  description: 'On two cores',
  bars: [bar],
};
const benchmarks =
  '| 1 | durable jobs | Ductile | C limit | 0.78 |  |  | 1,060, 1,222 jobs/s | 2026-11-16 |\n';

test('a chart needs the value in its row of the benchmarks', () => {
  expect(findUnmeasured(chart, benchmarks)).toEqual([]);
  expect(findUnmeasured({ ...chart, bars: [{ ...bar, value: 1061 }] }, benchmarks)).toEqual([
    "speed: Ductile <1> has 1,061, and row 1 of the benchmarks doesn't",
  ]);
});

test('a chart escapes its texts', () => {
  expect(drawChart(chart)).toContain('Jobs &amp; more');
  expect(drawChart(chart)).toContain('Ductile &lt;1&gt;');
});

test('the comment above a limit describes it, also inside of an object', () => {
  const source = `/** All. */
export const someLimits = {
  /** The body. */
  bodyBytesMax: 1,
  /** The checks. */
  checks: {
    /** The
     * first. Setting: \`a.b\`. */
    first: 1,
  },
  /** The last. */
  last: 2,
} as const;
`;
  expect([...readComments(source)]).toEqual([
    ['bodyBytesMax', 'The body.'],
    ['checks', 'The checks.'],
    ['checks.first', 'The first. Setting: `a.b`.'],
    ['last', 'The last.'],
  ]);
});

test('a limit is shown in the unit of its name', () => {
  expect(showLimit('pollMs', 90_000)).toBe('1m30s');
  expect(showLimit('timeoutMs.poll', 60_000)).toBe('1m');
  expect(showLimit('bodyBytesMax', 2_097_152)).toBe('2MiB');
  expect(showLimit('disk.freePart', 0.05)).toBe('5 %');
  expect(showLimit('retryAfterSeconds', 60)).toBe('60s');
  expect(showLimit('rowsMax', 10_000)).toBe('10,000');
});
