import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { advance } from '../../src/pipeline/run/advance.ts';
import { createBranchStarter, countBranches } from '../../src/pipeline/run/walk.ts';
import type { Transition } from '../../src/pipeline/run/run.ts';
import {
  at,
  choice,
  done,
  emitted,
  foreach,
  graph,
  NOON,
  output,
  ref,
  split,
  start,
  statuses,
  task,
  wait,
} from './graphs.ts';

function expectMove(move: Transition, steps: object[], landing: object): void {
  expect(move.steps).toMatchObject(steps);
  expect(move.steps).toHaveLength(steps.length);
  expect(move.landing).toMatchObject(landing);
}

describe('a task', () => {
  const chain = graph([task('a', { next: 'b' }), task('b')]);

  test('comes first', () => {
    expectMove(advance(chain, at('a', { x: 1 }), start), [], {
      kind: 'task',
      node: 'a',
      own: { x: 1 },
      isWhole: true,
      input: { x: 1 },
      context: undefined,
    });
  });

  test('without an event adds its result to the payload', () => {
    const move = advance(chain, at('a', { x: 1 }, { base: { y: 2 } }), done('ok'));
    expect(move.steps).toMatchObject([
      { node: 'a', status: 'succeeded', output: '{"x":1,"result":"ok"}' },
    ]);
    expect(move.landing).toMatchObject({
      kind: 'task',
      node: 'b',
      own: { x: 1, result: 'ok' },
      isWhole: false,
    });
  });

  test('with one event continues with the payload of that event alone', () => {
    const move = advance(chain, at('a', { x: 1 }, { base: { y: 2 } }), emitted({ z: 3 }));
    expect(move.landing).toMatchObject({ kind: 'task', node: 'b', own: { z: 3 }, isWhole: true });
    expect(advance(chain, at('a'), emitted(7)).landing).toMatchObject({ own: { value: 7 } });
  });

  test('gets the fields of `with`, which do not stay in the payload', () => {
    const flow = graph([task('a', { with: { to: ref('payload.user.mail'), n: { value: 1 } } })]);
    const { landing } = advance(flow, at('a', { n: 0 }, { base: { user: { mail: 'm' } } }), start);
    expect(landing).toMatchObject({ input: { n: 1, to: 'm' }, own: { n: 0 } });
  });

  test('has the key of its dependency, as text', () => {
    const keyed = graph([task('a', { dependency: ref('payload.repo') })]);
    const landingOf = (repo: string | number) => advance(keyed, at('a', { repo }), start).landing;
    expect(landingOf('ductile')).toMatchObject({ kind: 'task', dependency: 'ductile' });
    expect(landingOf(7)).toMatchObject({ kind: 'task', dependency: '7' });
    expect(landingOf(' ')).toMatchObject({
      kind: 'halt',
      reason: 'invalid_transition',
      message: 'step a: dependency must not be blank, not " "',
    });
    const max = limits.dependencyKeyCharsMax;
    expect(landingOf('x'.repeat(max + 1))).toMatchObject({
      message: expect.stringContaining(`dependency must have at most ${max} characters, not "xxx`),
    });
    expect(advance(keyed, at('a'), start).landing).toMatchObject({
      message: 'step a: dependency: there is no payload.repo; payload has no members',
    });
  });

  test('adds to the baggage, which its own templates see', () => {
    const packed = graph([
      task('a', {
        baggage: [{ to: ['who'], from: ['payload', 'user'] }],
        with: { by: ref('context.who') },
      }),
    ]);
    const { landing } = advance(packed, at('a', { user: 'ada' }, { context: { k: 1 } }), start);
    expect(landing).toMatchObject({
      context: { k: 1, who: 'ada' },
      input: { user: 'ada', by: 'ada' },
    });
  });

  test('that fails halts, or continues if that is configured', () => {
    const failed = { kind: 'failed', reason: 'retries_exhausted', error: 'boom' } as const;
    expectMove(
      advance(chain, at('a', { x: 1 }), failed),
      [{ node: 'a', status: 'failed', error: 'boom' }],
      {
        kind: 'halt',
        node: 'a',
        own: { x: 1 },
        reason: 'retries_exhausted',
        message: 'step a: boom',
      },
    );
    const lenient = graph([task('a', { next: 'b', onError: 'continue' }), task('b')]);
    expectMove(
      advance(lenient, at('a', { x: 1 }), failed),
      [{ node: 'a', status: 'failed', error: 'boom' }],
      {
        kind: 'task',
        node: 'b',
        own: { x: 1, error: { reason: 'retries_exhausted', message: 'boom' } },
      },
    );
    const stuck = { ...failed, reason: 'advancement_retries_exhausted' } as const;
    expect(advance(lenient, at('a'), stuck).landing).toMatchObject({
      kind: 'halt',
      reason: stuck.reason,
    });
  });

  test('whose template misses a value halts and names the step, the path and what there is', () => {
    const flow = graph([task('a', { with: { to: ref('payload.user.mail') } })]);
    const user = { name: 'ada', email: 'a@b' };
    const { landing } = advance(flow, at('a', { user }), start);
    expect(landing).toMatchObject({ kind: 'halt', reason: 'invalid_transition' });
    expect(landing).toHaveProperty(
      'message',
      'step a: with.to: there is no payload.user.mail; payload.user has name, email',
    );
    const many = Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`k${n}`, n]));
    expect(advance(flow, at('a', { user: many }), start).landing).toHaveProperty(
      'message',
      expect.stringMatching(/; payload\.user has k0, .*, k19 and 5 more$/),
    );
    expect(advance(flow, at('a', { user: 'ada' }), start).landing).toHaveProperty(
      'message',
      'step a: with.to: there is no payload.user.mail',
    );
  });

  test('does not get a payload above the limit', () => {
    const { landing } = advance(
      chain,
      at('a', { text: 'x'.repeat(limits.payloadBytesMax) }),
      start,
    );
    expect(landing).toMatchObject({ kind: 'halt', reason: 'invalid_transition' });
  });
});

describe('several events', () => {
  test('run the rest of the list once for each', () => {
    const nested = graph([
      task('a', { next: 'b', end: 'z', list: 'part' }),
      task('b', { next: 'z', end: 'z', list: 'part' }),
      task('z'),
    ]);
    const parent = at('a', { x: 1 }, { base: { y: 2 } });
    const events = [{ n: 1 }, 'two'];
    const move = advance(nested, parent, emitted(...events));
    expect(statuses(move)).toEqual(['a succeeded']);
    expect(move.landing).toMatchObject({
      kind: 'open',
      node: 'a',
      own: { x: 1 },
      block: 'events',
      width: 2,
      events,
    });
    const begin = createBranchStarter(nested, parent, 'events', events);
    expect([begin(0), begin(1)]).toEqual([
      { node: 'b', stop: 'z', label: null, own: { n: 1 }, isWhole: true },
      { node: 'b', stop: 'z', label: null, own: { value: 'two' }, isWhole: true },
    ]);
    expect(output(advance(nested, at('b', { n: 1 }, { stop: 'z' }), done(5)))).toEqual({
      n: 1,
      result: 5,
    });
    const joined = advance(nested, parent, {
      kind: 'joined',
      block: 'events',
      outputs: ['{"n":1}', '{}'],
    });
    expect(joined.steps).toMatchObject([{ node: 'a', kind: 'events', status: 'succeeded' }]);
    expect(joined.landing).toMatchObject({
      kind: 'task',
      node: 'z',
      own: { x: 1, part: [{ n: 1 }, {}] },
    });
  });

  test('are the outputs themselves when nothing is left of the list', () => {
    const last = graph([task('a')]);
    expect(output(advance(last, at('a', { x: 1 }), emitted({ n: 1 }, 2)))).toEqual([
      { n: 1 },
      { value: 2 },
    ]);
    const inArm = graph([
      choice('which', { a: 'a' }, { next: 'z' }),
      task('a', { next: 'z', end: 'z', list: 'which' }),
      task('z'),
    ]);
    expect(advance(inArm, at('a', { x: 1 }), emitted(1, 2)).landing).toMatchObject({
      node: 'z',
      own: { x: 1, which: [{ value: 1 }, { value: 2 }] },
    });
  });

  test('end their branch with the list of outputs, even if they are nested', () => {
    const chain = graph([task('a', { next: 'b' }), task('b', { next: 'c' }), task('c')]);
    const joined = { kind: 'joined', block: 'events', outputs: ['[1,2]', '{"n":3}'] } as const;
    const move = advance(chain, at('a', { x: 1 }), joined);
    expect(output(move)).toEqual([[1, 2], { n: 3 }]);
    expect(move.steps).toMatchObject([
      { node: 'a', kind: 'events', status: 'succeeded', output: '[[1,2],{"n":3}]' },
    ]);
  });

  test('halt the branch if one of them halts, even if the step itself may fail', () => {
    const lenient = graph([task('a', { next: 'b', onError: 'continue' }), task('b')]);
    const error = 'step b: boom';
    const failed = { kind: 'failed', reason: 'timeout', error, block: 'events' } as const;
    expect(advance(lenient, at('a'), failed).landing).toMatchObject({
      kind: 'halt',
      reason: 'timeout',
    });
  });

  test('are limited by the pipeline', () => {
    const narrow = graph([task('a', { next: 'b' }), task('b')], { maxFanout: 2 });
    expect(advance(narrow, at('a'), emitted(1, 2)).landing).toMatchObject({
      kind: 'open',
      width: 2,
    });
    expectMove(advance(narrow, at('a'), emitted(1, 2, 3)), [{ node: 'a', status: 'failed' }], {
      kind: 'halt',
      reason: 'fanout_limit',
    });
  });
});

describe('a split', () => {
  const flow = graph([split('both', ['l', 'r'], { next: 'z' }), task('l'), task('r'), task('z')]);

  test('starts its arms with an empty payload of their own', () => {
    const parent = at('both', { x: 1 });
    expect(advance(flow, parent, start).landing).toMatchObject({
      kind: 'open',
      block: 'split',
      width: 2,
    });
    expect(createBranchStarter(flow, parent, 'split')(1)).toEqual({
      node: 'r',
      stop: null,
      label: 'r',
      own: {},
      isWhole: false,
    });
    expect(output(advance(flow, at('l', {}, { base: { x: 1 } }), done(1)))).toEqual({
      result: 1,
    });
  });

  test('joins to a map in which each arm has its output', () => {
    const joined = { kind: 'joined', block: 'split', outputs: ['{"result":1}', '[2]'] } as const;
    expect(advance(flow, at('both', { x: 1 }), joined).landing).toMatchObject({
      node: 'z',
      own: { x: 1, both: { l: { result: 1 }, r: [2] } },
    });
  });

  test('halts with the reason of the arm that halted', () => {
    const error = 'step r: slow';
    const failed = { kind: 'failed', reason: 'timeout', error, block: 'split' } as const;
    expectMove(advance(flow, at('both'), failed), [{ node: 'both', status: 'failed' }], {
      kind: 'halt',
      node: 'both',
      reason: 'timeout',
      message: 'step r: slow',
    });
  });
});

describe('a foreach', () => {
  const flow = graph([foreach('all', 'x', { next: 'z', as: 'photo' }), task('x'), task('z')]);
  const only = graph([foreach('all', 'x'), task('x')]);

  test('starts a branch for each element, whatever the element is', () => {
    const items = [null, false, 0, '', { a: 1 }];
    const parent = at('all', {}, { base: { items } });
    expect(advance(flow, parent, start).landing).toMatchObject({
      kind: 'open',
      block: 'foreach',
      width: 5,
    });
    expect(countBranches(flow, parent, 'foreach')).toBe(5);
    const begin = createBranchStarter(flow, parent, 'foreach');
    expect(items.map((_, index) => begin(index).own)).toEqual(
      items.map((photo, index) => ({ photo, index })),
    );
    expect(() => begin(5)).toThrow('a block of 5 has no branch 5');
  });

  test('over an empty list joins at once with an empty list', () => {
    const move = advance(flow, at('all', { items: [] }), start);
    expect(statuses(move)).toEqual(['all succeeded']);
    expect(move.landing).toMatchObject({ kind: 'task', node: 'z', own: { items: [], all: [] } });
    expect(output(advance(only, at('all', { items: [] }), start))).toEqual({
      items: [],
      all: [],
    });
  });

  test('joins in the order of the elements, as the last step or not', () => {
    const joined = { kind: 'joined', block: 'foreach', outputs: ['{"n":0}', '{"n":1}'] } as const;
    const own = { a: 1, all: 'old' };
    const expected = { a: 1, all: [{ n: 0 }, { n: 1 }] };
    expect(advance(flow, at('all', own), joined).landing).toMatchObject({ own: expected });
    const last = advance(only, at('all', own), joined);
    expect(output(last)).toEqual(expected);
    expect(last.steps).toMatchObject([
      { node: 'all', status: 'succeeded', output: JSON.stringify(expected) },
    ]);
    expect(output(advance(only, at('all'), joined))).toEqual({ all: expected.all });
    const together = { ...joined, outputs: [joined.outputs.join(',')] };
    expect(output(advance(only, at('all'), together))).toEqual({ all: expected.all });
  });

  test("over a value that isn't a list, or over too many elements, halts before a branch starts", () => {
    expect(advance(flow, at('all', { items: {} }), start).landing).toMatchObject({
      kind: 'halt',
      reason: 'invalid_transition',
      message: 'step all: its foreach is over an object, not over a list',
    });
    expect(advance(flow, at('all', {}), start).landing).toMatchObject({
      reason: 'invalid_transition',
    });
    const narrow = graph([foreach('all', 'x', { maxFanout: 2 }), task('x')]);
    expect(advance(narrow, at('all', { items: [1, 2] }), start).landing).toMatchObject({
      kind: 'open',
    });
    expect(advance(narrow, at('all', { items: [1, 2, 3] }), start).landing).toMatchObject({
      kind: 'halt',
      reason: 'fanout_limit',
    });
  });

  test('whose outputs are too large for the next step halts, but the end of the run accepts them', () => {
    const outputs = Array.from({ length: 4 }, () =>
      JSON.stringify('x'.repeat(limits.payloadBytesMax / 4)),
    );
    const joined = { kind: 'joined', block: 'foreach', outputs } as const;
    expect(advance(flow, at('all'), joined).landing).toMatchObject({
      reason: 'invalid_transition',
    });
    expect(advance(only, at('all'), joined).landing.kind).toBe('end');
    const more = Array.from({ length: 17 }, () =>
      JSON.stringify('x'.repeat(limits.payloadBytesMax)),
    );
    expect(advance(only, at('all'), { ...joined, outputs: more }).landing).toMatchObject({
      kind: 'halt',
      message: expect.stringContaining(String(limits.runOutputBytesMax)) as unknown,
    });
  });
});

test('a step of a called pipeline puts its value under the id that its author gave it', () => {
  const called = graph([foreach('sub/all', 'sub/x', { next: 'z' }), task('sub/x'), task('z')]);
  const joined = { kind: 'joined', block: 'foreach', outputs: ['1'] } as const;
  expect(advance(called, at('sub/all'), joined).landing).toMatchObject({ own: { all: [1] } });
});

test('a contradiction of the graph is a defect and not a halt', () => {
  const flow = graph([task('a')]);
  expect(() => advance(flow, at('gone'), start)).toThrow('has no step gone');
  const other = graph([wait('w')]);
  const decision = { kind: 'decided', approved: true, by: 'ada', why: null, at: NOON } as const;
  for (const [one, standing, arrival] of [
    [flow, at('a'), { kind: 'due', at: NOON }],
    [flow, at('a'), { kind: 'signalled', data: {}, signalId: 's' }],
    [flow, at('a'), { kind: 'joined', block: 'split', outputs: [] }],
    [flow, at('a'), decision],
    [other, at('w'), decision],
    [other, at('w'), done()],
  ] as const) {
    expect(() => advance(one, standing, arrival)).toThrow(`cannot be ${arrival.kind}`);
  }
});
