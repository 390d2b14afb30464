import { execFileSync } from 'node:child_process';
import { readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { makeDirectory } from '../support/directory.ts';
import { runError, runOk } from '../support/plugin-process.ts';
import { startRawServer, startWebServer, type WebServer } from '../support/web-server.ts';

let directory: string;
let file: string;
let server: WebServer;

beforeAll(async () => {
  server = await startWebServer(({ path }, response) => {
    const { pathname, searchParams } = new URL(path, 'http://server');
    const status = Number(/^\/(\d+)$/.exec(pathname)?.[1] ?? 200);
    const after = searchParams.get('after');
    if (after !== null) response.setHeader('retry-after', after);
    response.writeHead(status, status === 302 ? { location: `${server.url}/200` } : {});
    response.end('the words\nof the server');
  });
});

beforeEach(async () => {
  directory = await makeDirectory();
  file = join(directory, 'notes.jsonl');
  server.received.length = 0;
});

describe('notify to a file', () => {
  test('appends one line of JSON for each message', async () => {
    await notify({ file }, { message: 'one' });
    await notify({ file }, { message: 'two\nlines "and" 💥' });
    const lines = await readLines();
    expect(lines.map(({ message }) => message)).toEqual(['one', 'two\nlines "and" 💥']);
    expect(lines[0]).toMatchObject({
      at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
      event_type: 'disk.full',
      idempotency_key: 'root/step/0',
    });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  test('keeps what others wrote', async () => {
    await writeFile(file, '{"message":"before"}\n');
    await notify({ file }, { message: 'after' });
    expect((await readLines()).map(({ message }) => message)).toEqual(['before', 'after']);
  });

  test('writes the line of a repeated attempt once', async () => {
    await notify({ file }, { message: 'one' });
    const again = { ...request({ file }, { message: 'one' }), attempt: 2 };
    const { logs } = await runOk('notify', again);
    expect(logs).toMatchObject([{ level: 'info' }]);
    expect(await readLines()).toHaveLength(1);
    await runOk('notify', { ...again, idempotency_key: 'another' });
    expect(await readLines()).toHaveLength(2);
  });

  test('does not follow a link, wait for a pipe or make folders', async () => {
    const victim = join(directory, 'victim');
    await writeFile(victim, '');
    await symlink(victim, file);
    expect((await runError('notify', request({ file }, {}))).error).toContain('config.file');
    expect(await readFile(victim, 'utf8')).toBe('');

    const pipe = join(directory, 'pipe');
    execFileSync('mkfifo', [pipe]);
    expect((await runError('notify', request({ file: pipe }, {}))).error).toContain(
      'not a regular file',
    );

    const nowhere = join(directory, 'no/such/folder');
    expect((await runError('notify', request({ file: nowhere }, {}))).error).toContain(
      'cannot be opened',
    );
  });
});

describe('notify with a template', () => {
  test('fills in fields, also deep ones, and does not look into values again', async () => {
    const template = '{{ host }}: {{disk.path}} is {{disk.used}} full {{list.1}} {{nope}}{{disk}}';
    const payload = {
      host: '{{secret}}',
      secret: 's',
      disk: { path: '/', used: 0.9 },
      list: ['a', 'b'],
    };
    const { events, logs } = await runOk('notify', request({ file, template }, payload));
    const message = '{{secret}}: / is 0.9 full b {"path": "/", "used": 0.9}';
    expect(events).toMatchObject([{ type: 'notify.sent', payload: { message, file } }]);
    const warning = 'config.template: the payload has no nope, so it is empty in the message; ';
    const members = 'the payload has disk, host, list, secret';
    expect(logs).toEqual([{ level: 'warn', message: warning + members }]);
  });

  test('is not sent when all that it shows is missing, and the failure says what there is', async () => {
    const config = { file, template: '{{message}}' };
    const { error, retry } = await runError(
      'notify',
      request(config, { detail: { message: 'm' } }),
    );
    expect(error).toMatch(/^nothing was sent: .* has no message.*; the payload has detail$/);
    expect(retry).toBe(false);
    await expect(stat(file)).rejects.toThrow('ENOENT');
    const { events } = await runOk('notify', request(config, { message: '' }));
    expect(events).toMatchObject([{ payload: { message: '' } }]);
  });

  test('is as long as an event can be, however large a value is', async () => {
    const { events } = await runOk(
      'notify',
      request({ file, template: '{{x}}' }, { x: '\u0001'.repeat(500_000) }),
    );
    expect(JSON.stringify(events[0]?.payload).length).toBeLessThan(70_000);
  });

  test('says at its end and in the log that it was cut, and does not when it was not', async () => {
    const { logs } = await notify({ file, url: server.url }, { message: 'ä'.repeat(60_000) });
    const [{ message }] = (await readLines()) as [{ message: string }];
    expect(message).toMatch(/^ä{32000,}… \(cut, 60000 characters\)$/);
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(65_536);
    expect(JSON.parse(server.received[0]?.body ?? '')).toEqual({ text: message });
    expect(logs).toMatchObject([
      { level: 'warn', message: expect.stringMatching(/cut.* 60000 characters/) },
    ]);
    const whole = 'ä'.repeat(32_768);
    const { events, logs: none } = await notify({ file }, { message: whole });
    expect(events).toMatchObject([{ payload: { message: whole } }]);
    expect(none ?? []).toEqual([]);
  });
});

describe('notify to an address', () => {
  test('posts the message with its idempotency key', async () => {
    const config = {
      url: `${server.url}/in?x=1`,
      headers: { Authorization: 'Bearer t' },
      message_field: 'content',
    };
    const { events } = await notify(config, { message: 'hello' });
    expect(events[0]?.payload).toEqual({ message: 'hello', status: 200 });
    expect(server.received).toMatchObject([
      {
        method: 'POST',
        path: '/in?x=1',
        body: '{"content": "hello"}',
        headers: {
          'idempotency-key': 'root/step/0',
          'content-type': 'application/json',
          authorization: 'Bearer t',
        },
      },
    ]);
  });

  test('posts an answer of an agent with its conversation, and a result with its title', async () => {
    const config = { url: server.url, fields: ['conversation', 'title', 'hook_id', 'nope'] };
    const reply = { conversation: '42', text: 'Hello.', title: null };
    await runOk('notify', {
      ...request(config, {}),
      event: { type: 'agent.reply', payload: reply },
    });
    const result = { status: 'success', text: '', title: 'Report', hook_id: 'h1' };
    await runOk('notify', {
      ...request(config, {}),
      event: { type: 'agent.result', payload: result },
    });
    expect(server.received.map(({ body }) => JSON.parse(body) as unknown)).toEqual([
      { text: 'Hello.', conversation: '42' },
      { text: 'Report\n\nsuccess', title: 'Report', hook_id: 'h1' },
    ]);
  });

  test.each([
    [400, false],
    [401, false],
    [404, false],
    [408, true],
    [429, true],
    [500, true],
    [503, true],
  ])('answers a %i with an error, retry %s', async (status, retry) => {
    const failed = await runError(
      'notify',
      request({ url: `${server.url}/${status}` }, { message: 'x' }),
    );
    expect(failed).toMatchObject({
      error: expect.stringContaining(`answered ${status}: the words of`),
      retry,
    });
  });

  test.each([
    [429, '40', 40_000],
    [503, '999999999999', limits.retryAfterMsMax],
    [503, '0', undefined],
    [503, 'soon', undefined],
    [503, '1.5', undefined],
    [503, 'Sun, 06 Nov 1994 08:49:37 GMT', undefined],
    [400, '40', undefined],
  ])('after a %i with Retry-After %s waits for %s ms', async (status, after, waitMs) => {
    const { retryAfterMs } = await runError('notify', later(status, after));
    expect(retryAfterMs).toBe(waitMs);
  });

  test('waits until the time that the server names', async () => {
    const after = new Date(Date.now() + 3_600_000).toUTCString();
    const { retryAfterMs } = await runError('notify', later(503, after));
    expect(retryAfterMs).toBeGreaterThan(3_500_000);
    expect(retryAfterMs).toBeLessThanOrEqual(3_600_000);
  });

  test('follows no redirect', async () => {
    const { error, retry } = await runError(
      'notify',
      request({ url: `${server.url}/302` }, { message: 'x' }),
    );
    expect(error).toContain('redirect');
    expect(retry).toBe(false);
    expect(server.received).toHaveLength(1);
  });

  test("names the host and not the secret path when the server doesn't respond", async () => {
    const { error, retry } = await runError(
      'notify',
      request({ url: 'http://127.0.0.1:9/T0K3N' }, {}),
    );
    expect(error).toContain('127.0.0.1');
    expect(error).not.toContain('T0K3N');
    expect(retry).toBe(true);
  });

  test('gives up on a server that does not answer', async () => {
    const mute = await startWebServer(() => undefined);
    const { error, retry } = await runError(
      'notify',
      request({ url: mute.url, timeout_ms: 200 }, {}),
    );
    expect(error).toContain('timed out');
    expect(retry).toBe(true);
  });

  test('sends nothing when the file could not be written', async () => {
    await runError('notify', request({ url: server.url, file: join(directory, 'no/such') }, {}));
    expect(server.received).toEqual([]);
  });

  test.each<[string, JsonObject]>([
    ['config.file', {}],
    ['config.file', { file: 'relative' }],
    ['config.fields', { url: 'http://127.0.0.1/', fields: ['text'] }],
    ['config.url', { url: 'file:///etc/passwd' }],
    ['config.url', { url: 'ftp://127.0.0.1/' }],
    ['config.url', { url: 'http://' }],
    ['config.url', { url: 'http://127.0.0.1:99999/' }],
    ['config.url', { url: 'http://127.0.0.1/a b' }],
    ['config.url', { url: 'http://127.0.0.1/\r\nX: y' }],
    ['config.url', { url: 'http://user:secret@127.0.0.1/' }],
    ['config.headers', { url: 'http://127.0.0.1/', headers: { 'X\r\nY': 'z' } }],
    ['config.headers', { url: 'http://127.0.0.1/', headers: { X: 'a\r\nInjected: b' } }],
    ['config.headers', { url: 'http://127.0.0.1/', headers: { Host: 'elsewhere' } }],
  ])('calls it a configuration error: %s of %j', async (key, config) => {
    const { code, error } = await runError('notify', request(config, { message: 'x' }));
    expect(error).toContain(key);
    expect(error).not.toContain('secret');
    expect(code).toBe(78);
  });

  test.each([
    'http://127.0.0.1:PORT/',
    'http://127.1:PORT/',
    'http://0177.1:PORT/',
    'http://0x7f.0.0.1:PORT/',
    'http://2130706433:PORT/',
    'http://localhost:PORT/',
    'http://LOCALHOST.:PORT/',
    'http://[::1]:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    'http://[::ffff:7f00:1]:PORT/',
    'http://[::]:PORT/',
    'http://0.0.0.0:PORT/',
    'http://0:PORT/',
    'https://127.0.0.1:PORT/',
  ])('does not post to %s without permission for the inside', async (address) => {
    const url = address.replace('PORT', String(server.port));
    const config = { url, allow_private: false };
    const { error, retry } = await runError('notify', request(config, { message: 'x' }));
    expect(error).toMatch(/must not be reached|cannot be resolved/);
    expect(retry).toBe(error.includes('cannot be resolved'));
    expect(server.received).toEqual([]);
  });

  // Addresses of other machines are checked in network-guard.test.ts, where nothing can connect.
  test('never posts to a form that hides an address, with permission or without', async () => {
    const config = { url: `http://[::ffff:127.0.0.1]:${server.port}/` };
    const { error } = await runError('notify', request(config, { message: 'x' }));
    expect(error).toContain('must not be reached');
    expect(server.received).toEqual([]);
  });

  test.each([
    ['with a length', 'content-length: 100\r\n\r\nonly', 'IncompleteRead'],
    ['in chunks', 'transfer-encoding: chunked\r\n\r\n9\r\nonly', 'IncompleteRead'],
  ])('does not take an answer %s that was cut for a whole one', async (_, rest, message) => {
    const raw = await startRawServer(`HTTP/1.1 200 OK\r\n${rest}`, false);
    const { error, retry } = await runError('notify', request({ url: raw.url }, {}));
    expect(error).toContain(message);
    expect(retry).toBe(true);
  });

  test('counts the time for all of an answer and not for each byte', async () => {
    const drip = await startWebServer((_, response) => {
      const timer = setInterval(() => response.write('x'), 50);
      response.on('close', () => clearInterval(timer));
    });
    const { error } = await runError('notify', request({ url: drip.url, timeout_ms: 600 }, {}));
    expect(error).toMatch(/took too long|timed out/);
  });

  test('leaves out an idempotency key that no header can carry', async () => {
    await runOk('notify', {
      ...request({ url: server.url }, { message: 'x' }),
      idempotency_key: 'a\r\nX: y',
    });
    expect(server.received[0]?.headers['idempotency-key']).toBeUndefined();
  });
});

/** The server of the tests is on this machine, which only the operator may open. */
function request(given: JsonObject, payload: JsonObject) {
  const config = 'url' in given ? { allow_private: true, ...given } : given;
  return { command: 'handle', config, event: { type: 'disk.full', payload } };
}

function later(status: number, after: string) {
  const url = `${server.url}/${status}?after=${encodeURIComponent(after)}`;
  return request({ url }, { message: 'x' });
}

function notify(config: JsonObject, payload: JsonObject): ReturnType<typeof runOk> {
  return runOk('notify', request(config, payload));
}

async function readLines(): Promise<JsonObject[]> {
  const text = await readFile(file, 'utf8');
  expect(text.endsWith('\n')).toBe(true);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as JsonObject);
}
