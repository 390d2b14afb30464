import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { feedPlugin, pluginsRoot, runError, runOk, runPlugin } from '../support/plugin-process.ts';

describe('echo', () => {
  test('emits the payload as it came', async () => {
    const payload = {
      text: 'a "quoted" \\ back\u2028slash $HOME `id` * \n\t',
      list: [1, -2.5e-7, true, null, {}],
      empty: {},
      äöü: '💥',
    };
    const { result, events } = await runOk('echo', { command: 'poll', payload });
    expect(result).toBe('echoed');
    expect(events).toEqual([{ type: 'echo.echoed', payload, dedupeKey: undefined }]);
  });

  test('prefers the payload of an event for handle and only for handle', async () => {
    const parts = {
      payload: { from: 'payload' },
      event: { type: 'x', payload: { from: 'event' } },
    };
    const handled = await runOk('echo', { command: 'handle', ...parts });
    expect(handled.events[0]?.payload).toEqual({ from: 'event' });
    const polled = await runOk('echo', { command: 'poll', ...parts });
    expect(polled.events[0]?.payload).toEqual({ from: 'payload' });
  });

  test('returns the configured message', async () => {
    const message = 'hello "there" $(id)';
    const { result } = await runOk('echo', { command: 'poll', config: { message } });
    expect(result).toBe(message);
  });

  test('fails with the message it was given, retryable', async () => {
    const named = { command: 'poll', payload: { fail: 'no "luck"' } };
    expect(await runError('echo', named)).toEqual({ error: 'no "luck"', retry: true, code: 0 });
    const plain = { command: 'poll', payload: { fail: true } };
    expect(await runError('echo', plain)).toEqual({ error: 'asked to fail', retry: true, code: 0 });
  });

  test('ends with the code it was given, without an answer', async () => {
    const run = await runPlugin('echo', { command: 'poll', payload: { exit: 7 } });
    expect(run).toMatchObject({ code: 7, stdout: '' });
  });

  test('waits as long as configured', async () => {
    const started = performance.now();
    await runOk('echo', { command: 'poll', payload: { sleep_ms: 120 } });
    expect(performance.now() - started).toBeGreaterThanOrEqual(120);
  });

  test.each([
    { sleep_ms: -1 },
    { sleep_ms: 1.5 },
    { sleep_ms: '1; id' },
    { sleep_ms: 99999999999 },
    { exit: 256 },
    { exit: '$(id)' },
    { fail: 3 },
    { fail: '' },
  ])('refuses %j', async (payload) => {
    const { error, retry } = await runError('echo', { command: 'poll', payload });
    expect(error).toContain(`payload.${Object.keys(payload)[0]} must be`);
    expect(retry).toBe(false);
  });

  test('does not mistake the payload for the request around it', async () => {
    const payload = {
      command: 'health',
      protocol: 1,
      'payload.fail': true,
      payload: { fail: true },
    };
    const { events } = await runOk('echo', { command: 'poll', payload });
    expect(events[0]?.payload).toEqual(payload);
  });

  test('takes a request over several lines', async () => {
    const request = { protocol: 2, command: 'poll', payload: { a: [1, { b: 'c d' }] } };
    const { response } = await feedPlugin('echo', JSON.stringify(request, null, 2));
    expect(response).toMatchObject({ status: 'ok', events: [{ payload: request.payload }] });
  });
});

describe('the JSON reader for sh', () => {
  test('returns every value that is requested', () => {
    const value = fc.json({ depthSize: 'medium' }).map((text): unknown => JSON.parse(text));
    fc.assert(
      fc.property(value, value, (a, b) => {
        const { status, stdout } = extract(
          JSON.stringify({ a, b: { c: b, d: [a] } }),
          'a b.c b nope',
        );
        expect(status).toBe(0);
        const lines = stdout
          .split('\n')
          .slice(0, -1)
          .map((line): unknown => JSON.parse(line));
        expect(lines).toEqual([a, b, { c: b, d: [a] }, null]);
      }),
      { numRuns: 100, seed: 7 },
    );
  });

  test('accepts exactly what JSON.parse accepts of damaged requests', () => {
    const whole = '{"a":[1,-0.5e+3,"x\\"\\u00e9\\\\",{"b":null}],"c":{"d":true,"e":{}}}';
    const damages = [
      '{',
      '}',
      '[',
      ']',
      '"',
      ',',
      ':',
      '\\',
      '0',
      'e',
      '-',
      '.',
      ' ',
      '\n',
      'u',
      '',
    ];
    const damage = fc.tuple(fc.nat(whole.length - 1), fc.constantFrom(...damages));
    fc.assert(
      fc.property(damage, ([at, letter]) => {
        const text = whole.slice(0, at) + letter + whole.slice(at + 1);
        expect(extract(text, 'a').status === 0, text).toBe(isJsonObject(text));
      }),
      { numRuns: 300, seed: 7 },
    );
  });
});

function extract(input: string, wanted: string): { status: number | null; stdout: string } {
  const program = join(pluginsRoot, '../sdk/sh/json.awk');
  return spawnSync('awk', ['-v', `wanted=${wanted}`, '-f', program], {
    input,
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
  });
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
