/** Kinds 33 to 48: bodies. */
import { gzipSync } from 'node:zlib';
import { limits } from '../../../src/base/limits.ts';
import { host, lines, post, token, type Hostile } from './hostile.ts';

const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
const many = `{${Array.from({ length: 50_000 }, (_, index) => `"k${index}":1`).join(',')}}`;
/** The largest number of elements that fit into the largest body that is read. */
const wide = (element: string): string => {
  const count = Math.floor((limits.requestBytesMax - 100) / (element.length + 1));
  return `[${Array.from({ length: count }, () => element).join(',')}]`;
};
/** The widest object that is parsed, so that it gets as far as a schema. */
const widest = (element: string, count: number): string =>
  `[${Array.from({ length: count }, () => element).join(',')}]`;
const strange = Array.from(
  { length: limits.jsonKeysMax - 1 },
  (_, index) => `"${'almost'.repeat(8)}${index}":1`,
);
const large = Buffer.alloc(limits.requestBytesMax + 1, 'a');
const json = 'content-type: application/json';

type Row = readonly [
  kind: number,
  what: string,
  body: string | Buffer,
  status: number,
  headers?: readonly string[],
];

const rows: readonly Row[] = [
  [34, 'too large', large, 413],
  [34, 'a payload over its limit', JSON.stringify({ a: 'a'.repeat(limits.payloadBytesMax) }), 413],
  [35, 'compressed', gzipSync('{}'), 415, [json, 'content-encoding: gzip']],
  [35, 'a bomb', gzipSync(Buffer.alloc(10_000_000)), 415, [json, 'content-encoding: gzip']],
  [36, 'blanks', '  ', 400],
  [37, 'a form', 'a=1', 415, ['content-type: application/x-www-form-urlencoded']],
  [37, 'multipart', '--x--', 415, ['content-type: multipart/form-data; boundary=x']],
  [37, 'plain text', 'hello', 415, ['content-type: text/plain']],
  [37, 'JSON as UTF-16 text', '{}', 415, ['content-type: text/plain; charset=utf-16']],
  [37, 'a list', '[1]', 400],
  [37, 'a text', '"a"', 400],
  [37, 'null', 'null', 400],
  [38, 'UTF-16', Buffer.from('{}', 'utf16le'), 415, [`${json}; charset=utf-16`]],
  [38, 'UTF-7', '{}', 415, [`${json}; charset=utf-7`]],
  [39, 'not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 400],
  [40, '100,000 levels', deep, 400],
  [41, 'many keys', many, 400],
  [60, 'a list as wide as fits', wide('1'), 400],
  [60, 'a list of lists as wide as fits', wide('[]'), 400],
  [60, 'a list of objects as wide as fits', wide('{}'), 400],
  [60, 'a list of long numbers as wide as fits', wide('12345678901234567890'), 400],
  [60, 'a wide list in an object', `{"payload":{"a":${wide('1')}}}`, 400],
  [42, '__proto__', '{"__proto__":{"admin":true}}', 400],
  [43, 'a key twice', '{"a":1,"a":2}', 400],
  [43, 'a key twice, further in', '{"payload":{"b":[{"a":1,"\\u0061":2}]}}', 400],
  [44, 'a number of a million digits', `{"a":${'1'.repeat(1_000_000)}}`, 400],
  [44, 'a fraction of a million digits', `{"a":0.${'1'.repeat(1_000_000)}}`, 400],
  [44, 'an exponent of a million digits', `{"a":1e${'1'.repeat(1_000_000)}}`, 400],
  [44, 'a long number in the place of an object', '12345678901234567890', 400],
  [45, 'text behind it', '{} x', 400],
  [45, 'a byte order mark', '\ufeff{}', 400],
  [45, 'NaN', '{"a":NaN}', 400],
  [45, 'a comment', '{/* a */}', 400],
  [46, 'U+0000', '{"a":"\\u0000"}', 400],
  [46, 'U+0000 in a key', '{"a\\u0000":1}', 400],
  [47, 'a lone surrogate', '{"a":"\\ud800"}', 400],
  [47, 'a lone surrogate as a key', '{"\\udfff":1}', 400],
];

/** With its length, unless it comes in chunks. */
function write(start: string, headers: readonly string[], body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  const head = lines(start, host, token, ...headers, `content-length: ${bytes.length}`);
  return Buffer.concat([Buffer.from(head), bytes]);
}

const cancel = 'POST /job/0199a1b2/cancel HTTP/1.1';
const batch = 'POST /signals/batch HTTP/1.1';

/** A body that is parsed and then refused by the fields of an operation. */
const refused: readonly (readonly [what: string, start: string, body: string])[] = [
  ['as many unknown keys as are parsed', cancel, `{${strange.join(',')}}`],
  ['a wide list in an unknown field', cancel, `{"a":${widest('1', 99_000)}}`],
  ['long numbers in an unknown field', cancel, `{"a":${widest('0.1234567890123456789', 80_000)}}`],
  ['a field with many entries', batch, `{"signals":${widest('1', 99_000)}}`],
  ['a field with many entries of another type', batch, `{"signals":${widest('{}', 1000)}}`],
];

export const bodies: readonly Hostile[] = [
  ...refused.map(([what, start, body]) => ({
    kind: 61,
    what,
    bytes: write(start, [json], body),
    status: 400,
  })),
  ...rows.map(([kind, what, body, status, headers = [json]]) => ({
    kind,
    what,
    bytes: write(post, headers, body),
    status,
  })),
  {
    kind: 34,
    what: 'too large in chunks',
    bytes: Buffer.concat([
      Buffer.from(lines(post, host, token, json, 'transfer-encoding: chunked')),
      Buffer.from(`${large.length.toString(16)}\r\n`),
      large,
    ]),
    status: 413,
  },
  ...['tenant_id', 'state', 'attempt'].flatMap((field) => [
    {
      kind: 48,
      what: `the unknown field ${field}`,
      bytes: write(cancel, [json], JSON.stringify({ [field]: 1 })),
      status: 400,
    },
    {
      kind: 48,
      what: `the unknown field ${field} in the query`,
      bytes: write(post.replace(' HTTP', `?${field}=1 HTTP`), [json], '{}'),
      status: 400,
    },
  ]),
];
