import { toCanonicalJson } from '../../src/base/json.ts';
import { describe, expect, test } from 'vitest';
import { isFinal, isKeyTaken } from '../../src/directive/directive.ts';
import {
  cancelJobsDirective,
  listChosenStatuses,
  retryJobsDirective,
} from '../../src/job/job.directives.ts';
import { createTokenDirective } from '../../src/access/token.directives.ts';

test('equal params have one spelling, whatever the order of their keys', () => {
  const one = toCanonicalJson({ b: [{ y: 1, x: null }], a: 'x' });
  expect(one).toBe('{"a":"x","b":[{"x":null,"y":1}]}');
  expect(toCanonicalJson({ a: 'x', b: [{ x: null, y: 1 }] })).toBe(one);
  expect(toCanonicalJson({ a: ['2', '1'] })).not.toBe(toCanonicalJson({ a: ['1', '2'] }));
});

test("a final state stays final, and callers can't choose a key of the runtime", () => {
  expect(['completed', 'failed', 'cancelled'].every((status) => isFinal(status as 'failed'))).toBe(
    true,
  );
  expect([isFinal('requested'), isFinal('running')]).toEqual([false, false]);
  expect([isKeyTaken('auto:x'), isKeyTaken('mine')]).toEqual([true, false]);
});

describe('the selection of jobs', () => {
  test.each([
    [{ job_id: 'a' }, true],
    [{ plugin: 'mail' }, true],
    [{ older_than_ms: 0 }, true],
    [{ status: ['queued'], limit: 5 }, true],
    [{}, false],
    [{ limit: 5 }, false],
    [{ job_id: 'a', status: ['queued'] }, false],
    [{ status: ['dead'] }, false],
    [{ plugin: 'mail', limit: 0 }, false],
    [{ plugin: 'mail', all: true }, false],
  ])('%o', (params, isSound) => {
    expect(cancelJobsDirective.params.safeParse(params).success).toBe(isSound);
  });

  test('a filter without states means those that the verb is for', () => {
    expect(listChosenStatuses('cancel', { limit: 1 })).toEqual(['queued', 'running']);
    expect(listChosenStatuses('retry', { limit: 1 })).toEqual(['failed', 'timed_out', 'dead']);
    expect(listChosenStatuses('retry', { limit: 1, status: ['succeeded'] })).toEqual(['succeeded']);
    expect(retryJobsDirective.params.safeParse({ status: ['succeeded'] }).success).toBe(true);
  });

  test('a single job is the same request again, a filter is not', () => {
    expect(cancelJobsDirective.sameness({ job_id: 'a', limit: 1 })).toBe('toggle');
    expect(cancelJobsDirective.sameness({ plugin: 'a', limit: 1 })).toBe('each');
  });
});

test.each([
  [['*'], true],
  [['jobs:ro', 'plugin:rw', 'read:*', 'echo:allow:poll', 'my.plugin:deny:handle'], true],
  [[], false],
  [['jobs'], false],
  [['jobs:ro '], false],
  [['a:b:c:d'], false],
  [['jobs:\u0000'], false],
])('scopes %o', (scopes, isSound) => {
  expect(createTokenDirective.params.safeParse({ name: 'a', scopes }).success).toBe(isSound);
});
