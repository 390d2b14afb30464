/** What comes after a step, and what is in it. */
import { expect, test } from 'vitest';
import { behindOf, insideOf, reachOf } from '../../src/pipeline/language/reach.ts';
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

test('a step reaches all that may follow, within blocks too, but not out of its own', () => {
  expect([...reachOf(flow, 'pick')].toSorted()).toEqual(['last', 'one', 'other', 'pick']);
  expect([...reachOf(flow, 'x')].toSorted()).toEqual(['both', 'l', 'r', 'x']);
  expect(reachOf(flow, 'a').size).toBe(Object.keys(flow.nodes).length);
  expect(reachOf(flow, null).size).toBe(0);
});

test('a block holds the steps of its branches, and others are behind it', () => {
  expect([...insideOf(flow, 'each', 'foreach')].toSorted()).toEqual(['both', 'l', 'r', 'x']);
  expect([...insideOf(flow, 'both', 'split')].toSorted()).toEqual(['l', 'r']);
  expect(behindOf(flow, 'each', 'foreach')).toEqual(reachOf(flow, 'pick'));
});

test('the events of a task hold the rest of its list', () => {
  const inside = insideOf(flow, 'a', 'events');
  expect(inside.has('last')).toBe(false);
  expect(['each', 'x', 'both', 'pick', 'one'].every((id) => inside.has(id))).toBe(true);
  expect([...behindOf(flow, 'a', 'events')]).toEqual(['last']);
});
