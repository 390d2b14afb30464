import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import type { ProcessEnd } from '../../src/plugin/process.ts';
import { decodeResponse, type Reply } from '../../src/plugin/protocol.ts';

type Change = Partial<Omit<ProcessEnd, 'stdout' | 'stderr'>> & {
  readonly code?: number;
  readonly stderr?: string;
};

function decode(stdout: unknown, change: Change = {}): Reply {
  const { code = 0, stderr = '', ...rest } = change;
  const text = typeof stdout === 'string' ? stdout : JSON.stringify(stdout);
  return decodeResponse({
    exit: { kind: 'exited', code },
    stopped: undefined,
    pid: 1,
    stdout: Buffer.isBuffer(stdout) ? stdout : Buffer.from(text),
    stdoutOverflowed: false,
    stderr: Buffer.from(stderr),
    stderrTruncated: false,
    spawnMs: 1,
    runMs: 61_500,
    cpuMs: undefined,
    memoryPeakBytes: undefined,
    ...rest,
  });
}

const OK = { status: 'ok', result: 'done' };

describe('a good answer', () => {
  test('carries result, events, state and logs', () => {
    const answer = {
      ...OK,
      events: [
        { type: 'a.b', payload: { x: [1] }, dedupe_key: ' k ' },
        { type: 'c', unknown: 1 },
        { type: 'd', payload: 0, dedupe_key: '' },
      ],
      state_updates: { seen: 3 },
      logs: [{ level: 'warn', message: 'm' }, { level: 'loud', message: 'n' }, 'bare', 7, {}],
      surprise: true,
    };
    expect(decode(answer)).toEqual({
      kind: 'ok',
      result: 'done',
      events: [
        { type: 'a.b', payload: { x: [1] }, dedupeKey: 'k' },
        { type: 'c', payload: {} },
        { type: 'd', payload: 0 },
      ],
      stateUpdates: { seen: 3 },
      logs: [
        { level: 'warn', message: 'm' },
        { level: 'info', message: 'n' },
        { level: 'info', message: 'bare' },
      ],
      raw: JSON.stringify(answer),
    });
  });

  test('may leave optional fields empty in any way', () => {
    const nothing = { events: null, state_updates: null, logs: null, error: null, retry: null };
    expect(decode({ ...OK, ...nothing })).toMatchObject({ kind: 'ok', events: [], logs: [] });
    expect(decode({ ...OK, state_updates: {} })).toHaveProperty('stateUpdates', undefined);
  });

  test('may have white space around it, and of two equal keys the last counts', () => {
    expect(decode(' \r\n{"status":"error","status":"ok","result":"r"}\n\n\t ')).toMatchObject({
      kind: 'ok',
      result: 'r',
    });
  });

  test('is not a success if the process then exits with an error or is killed', () => {
    expect(decode(OK, { code: 1 })).toMatchObject({
      kind: 'exit',
      message: 'exited with code 1; its response said ok',
      retry: true,
    });
    expect(decode(OK, { code: 78 })).toMatchObject({ kind: 'exit', code: 78, retry: false });
    expect(decode(OK, { exit: { kind: 'signalled', signal: 'SIGSEGV' } })).toMatchObject({
      kind: 'signal',
      message: 'was killed by SIGSEGV',
    });
  });

  test('is a success if the service stopped the process only because it shuts down', () => {
    expect(decode(OK, { stopped: 'shutdown', code: 143 }).kind).toBe('ok');
  });

  test('may have as many events as the limit, and data as deep', () => {
    const events = Array.from({ length: limits.eventsPerAttemptMax }, () => ({ type: 'x' }));
    expect(decode({ ...OK, events }).kind).toBe('ok');
    const payload = nest(limits.jsonDepthMax);
    expect(decode({ ...OK, events: [{ type: 'x', payload }], state_updates: payload }).kind).toBe(
      'ok',
    );
  });
});

describe('an answer that says it failed', () => {
  const failed = { status: 'error', error: 'no such user' };

  test('may be tried again unless it says otherwise', () => {
    expect(decode(failed)).toMatchObject({
      kind: 'error',
      message: 'no such user',
      retry: true,
      exit78: false,
    });
    expect(decode({ ...failed, retry: false })).toMatchObject({ kind: 'error', retry: false });
    expect(decode({ ...failed, retry: 'false' })).toMatchObject({ retry: true });
    expect(decode({ ...OK, retry: false }).kind).toBe('ok');
  });

  test('may say how long to wait, as far as that is a time and not too long', () => {
    const after = (seconds: unknown) => decode({ ...failed, retry_after_seconds: seconds });
    expect(after(45)).toMatchObject({ kind: 'error', retry: true, retryAfterMs: 45_000 });
    expect(after(0.0001)).toMatchObject({ retryAfterMs: 1 });
    expect(after(1e300)).toMatchObject({ retryAfterMs: limits.retryAfterMsMax });
    for (const none of [undefined, null, 0, -1, '45', [45]]) {
      expect(after(none)).toMatchObject({ kind: 'error', retryAfterMs: undefined });
    }
  });

  test('is final with exit code 78', () => {
    expect(decode(failed, { code: 78 })).toMatchObject({ retry: false, exit78: true });
    expect(decode(failed, { code: 1 })).toMatchObject({ kind: 'error', retry: true });
  });

  test('keeps what it emitted only in the raw text, well-formed or not', () => {
    const answer = { ...failed, events: 'nonsense', state_updates: { a: 1 } };
    const reply = decode(answer);
    expect(reply).toMatchObject({ kind: 'error', raw: JSON.stringify(answer) });
    expect(reply).not.toHaveProperty('events');
  });

  test('has a message of bounded length', () => {
    const reply = decode({ ...failed, error: 'x'.repeat(100_000) });
    expect(reply.kind === 'error' && reply.message.length).toBe(limits.errorCharsMax + 1);
  });
});

describe('an invalid response', () => {
  const deep = nest(limits.jsonDepthMax + 1);
  const many = Array.from({ length: limits.eventsPerAttemptMax + 1 }, () => ({ type: 'x' }));

  test.each<[string, unknown, string]>([
    ['nothing', '', 'stdout is empty'],
    ['white space', ' \n ', 'stdout is empty'],
    ['text', 'hello', 'stdout is not one JSON object'],
    ['two documents', '{"status":"ok","result":"a"}\n{"status":"ok","result":"b"}', 'not one JSON'],
    ['text after it', '{"status":"ok","result":"a"} bye', 'not one JSON'],
    ['half of it', '{"status":"ok","res', 'not one JSON'],
    ['a list', '[]', 'not an object'],
    ['null', 'null', 'not an object'],
    ['a byte order mark', '\uFEFF{"status":"ok","result":"a"}', 'byte order mark'],
    ['bytes that are no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'not valid UTF-8'],
    ['no status', { result: 'a' }, 'status is missing'],
    ['another status', { status: 'OK', result: 'a' }, 'status is "OK"'],
    ['ok without result', { status: 'ok' }, 'result is missing'],
    ['ok with a blank result', { status: 'ok', result: ' \n' }, 'result must not be blank'],
    ['ok with an object', { status: 'ok', result: {} }, 'result must be text'],
    ['error without text', { status: 'error' }, 'error is missing'],
    ['error with blank text', { status: 'error', error: ' ' }, 'error must not be blank'],
    ['events that are no list', { ...OK, events: {} }, 'events must be a list'],
    ['an event that is no object', { ...OK, events: ['x'] }, 'events[0] must be an object'],
    ['an event without type', { ...OK, events: [{ type: 'a' }, {}] }, 'events[1].type must be'],
    [
      'an event with a type that no index can hold',
      { ...OK, events: [{ type: 'a'.repeat(256) }] },
      'events[0].type is longer than 255 bytes',
    ],
    [
      'an event with an endless dedupe key',
      { ...OK, events: [{ type: 'a', dedupe_key: 'é'.repeat(600) }] },
      'events[0].dedupe_key is longer than 1024 bytes',
    ],
    ['an event with an empty type', { ...OK, events: [{ type: '' }] }, 'events[0].type must be'],
    ['a key that is no text', { ...OK, events: [{ type: 'a', dedupe_key: 1 }] }, 'dedupe_key'],
    ['too many events', { ...OK, events: many }, 'at most 1000'],
    ['state that is no object', { ...OK, state_updates: [] }, 'state_updates must be an object'],
    ['too deep an event', { ...OK, events: [{ type: 'a', payload: deep }] }, 'nested too deeply'],
    ['too deep a state', { ...OK, state_updates: deep }, 'nested too deeply'],
    ['a zero character', '{"status":"ok","result":"a\\u0000"}', 'U+0000'],
    ['half a surrogate', '{"status":"ok","result":"a\\ud800"}', 'unpaired surrogate'],
    ['__proto__', '{"status":"ok","result":"a","state_updates":{"__proto__":1}}', '__proto__'],
  ])('%s', (_, stdout, message) => {
    const reply = decode(stdout);
    expect(reply).toMatchObject({ kind: 'protocol', retry: true, exit78: false });
    expect(reply.kind === 'protocol' && reply.message).toContain(message);
  });

  test('more output than allowed, whatever its prefix says', () => {
    const overflow = { stdoutOverflowed: true, stopped: 'output' } as const;
    expect(decode(OK, overflow)).toMatchObject({ kind: 'protocol', raw: JSON.stringify(OK) });
    expect(decode('x', { ...overflow, code: 78 })).toMatchObject({ retry: false });
  });

  test('messages are one storable line even when the fault lies in a strange key', () => {
    const reply = decode('{"status":"ok","result":"a","state_updates":{"k\\u0000\\n\\u001b":1}}');
    expect(reply.kind === 'protocol' && reply.message).toMatch(/^[ -~]+$/);
  });

  test('the raw text is storable', () => {
    expect(decode(Buffer.from([0, 0x61, 0xff])).raw).toBe('\uFFFDa\uFFFD');
  });
});

describe('how the process ended', () => {
  test('a bad exit without an answer, with the last words of stderr', () => {
    expect(decode('', { code: 3, stderr: 'Traceback\n  ...\nKeyError: x\n\n' })).toMatchObject({
      kind: 'exit',
      code: 3,
      retry: true,
      message: 'exited with code 3: KeyError: x',
    });
    expect(decode('', { code: 3 })).toMatchObject({
      message: 'exited with code 3; stdout is empty',
    });
  });

  test('exit code 78 is final with garbage on stdout, too', () => {
    expect(decode('garbage', { code: 78 })).toMatchObject({
      kind: 'exit',
      code: 78,
      retry: false,
      exit78: true,
    });
  });

  test('a signal', () => {
    const exit = { kind: 'signalled', signal: 'SIGKILL' } as const;
    expect(decode('', { exit })).toMatchObject({
      kind: 'signal',
      signal: 'SIGKILL',
      retry: true,
      message: 'was killed by SIGKILL',
    });
    expect(decode({ status: 'error', error: 'e' }, { exit }).kind).toBe('error');
  });

  test('a timeout wins over an answer given while it was stopped', () => {
    expect(decode(OK, { stopped: 'timeout' })).toMatchObject({
      kind: 'timeout',
      retry: true,
      message: 'timed out after 1m1s500ms',
      raw: JSON.stringify(OK),
    });
    expect(decode(OK, { stopped: 'timeout', code: 78 })).toMatchObject({ retry: true });
  });

  test('a lost claim and a cancellation count before the response', () => {
    expect(decode(OK, { stopped: 'fenced' }).kind).toBe('fenced');
    expect(decode(OK, { stopped: 'cancelled' }).kind).toBe('cancelled');
    const exit = { kind: 'unstarted', code: 'EAGAIN', hostFull: true } as const;
    expect(decode('', { stopped: 'cancelled', exit }).kind).toBe('cancelled');
  });

  test('work that was finished during shutdown counts, anything else is released', () => {
    expect(decode(OK, { stopped: 'shutdown' }).kind).toBe('ok');
    expect(decode('', { stopped: 'shutdown', code: 1 }).kind).toBe('shutdown');
    expect(decode({ status: 'error', error: 'e' }, { stopped: 'shutdown' }).kind).toBe('shutdown');
  });

  test.each([
    ['EAGAIN', true, 'no room for another process (EAGAIN)'],
    ['ENOENT', false, 'interpreter in its first line'],
    ['ENOEXEC', false, 'start with #!?'],
    ['E2BIG', false, 'the system refused (E2BIG)'],
  ])('never started: %s', (code, hostFull, message) => {
    const reply = decode('', { exit: { kind: 'unstarted', code, hostFull } });
    expect(reply).toMatchObject({ kind: 'unstarted', code, hostFull, retry: true });
    expect(reply.kind === 'unstarted' && reply.message).toContain(message);
  });
});

test('decoding any bytes gives a reply that can be stored', () => {
  const status = fc.constantFrom('ok', 'error', 'other');
  const answerLike = fc
    .record(
      {
        status,
        result: fc.json(),
        error: fc.string(),
        events: fc.jsonValue(),
        logs: fc.jsonValue(),
      },
      { requiredKeys: ['status'] },
    )
    .map((value) => Buffer.from(JSON.stringify(value)));
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
    fc.string({ unit: 'grapheme' }).map((text) => Buffer.from(text)),
    answerLike,
  );
  fc.assert(
    fc.property(bytes, fc.nat({ max: 255 }), fc.string(), (stdout, code, stderr) => {
      const reply = decode(stdout, { code, stderr });
      const text = reply.kind === 'ok' ? reply.raw : reply.raw + reply.message;
      expect(text.includes('\u0000')).toBe(false);
      expect(text.isWellFormed()).toBe(true);
    }),
  );
});

function nest(levels: number): JsonObject {
  let value: JsonObject = {};
  for (let level = 0; level < levels; level += 1) value = { a: value };
  return value;
}
