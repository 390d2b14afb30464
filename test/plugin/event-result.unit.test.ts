import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { addResult } from '../../src/plugin/response.ts';

describe('addResult', () => {
  test.each<[string, Json, Json]>([
    ['an object', { a: 1 }, { a: 1, result: 'done' }],
    ['an empty object', {}, { result: 'done' }],
    ['an object with a result', { result: 7 }, { result: 7 }],
    ['an object whose result is null', { result: null }, { result: null }],
    ['a list', [1], [1]],
    ['a text', 'x', 'x'],
    ['null', null, null],
  ])('gives %s what it can have', (_, payload, expected) => {
    expect(addResult([{ type: 'made', payload }], 'done')).toEqual([
      { type: 'made', payload: expected },
    ]);
  });

  test('leaves events as they are when the copies would be too large together', () => {
    const events = [{ payload: { n: 1 } }, { payload: { n: 2 } }];
    const half = 'x'.repeat(limits.resultCopiesBytesMax / 2);
    expect(addResult(events, half)).toBe(events);
    expect(addResult(events.slice(1), half)).toEqual([{ payload: { n: 2, result: half } }]);
  });

  test('leaves a payload as it is that a job could not have with the result', () => {
    const payload = { text: 'x'.repeat(limits.payloadBytesMax - 20) };
    expect(addResult([{ payload }, { payload: {} }], 'a result')).toEqual([
      { payload },
      { payload: { result: 'a result' } },
    ]);
  });
});
