import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { makeFailureLog, type LogFields } from '../../src/base/log.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

test('the same failure is reported at once, then each minute with its count', () => {
  const logged: LogFields[] = [];
  const failures = makeFailureLog((fields) => logged.push(fields));
  for (let second = 0; second <= 120; second += 1) {
    failures.report(new Error('away'), { waiting: 3 });
    vi.advanceTimersByTime(1000);
  }
  expect(logged).toEqual([
    { error: 'away', waiting: 3 },
    { error: 'away', waiting: 3, repeated: 59 },
    { error: 'away', waiting: 3, repeated: 59 },
  ]);
});

test('a different failure, and one after a success, is reported at once', () => {
  const logged: LogFields[] = [];
  const failures = makeFailureLog((fields) => logged.push(fields));
  failures.report('away');
  failures.report('full');
  failures.reset();
  failures.report('full');
  failures.report('full');
  expect(logged.map(({ error }) => error)).toEqual(['away', 'full', 'full']);
});
