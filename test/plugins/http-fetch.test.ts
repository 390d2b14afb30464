import { gzipSync } from 'node:zlib';
import type { ServerResponse } from 'node:http';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { payloadOf, runError, runOk } from '../support/plugin-process.ts';
import { startWebServer, type ReceivedRequest, type WebServer } from '../support/web-server.ts';

/** The operator allows `server` in most tests; `inside` is forbidden. */
let server: WebServer;
let inside: WebServer;

beforeAll(async () => {
  server = await startWebServer((request, response) => {
    (pages[request.path] ?? pages['/404'])?.(request, response);
  });
  inside = await startWebServer((_request, response) => response.end('secret of the inside'));
});

beforeEach(() => {
  server.received.length = 0;
  inside.received.length = 0;
});

const pages: Record<string, (request: ReceivedRequest, response: ServerResponse) => void> = {
  '/text': (_, response) => {
    response.setHeader('content-type', 'text/plain').setHeader('set-cookie', 'a=b').end('grüße');
  },
  '/latin': (_, response) => {
    response.setHeader('content-type', 'text/plain; charset=iso-8859-1').end(Buffer.from([0xfc]));
  },
  '/bytes': (_, response) => response.end(Buffer.from([0xff, 0x00, 0x01])),
  '/nul': (_, response) => response.end('a\0b'),
  '/gzip': (_, response) =>
    response.setHeader('content-encoding', 'gzip').end(gzipSync('x'.repeat(1e6))),
  '/etag': ({ headers }, response) => {
    if (headers['if-none-match'] === '"v1"') response.writeHead(304).end();
    else response.setHeader('etag', '"v1"').end('one');
  },
  '/big': (_, response) => response.end('x'.repeat(3000)),
  '/endless': (_, response) => {
    const timer = setInterval(() => response.write('x'.repeat(1e5)), 1);
    response.on('close', () => clearInterval(timer));
  },
  '/mute': () => undefined,
  '/slow': (_, response) => response.write('begun'),
  '/short': (_, response) => {
    response.writeHead(200, { 'content-length': 100 });
    response.write('only this');
    setImmediate(() => response.destroy());
  },
  '/404': (_, response) => response.writeHead(404).end('nothing here'),
  '/500': (_, response) => response.writeHead(500).end(),
  '/429': (_, response) => response.writeHead(429).end(),
  '/503': (_, response) => response.writeHead(503).end('x'.repeat(3000)),
  '/later': ({ headers }, response) => {
    const status = Number(headers['x-status']);
    response.writeHead(status, { 'retry-after': String(headers['x-after']) }).end();
  },
  '/hop': (_, response) => redirect(response, '/text#fragment'),
  '/loop': (_, response) => redirect(response, '/loop'),
  '/inward': (_, response) => redirect(response, `${inside.url}/`),
  '/inward-decimal': (_, response) => redirect(response, `http://2130706433:${inside.port}/`),
  '/hidden': (_, response) => redirect(response, 'http://[::ffff:127.0.0.1]/'),
  '/file': (_, response) => redirect(response, 'file:///etc/passwd'),
  '/garbage': (_, response) => redirect(response, 'http://['),
  '/away': (_, response) => redirect(response, `http://localhost:${server.port}/text`),
};

describe('http-fetch fetch', () => {
  test('emits status, body, digest and the headers worth keeping', async () => {
    const { result, events } = await fetchPage('/text');
    expect(result).toBe(`200 from 127.0.0.1:${server.port}, 7 bytes`);
    expect(events).toEqual([
      {
        type: 'http-fetch.fetched',
        payload: {
          url: `${server.url}/text`,
          final_url: `${server.url}/text`,
          status: 200,
          headers: { 'content-type': 'text/plain' },
          bytes: 7,
          sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
          body: 'grüße',
        },
        dedupeKey: undefined,
      },
    ]);
  });

  test.each([
    ['/latin', { body: 'ü' }],
    ['/bytes', { body_base64: '/wAB' }],
    ['/nul', { body_base64: 'YQBi' }],
  ])('keeps the body of %s as it is', async (path, expected) => {
    expect((await fetchPage(path)).events[0]?.payload).toMatchObject(expected);
  });

  test('does not unpack what it did not ask for', async () => {
    const payload = payloadOf(await fetchPage('/gzip'));
    expect(payload).toMatchObject({ headers: { 'content-encoding': 'gzip' } });
    expect(payload['body']).toBeUndefined();
    expect(server.received[0]?.headers['accept-encoding']).toBe('identity');
  });

  test('requests only the head if configured, and changes nothing anywhere', async () => {
    const { events } = await fetchPage('/text', { method: 'HEAD' });
    expect(server.received[0]?.method).toBe('HEAD');
    expect(events[0]?.payload).not.toHaveProperty('body');
    for (const method of ['POST', 'DELETE', 'get', 'CONNECT']) {
      const request = local({ url: `${server.url}/text`, method });
      expect((await runError('http-fetch', request)).error).toContain('payload.method');
    }
  });

  test.each([
    ['/404', false],
    ['/500', true],
    ['/429', true],
  ])('fails on %s, retry %s', async (path, retry) => {
    const failed = await runError('http-fetch', local({ url: `${server.url}${path}` }));
    expect(failed).toMatchObject({
      error: expect.stringContaining(`answered ${path.slice(1)}`),
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
    [404, '40', undefined],
  ])('after a %i with Retry-After %s waits for %s ms', async (status, after, waitMs) => {
    const { retryAfterMs } = await runError('http-fetch', later(status, after));
    expect(retryAfterMs).toBe(waitMs);
  });

  test('waits until the time that the server names', async () => {
    const after = new Date(Date.now() + 3_600_000).toUTCString();
    const { retryAfterMs } = await runError('http-fetch', later(503, after));
    expect(retryAfterMs).toBeGreaterThan(3_500_000);
    expect(retryAfterMs).toBeLessThanOrEqual(3_600_000);
  });

  test('takes a status that the operator accepts', async () => {
    const { events } = await fetchPage('/404', {}, { accept_status: [404] });
    expect(events[0]?.payload).toMatchObject({ status: 404, body: 'nothing here' });
  });

  test('distinguishes a failure status from a large response, which no retry can help', async () => {
    const request = local({ url: `${server.url}/503` }, { max_bytes: 2000 });
    const { error, retry } = await runError('http-fetch', request);
    expect(error).toContain('answered 503');
    expect(retry).toBe(true);
  });

  test('stops at the size limit, also of a body without end', async () => {
    for (const path of ['/big', '/endless']) {
      const request = local({ url: `${server.url}${path}` }, { max_bytes: 2000 });
      const { error, retry } = await runError('http-fetch', request);
      expect(error).toContain('config.max_bytes (2000)');
      expect(retry).toBe(false);
    }
  });

  test.each(['/mute', '/slow'])('stops at the time limit of %s', async (path) => {
    const request = local({ url: `${server.url}${path}` }, { timeout_ms: 200 });
    const { error, retry } = await runError('http-fetch', request);
    expect(error).toContain('config.timeout_ms');
    expect(retry).toBe(true);
  });

  test('does not take a broken answer for a whole one', async () => {
    const { retry } = await runError('http-fetch', local({ url: `${server.url}/short` }));
    expect(retry).toBe(true);
  });

  test('sends the headers of the payload, and none that would break the request', async () => {
    await fetchPage('/text', { headers: { 'X-Mine': 'yes' } });
    expect(server.received[0]?.headers['x-mine']).toBe('yes');
    for (const headers of [
      { Host: 'x' },
      { 'a\r\nb': 'c' },
      { a: 'b\r\nc: d' },
      { a: 3 },
      { Connection: 'x' },
    ]) {
      const request = local({ url: `${server.url}/text`, headers });
      expect((await runError('http-fetch', request)).error).toContain('payload.headers');
    }
  });
});

describe('http-fetch redirects', () => {
  test('are followed and named', async () => {
    const { events } = await fetchPage('/hop');
    expect(events[0]?.payload).toMatchObject({
      url: `${server.url}/hop`,
      final_url: `${server.url}/text`,
    });
  });

  test.each([
    ['/loop', 'more than 5 redirects'],
    ['/inward', 'must not be reached'],
    ['/inward-decimal', 'must not be reached'],
    ['/hidden', 'must not be reached'],
    ['/file', 'only http: and https:'],
    ['/garbage', 'no address'],
  ])('%s ends: %s', async (path, message) => {
    const config = { url: `${server.url}/text`, allow_private: true };
    const { error, retry } = await runError('http-fetch', {
      command: 'fetch',
      config,
      payload: { url: `${server.url}${path}` },
    });
    expect(error).toContain(message);
    expect(retry).toBe(false);
    expect(inside.received).toEqual([]);
  });

  test('do not carry headers to another origin', async () => {
    const config = { headers: { authorization: 'Bearer operator' }, allow_private: true };
    const hosts = [`127.0.0.1:${server.port}`, `localhost:${server.port}`];
    await runOk('http-fetch', {
      command: 'fetch',
      config: { ...config, allow_hosts: hosts },
      payload: { url: `${server.url}/away`, headers: { 'x-mine': 'payload' } },
    });
    const [first, second] = server.received;
    expect(first?.headers).toMatchObject({ authorization: 'Bearer operator', 'x-mine': 'payload' });
    expect(second?.headers['x-mine']).toBeUndefined();
    expect(second?.headers.authorization).toBeUndefined();
  });
});

describe('http-fetch without permission for the inside', () => {
  test.each([
    'http://127.0.0.1:PORT/',
    'http://127.1:PORT/',
    'http://0177.1:PORT/',
    'http://0x7f.1:PORT/',
    'http://2130706433:PORT/',
    'http://localhost:PORT/',
    'http://LOCALHOST.:PORT/',
    'http://[::1]:PORT/',
    'http://[::ffff:7f00:1]:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    'http://[::]:PORT/',
    'http://0.0.0.0:PORT/',
    'http://0:PORT/',
    'http://①②⑦.0.0.1:PORT/',
    'http://user:pass@127.0.0.1:PORT/',
    'http://example.com@127.0.0.1:PORT/',
    'http://127.0.0.1:22/',
    'file:///etc/passwd',
    'unix:/run/docker.sock',
    'ftp://127.0.0.1/',
    'data:text/plain,x',
    'javascript:alert(1)',
    '//127.0.0.1:PORT/',
    'http://',
    'not an address',
    `http://127.0.0.1:PORT/${'x'.repeat(9000)}`,
  ])('%s is not fetched', async (address) => {
    const url = address.replace('PORT', String(inside.port));
    const { error, retry } = await runError('http-fetch', { command: 'fetch', payload: { url } });
    expect(error).toMatch(
      /must not be reached|cannot be resolved|must be an http|user or password|port 22/,
    );
    expect(retry).toBe(error.includes('cannot be resolved'));
    expect(inside.received).toEqual([]);
  });

  test('an allowed address allows no other', async () => {
    const config = { allow_hosts: [`127.0.0.1:${server.port}`], allow_private: true };
    const payload = { url: `${inside.url}/` };
    const { error } = await runError('http-fetch', { command: 'fetch', config, payload });
    expect(error).toContain('config.allow_hosts');
    expect(inside.received).toEqual([]);
  });

  test('a list of hosts alone opens nothing private', async () => {
    const config = { allow_hosts: [`127.0.0.1:${inside.port}`] };
    const payload = { url: `${inside.url}/` };
    const { error } = await runError('http-fetch', { command: 'fetch', config, payload });
    expect(error).toContain('must not be reached');
  });

  test('a host without a port opens no other port, and no header goes out over http', async () => {
    const config = {
      allow_hosts: ['127.0.0.1'],
      allow_private: true,
      headers: { authorization: 'Bearer operator' },
    };
    const payload = { url: `${inside.url}/` };
    const { error } = await runError('http-fetch', { command: 'fetch', config, payload });
    expect(error).toContain(`127.0.0.1:${inside.port} is not in config.allow_hosts`);
    expect(inside.received).toEqual([]);
  });

  test.each<[string, JsonObject]>([
    ['config.allow_private', { allow_private: true }],
    ['config.allow_hosts', { allow_hosts: ['http://x/'] }],
    ['config.allow_hosts', { allow_hosts: ['*'] }],
    ['config.url', { url: 'file:///etc/passwd' }],
    ['config.headers', { headers: { host: 'x' } }],
    ['config.max_redirects', { max_redirects: 6 }],
  ])('calls it a configuration error: %s of %j', async (key, config) => {
    const { code, error } = await runError('http-fetch', { command: 'fetch', config });
    expect(error).toContain(key);
    expect(code).toBe(78);
  });

  test('needs an address', async () => {
    expect((await runError('http-fetch', { command: 'fetch' })).error).toContain('payload.url');
  });
});

describe('http-fetch poll', () => {
  test('emits the first content, then sends the validator and stays quiet', async () => {
    const first = await poll('/etag');
    expect(first.events).toMatchObject([{ payload: { body: 'one' } }]);
    expect(first.stateUpdates).toMatchObject({
      etag: '"v1"',
      url: `${server.url}/etag`,
      status: 200,
    });
    const second = await poll('/etag', first.stateUpdates);
    expect(second).toMatchObject({ events: [], stateUpdates: undefined });
    expect(server.received[1]?.headers['if-none-match']).toBe('"v1"');
  });

  test('compares by content where there is no validator', async () => {
    const { stateUpdates: state } = await poll('/text');
    expect(await poll('/text', state)).toMatchObject({ events: [], stateUpdates: undefined });
    const changed = await poll('/text', { ...state, sha256: 'another' });
    expect(changed.events).toHaveLength(1);
    expect(changed.stateUpdates).toEqual(state);
  });

  test('does not use the validator of another address', async () => {
    const { stateUpdates: state } = await poll('/etag');
    await poll('/text', state);
    expect(server.received[1]?.headers['if-none-match']).toBeUndefined();
  });

  test('needs config.url', async () => {
    const { code, error } = await runError('http-fetch', {
      command: 'poll',
      payload: { url: server.url },
    });
    expect(error).toContain('config.url');
    expect(code).toBe(78);
  });
});

function redirect(response: ServerResponse, location: string): void {
  response.writeHead(302, { location }).end();
}

function local(payload: JsonObject, config: JsonObject = {}) {
  const allow = { allow_hosts: [`127.0.0.1:${server.port}`], allow_private: true };
  return { command: 'fetch', config: { ...allow, ...config }, payload };
}

function later(status: number, after: string) {
  const headers = { 'X-Status': String(status), 'X-After': after };
  return local({ url: `${server.url}/later`, headers });
}

function fetchPage(path: string, payload: JsonObject = {}, config: JsonObject = {}) {
  return runOk('http-fetch', local({ url: `${server.url}${path}`, ...payload }, config));
}

function poll(path: string, state: JsonObject = {}) {
  const config = { url: `${server.url}${path}`, allow_private: true };
  return runOk('http-fetch', { command: 'poll', config, state });
}
