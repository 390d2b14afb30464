/** A page asks again at once when little happens, and seldom when much does. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { makeReloadPace } from '../../web/ui/reload-pace.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function watch(reload: () => boolean = () => true) {
  const at: number[] = [];
  const from = Date.now();
  const pace = makeReloadPace(() => {
    const isDone = reload();
    if (isDone) at.push((Date.now() - from) / 1000);
    return isDone;
  });
  return { pace, at };
}

test('single news are looked at as they come', () => {
  const { pace, at } = watch();
  for (let beat = 0; beat < 5; beat += 1) {
    pace.request();
    vi.advanceTimersByTime(10_000);
  }
  expect(at).toEqual([0, 10, 20, 30, 40]);
});

test('with news in every beat the pauses grow to five seconds, and shrink when it is quiet', () => {
  const { pace, at } = watch();
  for (let beat = 0; beat < 18; beat += 1) {
    pace.request();
    vi.advanceTimersByTime(1000);
  }
  expect(at).toEqual([0, 1, 3, 7, 12, 17]);
  // The last news are not left out.
  vi.advanceTimersByTime(20_000);
  expect(at.at(-1)).toBe(22);
  pace.request();
  vi.advanceTimersByTime(1000);
  pace.request();
  expect(at.slice(-2)).toEqual([38, 39]);
});

test('a read that failed is repeated later, and nothing is read after the end', () => {
  let isHidden = true;
  const { pace, at } = watch(() => !isHidden);
  pace.request();
  vi.advanceTimersByTime(2500);
  expect(at).toEqual([]);
  isHidden = false;
  vi.advanceTimersByTime(5000);
  expect(at).toHaveLength(1);
  pace.request();
  pace.request();
  pace.stop();
  vi.advanceTimersByTime(60_000);
  expect(at).toHaveLength(2);
});
