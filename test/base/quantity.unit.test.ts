import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatDuration, parseDuration } from '../../src/base/quantity.ts';

describe('parseDuration', () => {
  test.each([
    ['200ms', 200],
    ['5s', 5000],
    ['5m', 300_000],
    ['1h30m', 5_400_000],
    ['30d', 2_592_000_000],
    ['2w', 1_209_600_000],
    ['1w2d3h4m5s6ms', 788_645_006],
    ['0s', 0],
    ['0', 0],
    ['1m500ms', 60_500],
    ['1.5d', 129_600_000],
    ['0.1s', 100],
    ['1.5h30m', 7_200_000],
  ])('%s is %i ms', (text, ms) => {
    expect(parseDuration(text)).toEqual({ ok: true, ms });
  });

  test('a bare number is refused, and the hint shows it with a unit', () => {
    const parsed = parseDuration('90');
    expect(parsed).toMatchObject({ ok: false, message: 'needs a unit' });
    expect(parsed).toHaveProperty('hint', expect.stringContaining('90s'));
  });

  test.each([
    '',
    ' 5s',
    '5 s',
    '5S',
    '-5s',
    '1.h',
    '.5h',
    '1.5.5h',
    '5y',
    's',
    '5s!',
    '1h 30m',
    '٥s',
  ])('%j is refused', (text) => {
    expect(parseDuration(text)).toMatchObject({ ok: false, message: 'is not a duration' });
  });

  test.each(['30m1h', '5s5s', '5ms5s'])('%s has units out of order', (text) => {
    expect(parseDuration(text).ok).toBe(false);
  });

  test("a duration that can't be counted exactly is refused", () => {
    expect(parseDuration('99999999999999999999w').ok).toBe(false);
  });
});

describe('formatDuration', () => {
  test.each([
    [0, '0s'],
    [1, '1ms'],
    [90_000, '1m30s'],
    [30 * 24 * 3600 * 1000, '30d'],
  ])('%i ms is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  test('parsing undoes it', () => {
    fc.assert(
      fc.property(fc.nat({ max: Number.MAX_SAFE_INTEGER }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toEqual({ ok: true, ms });
      }),
    );
  });
});
