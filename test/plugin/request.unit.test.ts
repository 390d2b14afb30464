import { describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../../src/base/json.ts';
import { pluginEnvironment, encodeRequest } from '../../src/plugin/protocol.ts';

describe('encodeRequest', () => {
  const request = {
    jobId: 'j1',
    instance: 'alias',
    attempt: 2,
    idempotencyKey: 'key',
    config: { a: 1 },
    state: { s: 1 },
    context: { c: 1 },
    deadlineAt: '2026-01-01T00:00:00.000Z',
  };

  function encode(command: string, payload: Json): JsonObject {
    const bytes = encodeRequest({ ...request, command, payload });
    expect(bytes.at(-1)).toBe(0x0a);
    expect(bytes.subarray(0, -1).includes(0x0a)).toBe(false);
    return JSON.parse(bytes.toString()) as JsonObject;
  }

  test('a command gets its payload as it is, and no event', () => {
    const payload = { type: 'x', payload: 'line\nbreak' };
    expect(encode('poll', payload)).toEqual({
      protocol: 2,
      job_id: 'j1',
      command: 'poll',
      instance: 'alias',
      attempt: 2,
      idempotency_key: 'key',
      config: { a: 1 },
      state: { s: 1 },
      context: { c: 1 },
      payload,
      deadline_at: '2026-01-01T00:00:00.000Z',
    });
  });

  test.each(['handle', 'poll'])(
    '%s gets stored values as if they were written again',
    (command) => {
      const event = { type: 'a.b', payload: { x: 1, text: 'line\nbreak', deep: [{}, null] } };
      for (const payload of [event, event.payload, {}, 'text', null]) {
        const expected = { ...request, command, payload };
        const stored = encodeRequest({ ...expected, payloadText: JSON.stringify(payload) });
        expect(stored.toString()).toBe(encodeRequest(expected).toString());
      }
    },
  );

  test('handle gets the stored event, and its data as payload', () => {
    const event = {
      type: 'a.b',
      payload: { x: 1 },
      dedupe_key: 'k',
      source: 's',
      timestamp: 't',
      event_id: 'e',
    };
    expect(encode('handle', event)).toMatchObject({ event, payload: { x: 1 } });
  });

  test.each<[Json]>([
    [{ action: 'opened' }],
    [{ type: 'x' }],
    [{ type: 1, payload: {} }],
    [{ type: 'x', payload: {}, repository: 'more than an event' }],
    [[1, 2]],
    [{}],
  ])('handle gets %j as the payload of an event without type', (payload) => {
    expect(encode('handle', payload)).toMatchObject({
      event: { type: 'api.trigger', payload },
      payload,
    });
  });
});

describe('baggage in a request', () => {
  const request = {
    jobId: 'j1',
    command: 'handle',
    instance: 'alias',
    attempt: 1,
    idempotencyKey: 'key',
    config: {},
    state: {},
    context: { user: 'ann', n: 0, ductile: { webhook: {} }, traceparent: 'place' },
    deadlineAt: '2026-01-01T00:00:00.000Z',
  };
  const event = { type: 'a.b', source: 's', event_id: 'e' };

  test.each<[Json, Json, Json]>([
    [{ n: 1 }, { n: 1 }, { user: 'ann', n: 1 }],
    [{}, {}, { user: 'ann', n: 0 }],
    [[1], [1], [1]],
    [null, null, null],
  ])('%j stays the payload, and the event has more', (payload, plain, merged) => {
    const encoded = JSON.parse(encodeRequest({ ...request, payload }).toString()) as JsonObject;
    expect(encoded).toMatchObject({ payload: plain, event: { type: 'api.trigger' } });
    expect(encoded['event']).toHaveProperty('payload', merged);
    const routed = { ...request, payload: { ...event, payload } };
    const sent = JSON.parse(encodeRequest(routed).toString()) as JsonObject;
    expect(sent).toMatchObject({ payload: plain, context: request.context });
    expect(sent['event']).toEqual({ ...event, payload: merged });
  });

  test.each([
    ['', [], { n: 1 }, { n: 1 }, { user: 'ann', n: 1 }],
    ['"n":2', ['n'], {}, { n: 2 }, { user: 'ann', n: 2 }],
    ['"user":"bob"', ['user'], { n: 1 }, { user: 'bob', n: 1 }, { user: 'bob', n: 1 }],
    ['', [], {}, {}, { user: 'ann', n: 0 }],
  ])('%s beneath a step counts before it', (beneath, beneathKeys, payload, plain, merged) => {
    const step = { runId: 'r', stepId: 's', beneath: Buffer.from(beneath), beneathKeys };
    for (const caused of [event, undefined]) {
      const bytes = encodeRequest({ ...request, payload, step: { ...step, event: caused } });
      const sent = JSON.parse(bytes.toString()) as JsonObject;
      expect(sent['payload']).toEqual(plain);
      expect(sent['event']).toEqual({ ...(caused ?? { type: 'pipeline.step' }), payload: merged });
    }
  });

  test('is not in the payload of other commands', () => {
    const payload = { n: 1 };
    const sent = encodeRequest({ ...request, command: 'poll', payload }).toString();
    expect(JSON.parse(sent)).toMatchObject({ payload });
    expect(JSON.parse(sent)).not.toHaveProperty('event');
  });
});

describe('pluginEnvironment', () => {
  test('passes on a short list and what the operator names, nothing else', () => {
    const env = {
      PATH: '/bin',
      HOME: '/h',
      TZ: 'UTC',
      LANG: 'C',
      LANGUAGE: 'en',
      TMPDIR: '/tmp',
      LC_ALL: 'C',
      LC_TIME: 'C',
      LC_evil: 'x',
      USER: 'me',
      NODE_OPTIONS: '--inspect',
      LD_PRELOAD: 'x.so',
      SECRET: 's',
      WANTED: 'w',
      UNSET: undefined,
    };
    expect(pluginEnvironment(env, ['WANTED', 'UNSET', 'ABSENT'])).toEqual({
      PATH: '/bin',
      HOME: '/h',
      TZ: 'UTC',
      LANG: 'C',
      LANGUAGE: 'en',
      TMPDIR: '/tmp',
      LC_ALL: 'C',
      LC_TIME: 'C',
      WANTED: 'w',
    });
  });
});
