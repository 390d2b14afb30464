/** Everything that strangers send: the exact status, never a 5xx, and the server goes on. */
import { gzipSync } from 'node:zlib';
import { connect } from 'node:net';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';

let api: TestApi;

beforeAll(async () => {
  api = await startApi();
});

afterAll(async () => {
  await api.close();
});

afterEach(async () => {
  // Whatever was sent: nothing was accepted and everybody else is still served.
  expect((await api.server.instance.engine.ledger.counts()).running).toBe(0);
  expect(await api.server.instance.engine.ledger.jobs({ limit: 1 })).toEqual([]);
  expect((await api.ask('/healthz')).status).toBe(200);
});

const token = `authorization: Bearer ${OWNER}`;
const host = 'host: 127.0.0.1';
const post = 'POST /plugin/echo/poll HTTP/1.1';
const get = 'GET /jobs HTTP/1.1';

function lines(...parts: readonly string[]): string {
  return `${parts.join('\r\n')}\r\n\r\n`;
}

function statusOf(said: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(said)?.[1] ?? 0);
}

describe('framing', () => {
  const headers = (count: number): string[] =>
    Array.from({ length: count }, (_, index) => `x-${index}: 1`);
  test.each([
    ['1 no host', lines(get, token), 400],
    ['2 two hosts', lines(get, host, host, token), 400],
    ['3 a foreign host', lines(get, 'host: evil.example', token), 421],
    [
      '4 length and chunks',
      `${lines(post, host, token, 'content-length: 4', 'transfer-encoding: chunked')}0\r\n\r\n`,
      400,
    ],
    [
      '5 two lengths',
      `${lines(post, host, token, 'content-length: 2', 'content-length: 3')}{}`,
      400,
    ],
    ['6 length +5', `${lines(post, host, token, 'content-length: +5')}{}`, 400],
    ['6 length 0x5', `${lines(post, host, token, 'content-length: 0x5')}{}`, 400],
    ['6 length 5,5', `${lines(post, host, token, 'content-length: 5,5')}{}`, 400],
    ['6 length -1', `${lines(post, host, token, 'content-length: -1')}{}`, 400],
    ['6 length 2^64', `${lines(post, host, token, 'content-length: 18446744073709551616')}{}`, 400],
    [
      '7 chunked, identity',
      `${lines(post, host, token, 'transfer-encoding: chunked, identity')}0\r\n\r\n`,
      400,
    ],
    ['7 xchunked', `${lines(post, host, token, 'transfer-encoding: xchunked')}0\r\n\r\n`, 400],
    ['8 a bare LF', `${post}\n${host}\n${token}\ncontent-length: 2\n\n{}`, 400],
    ['8 a folded header', lines(get, host, token, 'x-a: 1\r\n 2'), 400],
    [
      '9 a chunk of 2^64',
      `${lines(post, host, token, 'transfer-encoding: chunked')}ffffffffffffffffff\r\n`,
      400,
    ],
    [
      '9 a huge chunk extension',
      `${lines(post, host, token, 'transfer-encoding: chunked')}2;${'a'.repeat(100_000)}\r\n{}\r\n0\r\n\r\n`,
      413,
    ],
    ['11 a space in a name', lines(get, host, token, 'x a: 1'), 400],
    ['11 a NUL in a name', lines(get, host, token, 'x\0a: 1'), 400],
    ['12 17 KiB of headers', lines(get, host, token, `x-a: ${'a'.repeat(17 * 1024)}`), 431],
    ['13 2001 headers', lines(get, host, token, ...headers(2001)), 431],
    ['13 101 headers', lines(get, host, token, ...headers(101)), 431],
    [
      '15 a line of 70 KiB',
      lines(`GET /jobs?plugin=${'a'.repeat(70 * 1024)} HTTP/1.1`, host, token),
      431,
    ],
    [
      '15 a URL of 9 KiB',
      lines(`GET /jobs?plugin=${'a'.repeat(9 * 1024)} HTTP/1.1`, host, token),
      414,
    ],
    ['16 a lower-case method', lines('get /jobs HTTP/1.1', host, token), 400],
    ['16 an unknown method', lines('BREW /jobs HTTP/1.1', host, token), 400],
    ['16 TRACE', lines('TRACE /jobs HTTP/1.1', host, token), 405],
    ['16 CONNECT', lines('CONNECT inner:22 HTTP/1.1', host, token), 405],
    ['17 HTTP/0.9', 'GET /jobs\r\n\r\n', 400],
    ['17 HTTP/1.2', lines('GET /jobs HTTP/1.2', host, token), 400],
    ['17 an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['17 a TLS hello', Buffer.from('16030100a50100', 'hex'), 400],
    ['18 an absolute target', lines('GET http://inner/jobs HTTP/1.1', host, token), 400],
    ['18 a target with two slashes', lines('GET //inner/jobs HTTP/1.1', host, token), 400],
    [
      '19 a strange expectation',
      `${lines(post, host, token, 'expect: magic', 'content-length: 2')}{}`,
      417,
    ],
    [
      '20 an upgrade without a token',
      lines(get, host, 'connection: upgrade', 'upgrade: websocket'),
      401,
    ],
  ])('%s', async (_what, bytes, status) => {
    const said = await api.raw(bytes, /\r\n\r\n.*\}\n$/s);
    expect(statusOf(said)).toBe(status);
    // Where a request ends is in doubt, so nothing that follows may count as one.
    if (status === 400) expect(said).toMatch(/^connection: close\r$/im);
  });

  test('14 a header __proto__ is a header like any other', async () => {
    expect((await api.ask('/jobs', { headers: { __proto__x: '1' } })).status).toBe(200);
    expect(statusOf(await api.raw(lines(get, host, token, '__proto__: x'), /\}\n$/))).toBe(200);
  });

  test('10 trailers change nothing', async () => {
    const place = 'POST /system/pause?dry_run=true HTTP/1.1';
    const chunked = ['transfer-encoding: chunked', 'trailer: authorization'];
    const head = lines(place, host, token, ...chunked);
    const bytes = `${head}0\r\nauthorization: Bearer x\r\n\r\n`;
    expect(statusOf(await api.raw(bytes, /\}\n$/))).toBe(200);
  });
});

describe('paths and queries', () => {
  test.each([
    ['21 %2e%2e%2f', '/plugin/..%2f..%2fetc', 404],
    ['21 double encoding', '/plugin/%252e%252e', 404],
    ['21 a backslash', '/plugin/..%5c..', 404],
    ['21 overlong UTF-8', '/plugin/%c0%af', 400],
    ['21 %00', '/plugin/echo%00', 404],
    ['21 ;/', '/jobs;/x', 404],
    ['22 %zz', '/jobs?plugin=%zz', 400],
    ['22 %zz in the path', '/job/%zz', 400],
    ['23 a field twice', '/jobs?plugin=a&plugin=b', 400],
    ['23 __proto__[x]', '/jobs?__proto__[x]=1', 400],
    ['23 __proto__', '/jobs?__proto__=1', 400],
    ['24 many fields', `/jobs?${'a=1&'.repeat(2000)}`, 400],
    ['25 a page of -1', '/jobs?limit=-1', 400],
    ['25 a page of 1e9', '/jobs?limit=1000000000', 400],
    ['25 a forged cursor', '/jobs?cursor=AAAA', 400],
    ['25 a cursor that is no text', '/jobs?cursor=%00', 400],
    ['25 a forged event cursor', '/events?after=ZS54LjEuMS4x', 400],
    ['26 a hostile regex', `/events?type=${encodeURIComponent('^(a+)+$')}`, 400],
    ['an id that can be none', '/job/nonsense', 404],
    ['an unknown place', '/nowhere', 404],
  ])('%s', async (_what, path, status) => {
    const reply = await api.ask(path);
    expect([reply.status, reply.headers['content-type']]).toEqual([
      status,
      'application/problem+json',
    ]);
  });
});

describe('bodies', () => {
  const place = '/plugin/echo/poll';
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const many = `{${Array.from({ length: 50_000 }, (_, index) => `"k${index}":1`).join(',')}}`;
  test.each<readonly [string, string | Buffer, Readonly<Record<string, string>>, number]>([
    ['34 too large', Buffer.alloc(limits.requestBytesMax + 1, 'a'), {}, 413],
    [
      '34 too large in chunks',
      Buffer.alloc(limits.requestBytesMax + 1, 'a'),
      { 'transfer-encoding': 'chunked' },
      413,
    ],
    [
      '34 a payload over its limit',
      JSON.stringify({ a: 'a'.repeat(limits.payloadBytesMax) }),
      {},
      413,
    ],
    ['35 compressed', gzipSync('{}'), { 'content-encoding': 'gzip' }, 415],
    ['36 blanks', '  ', {}, 400],
    ['37 a form', 'a=1', { 'content-type': 'application/x-www-form-urlencoded' }, 415],
    ['37 multipart', '--x--', { 'content-type': 'multipart/form-data; boundary=x' }, 415],
    ['37 plain text', '{}', { 'content-type': 'text/plain' }, 415],
    [
      '38 UTF-16',
      Buffer.from('{}', 'utf16le'),
      { 'content-type': 'application/json; charset=utf-16' },
      415,
    ],
    ['38 UTF-7', '{}', { 'content-type': 'application/json; charset=utf-7' }, 415],
    ['39 not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), {}, 400],
    ['40 100,000 levels', deep, {}, 400],
    ['41 many keys', many, {}, 400],
    ['42 __proto__', '{"__proto__":{"admin":true}}', {}, 400],
    ['43 a key twice', '{"a":1,"a":2}', {}, 400],
    ['43 a key twice, further in', '{"payload":{"b":[{"a":1,"a":2}]}}', {}, 400],
    ['44 1e400', '{"a":1e400}', {}, 400],
    ['44 2^63', '{"a":9223372036854775808}', {}, 400],
    ['45 text behind it', '{} x', {}, 400],
    ['45 a byte order mark', '\ufeff{}', {}, 400],
    ['45 NaN', '{"a":NaN}', {}, 400],
    ['45 a comment', '{/* a */}', {}, 400],
    ['46 U+0000', '{"a":"\\u0000"}', {}, 400],
    ['47 a lone surrogate', '{"a":"\\ud800"}', {}, 400],
    ['a list', '[1]', {}, 400],
    ['a text', '"a"', {}, 400],
    ['null', 'null', {}, 400],
  ])('%s', async (_what, body, headers, status) => {
    const reply = await api.ask(place, { body, headers });
    expect([reply.status, reply.headers['content-type']]).toEqual([
      status,
      'application/problem+json',
    ]);
    expect(reply.body).toMatchObject({
      status,
      error: expect.any(String),
      code: expect.any(String),
    });
  });

  test.each(['tenant_id', 'state', 'attempt'])('48 the unknown field %s', async (field) => {
    const reply = await api.ask(`/job/0199a1b2/cancel`, { body: JSON.stringify({ [field]: 1 }) });
    expect(reply.status).toBe(400);
    expect((await api.ask(`${place}?${field}=1`, { body: '{}' })).status).toBe(400);
  });
});

describe('time', () => {
  test('30 a body that breaks off, and 33 one that is shorter than announced', async () => {
    const socket = connect(api.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write(`${lines(post, host, token, 'content-length: 100')}{"a"`);
    await new Promise((turn) => setImmediate(turn));
    socket.resetAndDestroy();
    expect((await api.ask('/healthz')).status).toBe(200);
  });

  test('31 a thousand pipelined requests are all answered', async () => {
    const one = lines('GET /healthz HTTP/1.1', host);
    const last = lines('GET /healthz HTTP/1.1', host, 'connection: close');
    const said = await api.raw(one.repeat(999) + last);
    expect(said.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(1000);
  });
});
