/** When a disk counts as full. */
import { expect, test } from 'vitest';
import { diskFull, isNearlyFull } from '../../src/insight/findings/disk.ts';

const GIB = 1024 ** 3;

test.each([
  ['a large disk with little room', { free: 1 * GIB, size: 100 * GIB }, 1],
  ['a large disk with more than 2 GiB', { free: 3 * GIB, size: 100 * GIB }, 0],
  ['a small disk with an eighth free', { free: 1 * GIB, size: 8 * GIB }, 0],
  ['a small disk with 1 % free', { free: GIB / 100, size: GIB }, 1],
])('%s', (_, space, count) => {
  expect(isNearlyFull({ path: '/data', ...space })).toBe(count === 1);
});

test('the finding says how much is free, and where', () => {
  expect(diskFull.describe({ path: '/data', free: 0, size: 16 * 1024 * 1024 })).toMatchObject({
    kind: 'disk_full',
    evidence: '0 MiB of 16 MiB are free',
    commands: ["df -h '/data'", 'ductile system prune'],
  });
});
