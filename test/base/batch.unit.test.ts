import { expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { makeBatcher } from '../../src/base/batch.ts';

/** Doubles numbers, and remembers which came together. */
function makeDoubler(refuse: (items: readonly number[]) => void = () => undefined) {
  const batches: (readonly number[])[] = [];
  const double = makeBatcher<number, number>((items) => {
    batches.push(items);
    refuse(items);
    return Promise.resolve(items.map((item) => item * 2));
  });
  return { double, batches };
}

test('calls of one tick are one batch, and each gets its own result', async () => {
  const { double, batches } = makeDoubler();
  expect(await Promise.all([double(1), double(2), double(3)])).toEqual([2, 4, 6]);
  expect(await double(4)).toBe(8);
  expect(batches).toEqual([[1, 2, 3], [4]]);
});

test("an item that can't be written fails alone", async () => {
  const { double, batches } = makeDoubler((items) => {
    if (items.includes(2)) throw new Error('no twos');
  });
  const ends = await Promise.allSettled([double(1), double(2), double(3)]);
  expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(batches).toEqual([[1, 2, 3], [1], [2], [3]]);
});

test('a failure of the whole database is not retried one by one', async () => {
  const { double, batches } = makeDoubler(() => {
    throw new DuctileError('LEDGER_UNAVAILABLE', 'away');
  });
  const ends = await Promise.allSettled([double(1), double(2)]);
  expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(batches).toHaveLength(1);
});
