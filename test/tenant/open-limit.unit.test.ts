import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeOpenLimit } from '../../src/tenant/open-limit.service.ts';

/** The admitted callers, and how each of them is released. */
function makeCrowd(passingMax: number, insideMax: number) {
  const passing: ((isInside: boolean) => void)[] = [];
  let requestCount = 0;
  const gate = makeOpenLimit(passingMax, insideMax, () => void (requestCount += 1));
  const come = (): Promise<void> =>
    gate.enter('one', () => new Promise<boolean>((resolve) => passing.push(resolve)));
  return { gate, passing, come, asked: () => requestCount };
}

test('the limit admits a fixed number at once', async () => {
  const { passing, come } = makeCrowd(2, 9);
  const all = [come(), come(), come()];
  await turn();
  expect(passing).toHaveLength(2);
  passing[0]?.(false);
  await turn();
  expect(passing).toHaveLength(3);
  for (const leave of passing) leave(false);
  await Promise.all(all);
});

test('admits a limited number, and asks for room when a caller waits', async () => {
  const { gate, passing, come, asked } = makeCrowd(2, 1);
  const first = come();
  await turn();
  passing[0]?.(true);
  await first;
  expect(gate.isFree).toBe(false);
  const second = come();
  await turn();
  expect([passing.length, asked()]).toEqual([1, 1]);
  gate.leave();
  await turn();
  expect(passing).toHaveLength(2);
  passing[1]?.(false);
  await second;
  expect(gate.isFree).toBe(true);
});

test('a caller that fails to enter is not counted', async () => {
  const { gate } = makeCrowd(1, 1);
  await expect(gate.enter('one', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(gate.isFree).toBe(true);
});
