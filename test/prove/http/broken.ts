/** Randomly broken requests: valid in most parts, so that they get past the first checks. */
import type { Random } from '../../support/crash/random.ts';
import { OWNER } from '../../support/api-server.ts';

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

/** A request that is broken in some of its parts. */
export function makeBroken(random: Random): Buffer {
  const below = (limit: number): number => Math.floor(random() * limit);
  const pick = (list: readonly string[]): string => list[below(list.length)] ?? '';
  const end = below(8) === 0 ? '\n' : '\r\n';
  // Most parts are valid, because otherwise no request would get past the first checks.
  const method = below(3) > 0 ? pick(['GET', 'POST']) : pick(methods);
  const version = below(6) > 0 ? 'HTTP/1.1' : pick(versions);
  const lines = [[method, pick(paths), version].join(below(9) === 0 ? '  ' : ' ')];
  if (below(4) > 0) lines.push('host: localhost', `authorization: Bearer ${OWNER}`);
  for (let count = below(4); count > 0; count -= 1) lines.push(pick(headers));
  const bytes = Buffer.from(`${lines.join(end)}${end}${end}${pick(bodies)}`, 'latin1');
  for (let count = below(3); count > 1; count -= 1) {
    bytes[below(bytes.length)] = below(256);
  }
  return below(10) === 0 ? bytes.subarray(0, below(bytes.length)) : bytes;
}
