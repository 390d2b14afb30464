/** Which output counts as the one that a page shows. */
import { expect, test } from 'vitest';
import { isShown } from '../support/shown-output.ts';

const now = Date.parse('2026-12-01T12:00:00Z');

test('the same text is shown, whatever the width of its columns', () => {
  expect(isShown('a  b\nc  d', 'a   b \nc d\n', now)).toBe(true);
  expect(isShown('a  b', 'a  c', now)).toBe(false);
  expect(isShown('a', 'a\nb', now)).toBe(false);
});

test('ids, tokens, durations and sizes may differ', () => {
  const shown = 'job 01a1f052-7deb-70e2-8e7b-7b378bf4cdab took 115ms, 1.8MiB, duct_abc by cli:root';
  const printed = 'job 02b1f052-7deb-70e2-8e7b-7b378bf4cdff took 1.2s, 20KiB, duct_xyz by cli:ann';
  expect(isShown(shown, printed, now)).toBe(true);
  expect(isShown('job 01a1f052 failed', 'job 77b2e0aa failed', now)).toBe(true);
  expect(isShown('took 115ms', 'took long', now)).toBe(false);
  expect(isShown('{"run_ms":27,"code":0}', '{"run_ms":5,"code":0}', now)).toBe(true);
  expect(isShown('{"run_ms":27,"code":0}', '{"run_ms":5,"code":1}', now)).toBe(false);
  expect(isShown('waits for 1m 30s', 'waits for 29s', now)).toBe(true);
});

test('a time may differ only if it is about now', () => {
  expect(isShown('at 2026-11-18T20:21:40.473Z', 'at 2026-12-01T11:59:00.001Z', now)).toBe(true);
  expect(isShown('at 2027-01-01T08:00:00Z', 'at 2027-01-01T08:00:00Z', now)).toBe(true);
  expect(isShown('at 2027-01-01T08:00:00Z', 'at 2027-01-01T09:00:00Z', now)).toBe(false);
});

test('counts must be equal, except below a heading with milliseconds', () => {
  expect(isShown('2 passed', '3 passed', now)).toBe(false);
  expect(isShown('#  RUN MS\n1  40', '#  RUN MS\n1  7', now)).toBe(true);
  expect(isShown('#  RUN MS\n1  40\n\n2 passed', '#  RUN MS\n1  7\n\n3 passed', now)).toBe(false);
});

test('an ellipsis stands for lines or for a part of a line', () => {
  expect(isShown('first\n…\nlast', 'first\na\nb\nlast', now)).toBe(true);
  expect(isShown('first\n…\nlast', 'first\nlast', now)).toBe(true);
  expect(isShown('…\nlast', 'a\nlast', now)).toBe(true);
  expect(isShown('first\n…', 'first\na', now)).toBe(true);
  expect(isShown('first\n…', 'first', now)).toBe(true);
  expect(isShown('first\n…\nlast', 'first\na', now)).toBe(false);
  expect(isShown('key … kept', 'key 123 kept', now)).toBe(true);
});

test('failed attempts that a wait reports or misses are not compared', () => {
  const reported = 'attempt 2 of 5 failed: refused; next attempt in 1s\nstatus  succeeded';
  expect(isShown('status  succeeded', reported, now)).toBe(true);
  expect(isShown('status  succeeded', 'attempt 2 of 5\nstatus  succeeded', now)).toBe(false);
});
