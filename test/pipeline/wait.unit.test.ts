/** Steps that wait for approval, for time or for a signal. */
import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/base/json.ts';
import { advance } from '../../src/pipeline/run/advance.ts';
import { isAwaitedSignal } from '../../src/pipeline/run/walk.ts';
import { approve, at, graph, NOON, ref, start, task, wait } from './graphs.ts';

describe('an approval', () => {
  const asking = {
    next: 'z',
    message: { text: ['send to ', { ref: ['payload', 'to'] }] },
  } as const;
  const flow = graph([approve('ok', { ...asking, timeoutMs: 5000 }), task('z')]);
  const no = { kind: 'decided', approved: false, by: 'ada', why: 'late', at: NOON } as const;

  test('asks and waits', () => {
    const move = advance(flow, at('ok', { to: 'all' }), start);
    expect(move.steps).toMatchObject([{ node: 'ok', status: 'waiting', note: 'send to all' }]);
    expect(move.landing).toMatchObject({
      kind: 'pause',
      due: { inMs: 5000 },
      message: 'send to all',
    });
  });

  test('continues with the approver, the time and the reason', () => {
    const move = advance(flow, at('ok'), { ...no, approved: true });
    expect(move.steps).toMatchObject([{ status: 'succeeded', note: 'approved by ada: late' }]);
    expect(move.landing).toMatchObject({
      own: { ok: { approved: true, by: 'ada', at: NOON, why: 'late' } },
    });
  });

  test('that is refused halts, or continues if that is configured', () => {
    expect(advance(flow, at('ok'), no).landing).toMatchObject({
      kind: 'halt',
      reason: 'rejected',
    });
    const lenient = graph([approve('ok', { next: 'z', onError: 'continue' }), task('z')]);
    const move = advance(lenient, at('ok'), no);
    expect(move.steps).toMatchObject([{ status: 'succeeded', note: 'rejected by ada: late' }]);
    expect(move.landing).toMatchObject({ node: 'z', own: { ok: { approved: false } } });
  });

  test.each([
    ['halt', { kind: 'halt', reason: 'timeout' }],
    ['approve', { own: { ok: { approved: true, by: 'deadline', at: NOON, why: null } } }],
    ['reject', { kind: 'halt', reason: 'rejected' }],
  ] as const)('without a decision does %s', (onTimeout, landing) => {
    const timed = graph([approve('ok', { next: 'z', onTimeout }), task('z')]);
    expect(advance(timed, at('ok'), { kind: 'due', at: NOON }).landing).toMatchObject(landing);
  });
});

describe('a wait', () => {
  const due = { kind: 'due', at: NOON } as const;

  test('for a while or until a time continues unchanged', () => {
    const delay = graph([wait('w', { next: 'z', delayMs: 100 }), task('z')]);
    expect(advance(delay, at('w'), start).landing).toMatchObject({
      kind: 'pause',
      due: { inMs: 100 },
    });
    const move = advance(delay, at('w', { x: 1 }), due);
    expect(move.steps).toMatchObject([{ node: 'w', status: 'succeeded', output: '{"x":1}' }]);
    expect(move.landing).toMatchObject({ node: 'z', own: { x: 1 } });
    const until = graph([wait('w', { until: ref('payload.at') })]);
    expect(
      advance(until, at('w', { at: '2026-11-16T13:00:00+01:00' }), start).landing,
    ).toMatchObject({
      due: { at: NOON },
    });
    for (const bad of ['soon', 5, '+100000-01-01T00:00:00Z']) {
      expect(advance(until, at('w', { at: bad }), start).landing).toMatchObject({
        reason: 'invalid_transition',
      });
    }
  });

  const signal = {
    type: 'paid',
    from: 'bank',
    when: { path: ['signal', 'sum'], op: 'gt', value: 5 },
  } as const;
  const rest = { next: 'z', timeoutMs: 50, signal } as const;
  const flow = graph([wait('w', rest), task('z')]);

  test('for a signal continues with its data', () => {
    expect(advance(flow, at('w'), start).landing).toMatchObject({
      signal: 'paid',
      due: { inMs: 50 },
    });
    const data = { sum: 6 };
    const move = advance(flow, at('w'), { kind: 'signalled', data, signalId: 's1' });
    expect(move.steps).toMatchObject([{ status: 'succeeded', note: 'signal s1' }]);
    expect(move.landing).toMatchObject({ node: 'z', own: { w: data } });
  });

  test('that times out halts, or continues if that is configured', () => {
    expect(advance(flow, at('w'), due).landing).toMatchObject({
      kind: 'halt',
      reason: 'timeout',
    });
    const lenient = graph([wait('w', { ...rest, onError: 'continue' }), task('z')]);
    const move = advance(lenient, at('w'), due);
    expect(move.steps).toMatchObject([
      { node: 'w', status: 'failed', error: 'no signal paid came in time', output: '{"w":null}' },
    ]);
    expect(move.landing).toMatchObject({ node: 'z', own: { w: null } });
  });

  test('knows its signal', () => {
    const comes = (type: string, source: string, data: Json): boolean =>
      isAwaitedSignal(flow, at('w'), { type, source, data });
    expect(comes('paid', 'bank', { sum: 6 })).toBe(true);
    expect(comes('paid', 'bank', { sum: 5 })).toBe(false);
    expect(comes('paid', 'bank', { sum: 'much' })).toBe(false);
    expect(comes('paid', 'thief', { sum: 6 })).toBe(false);
    expect(comes('lost', 'bank', { sum: 6 })).toBe(false);
    expect(isAwaitedSignal(flow, at('z'), { type: 'paid', source: 'bank', data: {} })).toBe(false);
  });
});
