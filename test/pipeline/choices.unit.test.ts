/** The steps that a branch takes or skips. */
import { describe, expect, test } from 'vitest';
import { advance } from '../../src/pipeline/run/advance.ts';
import { at, choice, graph, output, split, start, statuses, task } from './graphs.ts';

const isTrue = { path: ['payload', 'go'], op: 'eq', value: true } as const;
const isLarge = { path: ['payload', 'size'], op: 'gt', value: 1 } as const;

describe('a switch', () => {
  const flow = graph([
    choice('which', { a: 'x', b: null, '3': 'y' }, { next: 'z' }),
    task('x', { next: 'z', end: 'z', list: 'which' }),
    task('y', { next: 'z', end: 'z', list: 'which' }),
    task('z'),
  ]);

  test.each([
    ['a', 'x', 'case a'],
    ['b', 'z', 'case b'],
    [3, 'y', 'case 3'],
  ])('takes the arm of %j', (kind, node, note) => {
    const move = advance(flow, at('which', { kind }), start);
    expect(move.steps).toMatchObject([
      { node: 'which', kind: 'switch', status: 'succeeded', note },
    ]);
    expect(move.landing).toMatchObject({ kind: 'task', node });
  });

  test('halts when no case matches and `otherwise` is missing', () => {
    expect(advance(flow, at('which', { kind: 'c' }), start).landing).toMatchObject({
      kind: 'halt',
      reason: 'unmatched_condition',
      message: 'step which: no case matches "c", and there is no otherwise',
    });
    const kind = 'c';
    const open = graph([choice('which', {}, { next: 'z', otherwise: { first: null } }), task('z')]);
    expect(advance(open, at('which', { kind }), start).landing).toMatchObject({ node: 'z' });
  });

  test('uses the first condition that holds', () => {
    const cases = [
      { label: 'large', when: isLarge, equals: undefined, first: 'x' },
      { label: 'go', when: isTrue, equals: undefined, first: 'y' },
    ];
    const byCondition = graph([
      choice('which', {}, { value: undefined, cases }),
      task('x'),
      task('y'),
    ]);
    expect(advance(byCondition, at('which', { size: 1, go: true }), start).landing).toMatchObject({
      node: 'y',
    });
    expect(advance(byCondition, at('which', { size: '1', go: true }), start).landing).toMatchObject(
      {
        reason: 'invalid_transition',
        message: 'step which: case large: payload.size is text, but gt compares a number only',
      },
    );
  });
});

describe('a condition', () => {
  const flow = graph([
    task('a', { next: 'b', when: isTrue }),
    split('b', ['l'], { next: 'c', when: isTrue }),
    task('l'),
    task('c', { when: isLarge }),
  ]);

  test('that does not hold skips the step and changes nothing', () => {
    const move = advance(flow, at('a', { size: 2 }), start);
    expect(statuses(move)).toEqual(['a skipped', 'b skipped']);
    expect(move.landing).toMatchObject({ kind: 'task', node: 'c', own: { size: 2 } });
    const end = advance(flow, at('a', { size: 0 }), start);
    expect(statuses(end)).toEqual(['a skipped', 'b skipped', 'c skipped']);
    expect(output(end)).toEqual({ size: 0 });
  });

  test('with the wrong type halts', () => {
    expect(advance(flow, at('c', { size: 'big' }), start).landing).toMatchObject({
      kind: 'halt',
      reason: 'invalid_transition',
      message: 'step c: if: payload.size is text, but gt compares a number only',
    });
  });

  test('sees what a child branch has from before its block', () => {
    const child = at('a', {}, { base: { go: true } });
    expect(advance(flow, child, start).landing).toMatchObject({
      kind: 'task',
      node: 'a',
      isWhole: false,
    });
  });
});
