import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Slots, makeSlotPool } from '../../src/job/slots.service.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Creates slots for attempts that take as many milliseconds as their claim says. */
function makeSlots(given: number | (() => number)): {
  slots: Slots<number>;
  begun: (readonly [ms: number, waitedMs: number])[];
  back: number[];
} {
  const begun: (readonly [number, number])[] = [];
  const back: number[] = [];
  const slots = new Slots<number>({
    pool: makeSlotPool(typeof given === 'function' ? given : () => given),
    slotsMax: () => undefined,
    run: (ms, waitedMs) => {
      begun.push([ms, waitedMs]);
      return new Promise((resolve) => setTimeout(resolve, ms));
    },
    release: (claims) => void back.push(...claims),
    onReserved: () => undefined,
  });
  return { slots, begun, back };
}

async function runOne(slots: Slots<number>, ms: number): Promise<void> {
  slots.add(ms);
  await vi.advanceTimersByTimeAsync(ms);
}

test('slots hold one claim each before the duration of attempts is known', () => {
  expect(makeSlots(4).slots.capacity).toBe(4);
});

test.each([
  [1, 8],
  [20, 8],
  [40, 6],
  [80, 5],
  [200, 4],
  [60_000, 4],
])('four workers whose attempts take %i ms may hold %i claims', async (ms, capacity) => {
  const { slots } = makeSlots(4);
  await runOne(slots, ms);
  expect(slots.capacity).toBe(capacity);
});

test('slots hold fewer claims when attempts become longer', async () => {
  const { slots } = makeSlots(4);
  await runOne(slots, 10);
  expect(slots.capacity).toBe(8);
  await runOne(slots, 10_000);
  expect(slots.capacity).toBe(4);
});

test('waiting claims start in order, with the time that they waited', async () => {
  const { slots, begun, back } = makeSlots(1);
  for (const ms of [5, 7, 9]) slots.add(ms);
  expect(begun).toEqual([[5, 0]]);
  await vi.advanceTimersByTimeAsync(30);
  expect(begun).toEqual([
    [5, 0],
    [7, 5],
    [9, 12],
  ]);
  expect(back).toEqual([]);
});

test('a claim that has waited too long is released, each at its own time', async () => {
  const { slots, begun, back } = makeSlots(1);
  slots.add(10_000);
  slots.add(1);
  await vi.advanceTimersByTimeAsync(600);
  slots.add(2);
  await vi.advanceTimersByTimeAsync(399);
  expect(back).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(back).toEqual([1]);
  await vi.advanceTimersByTimeAsync(600);
  expect(back).toEqual([1, 2]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(back).toEqual([1, 2]);
  expect(begun).toEqual([[10_000, 0]]);
});

test('no job is claimed ahead while running attempts do not end', async () => {
  const { slots, back } = makeSlots(2);
  await runOne(slots, 5);
  for (const ms of [60_000, 60_000]) slots.add(ms);
  expect(slots.capacity).toBe(4);
  slots.add(1);
  await vi.advanceTimersByTimeAsync(1000);
  expect(back).toEqual([1]);
  expect(slots.capacity).toBe(2);
});

test('removed claims do not start', async () => {
  const { slots, begun, back } = makeSlots(1);
  for (const ms of [50, 1, 2, 3]) slots.add(ms);
  expect(slots.remove((ms) => ms % 2 === 1)).toEqual([1, 3]);
  await vi.advanceTimersByTimeAsync(5000);
  expect(begun.map(([ms]) => ms)).toEqual([50, 2]);
  expect(back).toEqual([]);
});

test('waiting claims start when there are more slots, and not when there are fewer', async () => {
  let count = 1;
  const { slots, begun } = makeSlots(() => count);
  for (const ms of [100, 200, 300]) slots.add(ms);
  expect(begun).toHaveLength(1);
  count = 2;
  slots.startWaiting();
  expect(begun).toHaveLength(2);
  count = 1;
  await vi.advanceTimersByTimeAsync(100);
  expect(begun).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(100);
  expect(begun).toHaveLength(3);
});
