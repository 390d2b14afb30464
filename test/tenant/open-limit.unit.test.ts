import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeOpenLimit } from '../../src/tenant/open-limit.service.ts';

/** The admitted callers, and how each of them is released. */
function makeCallers(openingMax: number, openMax: number) {
  const opening: ((isOpen: boolean) => void)[] = [];
  let requestCount = 0;
  const limit = makeOpenLimit(openingMax, openMax, () => void (requestCount += 1));
  const open = (): Promise<void> =>
    limit.enter('one', () => new Promise<boolean>((resolve) => opening.push(resolve)));
  return { limit, opening, open, requested: () => requestCount };
}

test('the limit admits a fixed number at once', async () => {
  const { opening, open } = makeCallers(2, 9);
  const all = [open(), open(), open()];
  await turn();
  expect(opening).toHaveLength(2);
  opening[0]?.(false);
  await turn();
  expect(opening).toHaveLength(3);
  for (const leave of opening) leave(false);
  await Promise.all(all);
});

test('the limit admits a fixed number in total, and requests space when a caller waits', async () => {
  const { limit, opening, open, requested } = makeCallers(2, 1);
  const first = open();
  await turn();
  opening[0]?.(true);
  await first;
  expect(limit.isFree).toBe(false);
  const second = open();
  await turn();
  expect([opening.length, requested()]).toEqual([1, 1]);
  limit.leave();
  await turn();
  expect(opening).toHaveLength(2);
  opening[1]?.(false);
  await second;
  expect(limit.isFree).toBe(true);
});

test('a caller that fails to enter is not counted', async () => {
  const { limit } = makeCallers(1, 1);
  await expect(limit.enter('one', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(limit.isFree).toBe(true);
});
