import { expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeSlotPool, type SlotShare, type SlotPool } from '../../src/job/slots.service.ts';

interface Sitter {
  readonly seat: SlotShare;
  called: number;
}

function sit(turns: SlotPool, most?: number): Sitter {
  const sitter: Sitter = {
    called: 0,
    seat: turns.join(
      () => most,
      () => void (sitter.called += 1),
    ),
  };
  return sitter;
}

function takeAll({ seat }: Sitter): number {
  let taken = 0;
  while (seat.acquire()) taken += 1;
  return taken;
}

test('a single ledger has all slots', () => {
  const only = sit(makeSlotPool(() => 4));
  expect(only.seat.places).toBe(4);
  expect(takeAll(only)).toBe(4);
});

test('two ledgers never block each other: the other finds a slot at once', () => {
  const turns = makeSlotPool(() => 4);
  const [first, second] = [sit(turns), sit(turns)];
  expect(takeAll(first)).toBe(3);
  expect(second.seat.acquire()).toBe(true);
});

test('two ledgers take turns if there is one slot', () => {
  const turns = makeSlotPool(() => 1);
  const [first, second] = [sit(turns), sit(turns)];
  const order: string[] = [];
  let running: Sitter = first;
  expect(first.seat.acquire()).toBe(true);
  expect(second.seat.acquire()).toBe(false);
  for (let round = 0; round < 4; round += 1) {
    const other = running === first ? second : first;
    running.seat.request();
    running.seat.release();
    order.push(other.seat.isReserved ? (other === first ? 'first' : 'second') : 'nobody');
    expect(other.seat.acquire()).toBe(true);
    running = other;
  }
  expect(order).toEqual(['second', 'first', 'second', 'first']);
});

test('a released slot goes to the ledger with the fewest', () => {
  const turns = makeSlotPool(() => 6);
  const [many, few, none] = [sit(turns), sit(turns), sit(turns)];
  expect(takeAll(many)).toBe(5);
  expect(few.seat.acquire()).toBe(true);
  expect([many, few, none].map(({ seat }) => seat.acquire())).toEqual([false, false, false]);
  many.seat.release();
  expect([many.called, few.called, none.called]).toEqual([0, 0, 1]);
  expect(none.seat.acquire()).toBe(true);
  many.seat.release();
  expect([many.called, few.called, none.called]).toEqual([0, 1, 1]);
});

test('a place that is kept for nothing goes to the next', () => {
  const turns = makeSlotPool(() => 2);
  const [busy, wanting, other] = [sit(turns), sit(turns), sit(turns)];
  expect(busy.seat.acquire() && other.seat.acquire()).toBe(true);
  wanting.seat.request();
  busy.seat.request();
  other.seat.release();
  expect(wanting.seat.isReserved).toBe(true);
  expect(busy.seat.acquire()).toBe(false);
  wanting.seat.decline();
  expect(wanting.seat.isReserved).toBe(false);
  // A single slot of two is left to the other ledgers.
  expect(busy.seat.acquire()).toBe(false);
  other.seat.request();
  expect(other.seat.acquire()).toBe(true);
});

test('a ledger that does not claim its slot loses it', () => {
  vi.useFakeTimers();
  try {
    const turns = makeSlotPool(() => 1);
    const [first, absent, third] = [sit(turns), sit(turns), sit(turns)];
    expect(first.seat.acquire()).toBe(true);
    absent.seat.request();
    third.seat.request();
    first.seat.release();
    expect([absent.seat.isReserved, third.seat.isReserved]).toEqual([true, false]);
    vi.advanceTimersByTime(limits.turnMs + 1);
    expect([absent.seat.isReserved, third.seat.isReserved]).toEqual([false, true]);
  } finally {
    vi.useRealTimers();
  }
});

test('the limit of a ledger holds, and a ledger that leaves frees its slots', () => {
  const turns = makeSlotPool(() => 4);
  const [limited, other] = [sit(turns, 1), sit(turns)];
  expect(takeAll(limited)).toBe(1);
  expect(takeAll(other)).toBe(3);
  limited.seat.release();
  limited.seat.leave();
  expect(other.called).toBe(1);
  expect(takeAll(other)).toBe(1);
});
