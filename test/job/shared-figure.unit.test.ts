/** Figures that all clients share. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { Principal } from '../../src/access/tokens.service.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { figuresOf, SharedFigure } from '../../src/job/figures.operations.ts';
import { maskLedger } from '../../src/operation/visibility.ts';

const MANY = limits.figureRowsMax + 1;

/** A figure that says how often it was read, over so many rows. */
function makeCounter(rows: number) {
  let reads = 0;
  const pending: (() => void)[] = [];
  let isHeld = false;
  const figure = new SharedFigure(
    async () => {
      const read = (reads += 1);
      if (isHeld) await new Promise<void>((resolve) => pending.push(resolve));
      return read;
    },
    () => rows,
  );
  return {
    figure,
    reads: () => reads,
    hold: () => (isHeld = true),
    letGo: () => pending.splice(0).forEach((resolve) => resolve()),
  };
}

afterEach(() => vi.useRealTimers());

describe('a shared figure', () => {
  test('over few rows is read again for every caller that comes later', async () => {
    const { figure } = makeCounter(10);
    expect((await figure.get()).value).toBe(1);
    expect((await figure.get()).value).toBe(2);
  });

  test('is read once more for all callers that come while it is being read', async () => {
    const { figure, hold, letGo, reads } = makeCounter(10);
    hold();
    const first = figure.get();
    const later = Array.from({ length: 200 }, () => figure.get());
    letGo();
    expect((await first).value).toBe(1);
    await vi.waitFor(() => expect(reads()).toBe(2));
    letGo();
    expect(new Set((await Promise.all(later)).map(({ value }) => value))).toEqual(new Set([2]));
    expect(reads()).toBe(2);
  });

  test('over many rows is kept for a second, then read behind the caller’s back', async () => {
    vi.useFakeTimers();
    const { figure, reads } = makeCounter(MANY);
    await figure.get();
    for (let calls = 0; calls < 100; calls += 1) await figure.get();
    expect(reads()).toBe(1);
    vi.advanceTimersByTime(limits.figureMs + 1);
    expect((await figure.get()).value).toBe(1);
    await vi.waitFor(async () => expect((await figure.get()).value).toBe(2));
    expect(reads()).toBe(2);
  });

  test('in memory is unknown until it was read, and reads nothing itself', async () => {
    const { figure, reads } = makeCounter(10);
    expect(figure.peek()).toBeUndefined();
    await figure.prime();
    await figure.prime();
    for (let calls = 0; calls < 100; calls += 1) expect(figure.peek()?.value).toBe(1);
    expect(reads()).toBe(1);
  });

  test('in memory is renewed while monitors ask for it, and unknown when that fails', async () => {
    vi.useFakeTimers();
    let isBroken = false;
    let reads = 0;
    const figure = new SharedFigure(
      () => (isBroken ? Promise.reject(new Error('gone')) : Promise.resolve((reads += 1))),
      () => 0,
    );
    await figure.prime();
    figure.peek();
    await vi.advanceTimersByTimeAsync(limits.figureEveryMs);
    expect(figure.peek()?.value).toBe(2);
    isBroken = true;
    await vi.advanceTimersByTimeAsync(limits.figureEveryMs);
    expect(figure.peek()).toBeUndefined();
    isBroken = false;
    await vi.advanceTimersByTimeAsync(limits.figureEveryMs);
    expect(figure.peek()?.value).toBe(3);
    await vi.advanceTimersByTimeAsync(limits.figureWatchedMs + 10 * limits.figureEveryMs);
    const last = reads;
    await vi.advanceTimersByTimeAsync(limits.figureWatchedMs);
    expect(reads).toBe(last);
  });
});

test('callers whose rows are masked share the figures of all others', () => {
  const ledger = { jobs: {}, attempts: {}, runs: {} } as Ledger;
  const reader = { scopes: ['jobs:ro'], actor: 'token:reader' } as unknown as Principal;
  expect(figuresOf(maskLedger(ledger, reader))).toBe(figuresOf(ledger));
});
