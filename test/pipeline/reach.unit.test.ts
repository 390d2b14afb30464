/** The steps that follow a step, and those within it. */
import { expect, test } from 'vitest';
import {
  listAfterBlock,
  listInsideBlock,
  listReachable,
} from '../../src/pipeline/run/retry-from.ts';
import { choice, foreach, graph, split, task } from './graphs.ts';

const flow = graph([
  task('a', { next: 'each', end: 'last' }),
  foreach('each', 'x', { next: 'pick', end: 'last' }),
  task('x', { next: 'both' }),
  split('both', ['l', 'r']),
  task('l'),
  task('r'),
  choice('pick', { one: 'one', none: null }, { next: 'last', otherwise: { first: 'other' } }),
  task('one', { next: 'last' }),
  task('other', { next: 'last' }),
  task('last'),
]);

test('a step reaches all steps that can follow, including nested ones, but none outside of its branch', () => {
  expect([...listReachable(flow, 'pick')].toSorted()).toEqual(['last', 'one', 'other', 'pick']);
  expect([...listReachable(flow, 'x')].toSorted()).toEqual(['both', 'l', 'r', 'x']);
  expect(listReachable(flow, 'a').size).toBe(Object.keys(flow.nodes).length);
  expect(listReachable(flow, null).size).toBe(0);
});

test('a block contains the steps of its branches, and the others come after it', () => {
  expect([...listInsideBlock(flow, 'each', 'foreach')].toSorted()).toEqual(['both', 'l', 'r', 'x']);
  expect([...listInsideBlock(flow, 'both', 'split')].toSorted()).toEqual(['l', 'r']);
  expect(listAfterBlock(flow, 'each', 'foreach')).toEqual(listReachable(flow, 'pick'));
});

test("the block of a task's events contains the rest of its list", () => {
  const inside = listInsideBlock(flow, 'a', 'events');
  expect(inside.has('last')).toBe(false);
  expect(['each', 'x', 'both', 'pick', 'one'].every((id) => inside.has(id))).toBe(true);
  expect([...listAfterBlock(flow, 'a', 'events')]).toEqual(['last']);
});
