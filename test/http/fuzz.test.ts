/** Requests that are broken at random, always the same ones: no 5xx, and everybody else is served. */
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { databases } from '../support/instance.ts';

const REQUESTS = 400;
const AT_ONCE = 20;
/** Some wait for more that never comes; they are hung up on. */
const PATIENCE_MS = 150;

/** mulberry32: small, and the same everywhere. */
function makeRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

const methods = ['GET', 'POST', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE', 'get', 'G\0T', ''];
const paths = [
  '/jobs',
  '/job/x',
  '/job/%00',
  '/plugin/echo/poll?dry_run=true',
  '/plugin/constructor/toString',
  '/plugin/echo/__proto__',
  '/plugin/echo/constructor',
  '/events?after=%ff',
  '/directives/%00?type=%00',
  '/directives?actor=%00&target=%ed%a0%80',
  '/directives/a%00b',
  '/job/a%00b',
  '/queue?plugin=%00',
  '/facts/echo?type=a%00',
  '/logs?q=a%00',
  '/schedules?plugin=a%00b',
  '/tokens/a%00b/revoke?dry_run=true',
  '/..//../etc/passwd',
  '/%2e%2e/%2e%2e',
  '*',
  '',
  'http://[::1/',
  '/openapi.json?x=1',
  '/jobs?limit=1e309&limit=NaN',
  '/jobs?__proto__=1&constructor=2',
  '/system/pause?dry_run=true',
];
const versions = ['HTTP/1.1', 'HTTP/1.0', 'HTTP/9.9', 'HTTP/1.1 ', 'http/1.1', ''];
const headers = [
  `authorization: Bearer ${OWNER}`,
  `Authorization:\tbearer ${OWNER}`,
  'authorization: Bearer x',
  'authorization: \0',
  'host: 127.0.0.1',
  'host: a, b',
  'host : 127.0.0.1',
  'content-length: 2',
  'content-length: 5',
  'content-length: 00000000000000000002',
  'content-length: 2 ',
  'transfer-encoding: chunked',
  'transfer-encoding: Chunked, gzip',
  'transfer-encoding: \x0bchunked',
  'content-type: application/json',
  'content-type: application/json; charset=\xff',
  'content-encoding: br',
  'expect: 100-continue',
  'connection: upgrade, close',
  'upgrade: h2c',
  'idempotency-key: k',
  'idempotency-key: \x7f',
  'last-event-id: AAAA',
  'x-request-id: a\tb',
  'origin: null',
  'access-control-request-method: POST',
  '__proto__: 1',
  ': empty',
  'no colon',
  ' folded',
];
const bodies = [
  '',
  '{}',
  '{"a":',
  '2\r\n{}\r\n0\r\n\r\n',
  '2;x=y\r\n{}\r\n0\r\nhost: b\r\n\r\n',
  '-1\r\n{}',
  'fffffffff\r\n{}',
  '{"__proto__":1}',
  '\0\0\0',
  'GET /jobs HTTP/1.1\r\n\r\n',
];

function makeBytes(random: (below: number) => number): Buffer {
  const pick = (list: readonly string[]): string => list[random(list.length)] ?? '';
  const end = random(8) === 0 ? '\n' : '\r\n';
  // Most are sound in most of their parts, or nothing behind the first look would ever be reached.
  const method = random(3) > 0 ? pick(['GET', 'POST']) : pick(methods);
  const version = random(6) > 0 ? 'HTTP/1.1' : pick(versions);
  const lines = [[method, pick(paths), version].join(random(9) === 0 ? '  ' : ' ')];
  if (random(4) > 0) lines.push('host: localhost', `authorization: Bearer ${OWNER}`);
  for (let count = random(4); count > 0; count -= 1) lines.push(pick(headers));
  const bytes = Buffer.from(`${lines.join(end)}${end}${end}${pick(bodies)}`, 'latin1');
  for (let count = random(3); count > 1; count -= 1) {
    bytes[random(bytes.length)] = random(256);
  }
  return random(10) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes;
}

function send(port: number, bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let said = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => (said += chunk));
    socket.setTimeout(PATIENCE_MS, () => socket.destroy());
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(said));
    socket.write(bytes);
  });
}

describe.each(databases)('on %s', (database) => {
  let api: TestApi;

  beforeAll(async () => {
    api = await startApi({ database });
  });

  afterAll(async () => {
    await api.close();
  });

  test(`${REQUESTS} broken requests`, async () => {
    const random = makeRandom(20_260_101);
    const seen = new Set<string>();
    for (let sent = 0; sent < REQUESTS; sent += AT_ONCE) {
      const batch = Array.from({ length: AT_ONCE }, () => makeBytes(random));
      const said = await Promise.all(batch.map((bytes) => send(api.port, bytes)));
      for (const [index, text] of said.entries()) {
        for (const [, status = ''] of text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)) {
          seen.add(status);
          if (status.startsWith('5')) {
            expect.fail(`${JSON.stringify(batch[index]?.toString('latin1'))} got ${text}`);
          }
        }
      }
    }
    // It did reach something, and not only the parser.
    expect([...seen]).toEqual(expect.arrayContaining(['200', '400', '401', '404', '405']));
    expect((await api.ask('/jobs')).status).toBe(200);
    expect(api.records.filter(({ level }) => level === 'error')).toEqual([]);
  });
});
