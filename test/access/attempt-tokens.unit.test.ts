import { expect, onTestFinished, test, vi } from 'vitest';
import { RunTokens } from '../../src/access/credentials.service.ts';
import { makePrincipal } from '../../src/access/tokens.service.ts';

const HOUR = 3_600_000;
const principal = makePrincipal('job:1', []);

test('a token is good for as long as its attempt may take, however the clock is set meanwhile', () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const tokens = new RunTokens();
  const { token } = tokens.create(principal, Date.now() + 1000);
  vi.setSystemTime(Date.now() + HOUR);
  expect(tokens.find(token)).toBe(principal);
  vi.setSystemTime(Date.now() - 2 * HOUR);
  vi.advanceTimersByTime(999);
  expect(tokens.find(token)).toBe(principal);
  vi.advanceTimersByTime(1);
  expect(tokens.find(token)).toBeUndefined();
});

test('a token dies with its attempt', () => {
  const tokens = new RunTokens();
  const { token, end } = tokens.create(principal, Date.now() + HOUR);
  expect(tokens.find(token)).toBe(principal);
  end();
  expect(tokens.find(token)).toBeUndefined();
});
