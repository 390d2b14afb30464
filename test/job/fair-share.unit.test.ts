import { expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeSlotPool, type SlotShare, type SlotPool } from '../../src/job/slots.service.ts';

interface Member {
  readonly share: SlotShare;
  called: number;
}

function join(pool: SlotPool, slotsMax?: number): Member {
  const member: Member = {
    called: 0,
    share: pool.join(
      () => slotsMax,
      () => void (member.called += 1),
    ),
  };
  return member;
}

function acquireAll({ share }: Member): number {
  let acquired = 0;
  while (share.acquire()) acquired += 1;
  return acquired;
}

test('a single ledger has all slots', () => {
  const only = join(makeSlotPool(() => 4));
  expect(only.share.slots).toBe(4);
  expect(acquireAll(only)).toBe(4);
});

test('two ledgers never block each other: the other finds a slot at once', () => {
  const pool = makeSlotPool(() => 4);
  const [first, second] = [join(pool), join(pool)];
  expect(acquireAll(first)).toBe(3);
  expect(second.share.acquire()).toBe(true);
});

test('two ledgers take pool if there is one slot', () => {
  const pool = makeSlotPool(() => 1);
  const [first, second] = [join(pool), join(pool)];
  const order: string[] = [];
  let running: Member = first;
  expect(first.share.acquire()).toBe(true);
  expect(second.share.acquire()).toBe(false);
  for (let round = 0; round < 4; round += 1) {
    const other = running === first ? second : first;
    running.share.request();
    running.share.release();
    order.push(other.share.isReserved ? (other === first ? 'first' : 'second') : 'nobody');
    expect(other.share.acquire()).toBe(true);
    running = other;
  }
  expect(order).toEqual(['second', 'first', 'second', 'first']);
});

test('a released slot goes to the ledger with the fewest', () => {
  const pool = makeSlotPool(() => 6);
  const [many, few, none] = [join(pool), join(pool), join(pool)];
  expect(acquireAll(many)).toBe(5);
  expect(few.share.acquire()).toBe(true);
  expect([many, few, none].map(({ share }) => share.acquire())).toEqual([false, false, false]);
  many.share.release();
  expect([many.called, few.called, none.called]).toEqual([0, 0, 1]);
  expect(none.share.acquire()).toBe(true);
  many.share.release();
  expect([many.called, few.called, none.called]).toEqual([0, 1, 1]);
});

test('a reserved slot that its ledger declines goes to the next one', () => {
  const pool = makeSlotPool(() => 2);
  const [busy, wanting, other] = [join(pool), join(pool), join(pool)];
  expect(busy.share.acquire() && other.share.acquire()).toBe(true);
  wanting.share.request();
  busy.share.request();
  other.share.release();
  expect(wanting.share.isReserved).toBe(true);
  expect(busy.share.acquire()).toBe(false);
  wanting.share.decline();
  expect(wanting.share.isReserved).toBe(false);
  // A single slot of two is left to the other ledgers.
  expect(busy.share.acquire()).toBe(false);
  other.share.request();
  expect(other.share.acquire()).toBe(true);
});

test('a ledger that does not claim its slot loses it', () => {
  vi.useFakeTimers();
  try {
    const pool = makeSlotPool(() => 1);
    const [first, absent, third] = [join(pool), join(pool), join(pool)];
    expect(first.share.acquire()).toBe(true);
    absent.share.request();
    third.share.request();
    first.share.release();
    expect([absent.share.isReserved, third.share.isReserved]).toEqual([true, false]);
    vi.advanceTimersByTime(limits.ledgerTurnMs + 1);
    expect([absent.share.isReserved, third.share.isReserved]).toEqual([false, true]);
  } finally {
    vi.useRealTimers();
  }
});

test('the limit of a ledger holds, and a ledger that leaves frees its slots', () => {
  const pool = makeSlotPool(() => 4);
  const [limited, other] = [join(pool, 1), join(pool)];
  expect(acquireAll(limited)).toBe(1);
  expect(acquireAll(other)).toBe(3);
  limited.share.release();
  limited.share.leave();
  expect(other.called).toBe(1);
  expect(acquireAll(other)).toBe(1);
});
