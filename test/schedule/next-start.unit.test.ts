import { expect, test } from 'vitest';
import { findNextStart } from '../../src/schedule/preview.ts';
import { at, iso, timed } from './support.ts';

const state = (text: string) => ({ slotMs: at(text), dueMs: at(text), seq: 1 });

test('a due time that is not before the moment is the next start', () => {
  const start = findNextStart(timed({ every: '1m' }), state('2026-05-04T12:00:10Z'), 0);
  expect(iso(start)).toBe('2026-05-04T12:00:10Z');
});

test('an interval skips its due times until the moment, and keeps its rhythm', () => {
  const from = state('2026-05-04T12:00:10Z');
  const start = findNextStart(timed({ every: '1m' }), from, at('2026-05-04T12:30:00Z'));
  expect(iso(start)).toBe('2026-05-04T12:30:10Z');
});

test('thousands of skipped due times are stepped over at once', () => {
  const from = state('2026-05-04T12:00:00Z');
  const start = findNextStart(timed({ every: '1s' }), from, at('2026-06-04T12:00:00.500Z'));
  expect(iso(start)).toBe('2026-06-04T12:00:01Z');
});

test('a time of the clock is the first one after the moment', () => {
  const entry = { cron: '0 * * * *' };
  const start = findNextStart(timed(entry), state('2026-05-04T12:00:00Z'), at('2026-05-04T14:30Z'));
  expect(iso(start)).toBe('2026-05-04T15:00:00Z');
});

test('a time that comes once is tried as soon as it may', () => {
  const entry = { at: '2026-05-04T12:00:00Z' };
  const start = findNextStart(timed(entry), state('2026-05-04T12:00:00Z'), at('2026-05-04T12:07Z'));
  expect(iso(start)).toBe('2026-05-04T12:07:00Z');
});

test('quiet hours after the moment are skipped, too', () => {
  const entry = { every: '1h', quiet_start: 13, quiet_end: 16 };
  const from = state('2026-05-04T12:00:00Z');
  const start = findNextStart(timed(entry), from, at('2026-05-04T13:30:00Z'));
  expect(iso(start)).toBe('2026-05-04T16:00:00Z');
});
