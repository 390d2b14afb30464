import { expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeTurns, type Seat, type Turns } from '../../src/job/slots.service.ts';

interface Sitter {
  readonly seat: Seat;
  called: number;
}

function sit(turns: Turns, most?: number): Sitter {
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
  while (seat.take()) taken += 1;
  return taken;
}

test('a single ledger has all slots', () => {
  const only = sit(makeTurns(() => 4));
  expect(only.seat.places).toBe(4);
  expect(takeAll(only)).toBe(4);
});

test('two ledgers never block each other: the other finds a slot at once', () => {
  const turns = makeTurns(() => 4);
  const [first, second] = [sit(turns), sit(turns)];
  expect(takeAll(first)).toBe(3);
  expect(second.seat.take()).toBe(true);
});

test('two ledgers take turns if there is one slot', () => {
  const turns = makeTurns(() => 1);
  const [first, second] = [sit(turns), sit(turns)];
  const order: string[] = [];
  let running: Sitter = first;
  expect(first.seat.take()).toBe(true);
  expect(second.seat.take()).toBe(false);
  for (let round = 0; round < 4; round += 1) {
    const other = running === first ? second : first;
    running.seat.want();
    running.seat.give();
    order.push(other.seat.isKept ? (other === first ? 'first' : 'second') : 'nobody');
    expect(other.seat.take()).toBe(true);
    running = other;
  }
  expect(order).toEqual(['second', 'first', 'second', 'first']);
});

test('a released slot goes to the ledger with the fewest', () => {
  const turns = makeTurns(() => 6);
  const [many, few, none] = [sit(turns), sit(turns), sit(turns)];
  expect(takeAll(many)).toBe(5);
  expect(few.seat.take()).toBe(true);
  expect([many, few, none].map(({ seat }) => seat.take())).toEqual([false, false, false]);
  many.seat.give();
  expect([many.called, few.called, none.called]).toEqual([0, 0, 1]);
  expect(none.seat.take()).toBe(true);
  many.seat.give();
  expect([many.called, few.called, none.called]).toEqual([0, 1, 1]);
});

test('a place that is kept for nothing goes to the next', () => {
  const turns = makeTurns(() => 2);
  const [busy, wanting, other] = [sit(turns), sit(turns), sit(turns)];
  expect(busy.seat.take() && other.seat.take()).toBe(true);
  wanting.seat.want();
  busy.seat.want();
  other.seat.give();
  expect(wanting.seat.isKept).toBe(true);
  expect(busy.seat.take()).toBe(false);
  wanting.seat.pass();
  expect(wanting.seat.isKept).toBe(false);
  // A single slot of two is left to the other ledgers.
  expect(busy.seat.take()).toBe(false);
  other.seat.want();
  expect(other.seat.take()).toBe(true);
});

test('a ledger that does not claim its slot loses it', () => {
  vi.useFakeTimers();
  try {
    const turns = makeTurns(() => 1);
    const [first, absent, third] = [sit(turns), sit(turns), sit(turns)];
    expect(first.seat.take()).toBe(true);
    absent.seat.want();
    third.seat.want();
    first.seat.give();
    expect([absent.seat.isKept, third.seat.isKept]).toEqual([true, false]);
    vi.advanceTimersByTime(limits.turnMs + 1);
    expect([absent.seat.isKept, third.seat.isKept]).toEqual([false, true]);
  } finally {
    vi.useRealTimers();
  }
});

test('the limit of a ledger holds, and a ledger that leaves frees its slots', () => {
  const turns = makeTurns(() => 4);
  const [limited, other] = [sit(turns, 1), sit(turns)];
  expect(takeAll(limited)).toBe(1);
  expect(takeAll(other)).toBe(3);
  limited.seat.give();
  limited.seat.leave();
  expect(other.called).toBe(1);
  expect(takeAll(other)).toBe(1);
});
