/** Kinds 1 to 20: the bounds of a request, and the content of its head. */
import { get, host, lines, post, token, type Hostile } from './hostile.ts';

const chunked = 'transfer-encoding: chunked';
const manyHeaders = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `x-${index}: 1`);
const withLength = (length: string): string =>
  `${lines(post, host, token, `content-length: ${length}`)}{}`;
const withEncoding = (encoding: string): string =>
  `${lines(post, host, token, `transfer-encoding: ${encoding}`)}0\r\n\r\n`;

type Row = readonly [kind: number, what: string, bytes: string | Buffer, status: number];

const rows: readonly Row[] = [
  [1, 'no host', lines(get, token), 400],
  [1, 'an empty host', lines(get, 'host:', token), 400],
  [2, 'two hosts', lines(get, host, host, token), 400],
  [3, 'a foreign host', lines(get, 'host: evil.example', token), 421],
  [3, 'a host that only begins like ours', lines(get, 'host: 127.0.0.1.evil.example', token), 421],
  [
    4,
    'length and chunks',
    `${lines(post, host, token, 'content-length: 4', chunked)}0\r\n\r\n`,
    400,
  ],
  [
    5,
    'two lengths',
    `${lines(post, host, token, 'content-length: 2', 'content-length: 3')}{}`,
    400,
  ],
  [6, 'length +5', withLength('+5'), 400],
  [6, 'length 0x5', withLength('0x5'), 400],
  [6, 'length 5,5', withLength('5,5'), 400],
  [6, 'length -1', withLength('-1'), 400],
  [6, 'length 2^64', withLength('18446744073709551616'), 400],
  [7, 'chunked, identity', withEncoding('chunked, identity'), 400],
  [7, 'xchunked', withEncoding('xchunked'), 400],
  [7, 'a vertical tab before chunked', withEncoding('\x0bchunked'), 400],
  [7, 'chunked, gzip', withEncoding('chunked, gzip'), 400],
  [
    7,
    'chunks in HTTP/1.0',
    `${lines(post.replace('1.1', '1.0'), host, token, chunked)}0\r\n\r\n`,
    400,
  ],
  [8, 'a bare LF', `${post}\n${host}\n${token}\ncontent-length: 2\n\n{}`, 400],
  [8, 'a bare CR', lines(get, host, token, 'x-a: 1\rx-b: 2'), 400],
  [8, 'a folded header', lines(get, host, token, 'x-a: 1\r\n 2'), 400],
  [9, 'a chunk of 2^64', `${lines(post, host, token, chunked)}ffffffffffffffffff\r\n`, 400],
  [9, 'a chunk of -1', `${lines(post, host, token, chunked)}-1\r\n{}`, 400],
  [
    9,
    'a huge chunk extension',
    `${lines(post, host, token, chunked)}2;${'a'.repeat(100_000)}\r\n{}\r\n0\r\n\r\n`,
    413,
  ],
  [
    10,
    'a token in a trailer',
    `${lines('POST /system/pause?dry_run=true HTTP/1.1', host, chunked)}0\r\n${token}\r\n\r\n`,
    401,
  ],
  [
    10,
    'another token in a trailer',
    `${lines('POST /system/pause?dry_run=true HTTP/1.1', host, token, chunked)}0\r\nauthorization: Bearer x\r\n\r\n`,
    200,
  ],
  [11, 'a space in a name', lines(get, host, token, 'x a: 1'), 400],
  [11, 'a NUL in a name', lines(get, host, token, 'x\0a: 1'), 400],
  [11, 'a space before the colon', lines(get, host, `${token} `, 'x-a : 1'), 400],
  [12, '17 KiB of headers', lines(get, host, token, `x-a: ${'a'.repeat(17 * 1024)}`), 431],
  [13, '2001 headers', lines(get, host, token, ...manyHeaders(2001)), 431],
  [13, '101 headers', lines(get, host, token, ...manyHeaders(101)), 431],
  [14, 'a header __proto__', lines(get, host, token, '__proto__: x'), 200],
  [
    15,
    'a line of 70 KiB',
    lines(`GET /jobs?plugin=${'a'.repeat(70 * 1024)} HTTP/1.1`, host, token),
    431,
  ],
  [
    15,
    'a URL of 9 KiB',
    lines(`GET /jobs?plugin=${'a'.repeat(9 * 1024)} HTTP/1.1`, host, token),
    414,
  ],
  [16, 'a lower-case method', lines('get /jobs HTTP/1.1', host, token), 400],
  [16, 'an unknown method', lines('BREW /jobs HTTP/1.1', host, token), 400],
  [16, 'TRACE', lines('TRACE /jobs HTTP/1.1', host, token), 405],
  [16, 'CONNECT', lines('CONNECT inner:22 HTTP/1.1', host, token), 405],
  [17, 'HTTP/0.9', 'GET /jobs\r\n\r\n', 400],
  [17, 'HTTP/1.2', lines('GET /jobs HTTP/1.2', host, token), 400],
  [17, 'an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  [17, 'a TLS hello', Buffer.from('16030100a50100', 'hex'), 400],
  [18, 'an absolute target', lines('GET http://inner/jobs HTTP/1.1', host, token), 400],
  [18, 'a target with two slashes', lines('GET //inner/jobs HTTP/1.1', host, token), 400],
  [18, 'a target *', lines('OPTIONS * HTTP/1.1', host, token), 400],
  [
    19,
    'a strange expectation',
    `${lines(post, host, token, 'expect: magic', 'content-length: 2')}{}`,
    417,
  ],
  [
    20,
    'an upgrade without a token',
    lines(get, host, 'connection: upgrade', 'upgrade: websocket'),
    401,
  ],
  [20, 'an upgrade to HTTP/2', lines(get, host, token, 'connection: upgrade', 'upgrade: h2c'), 200],
];

export const framing: readonly Hostile[] = rows.map(([kind, what, bytes, status]) => ({
  kind,
  what,
  bytes,
  status,
  isOpenEnded: status === 400,
}));
