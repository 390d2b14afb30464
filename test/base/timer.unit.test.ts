import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeEarliestTimer } from '../../src/base/timer.ts';
import { eventually } from '../support/instance.ts';

test('an alarm during a run causes one more run, and not at the same time', async () => {
  const rounds: (() => void)[] = [];
  const alarm = makeEarliestTimer(() => new Promise<void>((resolve) => rounds.push(resolve)));
  alarm.in(0);
  await eventually('it went off', () => rounds.length === 1);
  for (let n = 0; n < 3; n += 1) {
    alarm.in(0);
    await pause(5);
  }
  expect(rounds).toHaveLength(1);
  rounds[0]?.();
  await eventually('it went off again', () => rounds.length === 2);
  let isStopped = false;
  const stopping = alarm.stop().then(() => (isStopped = true));
  await pause(5);
  expect(isStopped).toBe(false);
  alarm.in(0);
  rounds[1]?.();
  await stopping;
  expect(rounds).toHaveLength(2);
});
