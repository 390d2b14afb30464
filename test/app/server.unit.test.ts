import { expect, onTestFinished, test } from 'vitest';
import { watchReloadSignal } from '../../src/app/server.ts';
import { eventually } from '../support/instance.ts';

test('many signals during a reload are one more reload', async () => {
  const before = process.listeners('SIGHUP');
  onTestFinished(() => {
    for (const listener of process.listeners('SIGHUP')) {
      if (!before.includes(listener)) process.off('SIGHUP', listener);
    }
  });
  const reloads = watchReloadSignal();
  const ends: (() => void)[] = [];
  process.emit('SIGHUP');
  process.emit('SIGHUP');
  reloads.begin(() => new Promise((resolve) => void ends.push(resolve)));
  expect(ends).toHaveLength(1);
  for (let count = 0; count < 50; count += 1) process.emit('SIGHUP');
  expect(ends).toHaveLength(1);
  ends[0]?.();
  await eventually('the second has begun', () => ends.length === 2);
  ends[1]?.();
  process.emit('SIGHUP');
  await eventually('the third has begun', () => ends.length === 3);
});
