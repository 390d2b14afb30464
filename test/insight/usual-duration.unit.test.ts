import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { overlongAfterMs, toUsualDuration } from '../../src/insight/usual-duration.service.ts';

const { overlongMinMs, overlongUnknownMs, overlongFactor } = limits.checks;

test('the usual duration is the one that 95 % of the attempts stay below', () => {
  const runs = Array.from({ length: 20 }, (_, index) => (index === 0 ? 90_000 : 100 + index));
  expect(toUsualDuration(runs)).toEqual({ medianMs: 110, p95Ms: 119, attempts: 20 });
  expect(toUsualDuration([5, 7, 6])).toMatchObject({ p95Ms: 7, attempts: 3 });
  expect(toUsualDuration([5, 7])).toBeUndefined();
});

test('a job is overlong after some times its usual duration, with a minimum', () => {
  const usual = (p95Ms: number) => ({ medianMs: 1, p95Ms, attempts: 9 });
  expect(overlongAfterMs(usual(10))).toBe(overlongMinMs);
  expect(overlongAfterMs(usual(60_000))).toBe(60_000 * overlongFactor);
  expect(overlongAfterMs(undefined)).toBe(overlongUnknownMs);
});
