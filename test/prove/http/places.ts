/** Kinds 21 to 26, 49, 53, 54 and 56: paths, queries, tokens and origins. */
import { OWNER } from '../../support/api-server.ts';
import { get, host, lines, post, token, type Hostile } from './hostile.ts';

type Row = readonly [kind: number, what: string, path: string, status: number];

const rows: readonly Row[] = [
  [21, '%2e%2e%2f', '/plugin/..%2f..%2fetc', 404],
  [21, 'double encoding', '/plugin/%252e%252e', 404],
  [21, 'a backslash', '/plugin/..%5c..', 404],
  [21, 'overlong UTF-8', '/plugin/%c0%af', 400],
  [21, '%00', '/plugin/echo%00', 404],
  [21, ';/', '/jobs;/x', 404],
  [21, 'plain dots', '/plugin/../../../etc/passwd', 404],
  [21, 'plain dots below the pages', '/ui/../../../etc/passwd', 200],
  [22, '%zz in a query', '/jobs?plugin=%zz', 400],
  [22, '%zz in a path', '/job/%zz', 400],
  [22, 'a surrogate', '/jobs?plugin=%ed%a0%80', 400],
  [23, 'a field twice', '/jobs?plugin=a&plugin=b', 400],
  [23, '__proto__[x]', '/jobs?__proto__[x]=1', 400],
  [23, '__proto__', '/jobs?__proto__=1', 400],
  [23, 'constructor', '/plugin/constructor', 404],
  [24, 'many fields', `/jobs?${'a=1&'.repeat(2000)}`, 400],
  [25, 'a page of -1', '/jobs?limit=-1', 400],
  [25, 'a page of 1e9', '/jobs?limit=1000000000', 400],
  [25, 'a page of 1e309', '/jobs?limit=1e309', 400],
  [25, 'a forged cursor', '/jobs?cursor=AAAA', 400],
  [25, 'a cursor that is no text', '/jobs?cursor=%00', 400],
  [25, 'a forged event cursor', '/events?after=ZS54LjEuMS4x', 400],
  [26, 'a hostile regex', `/events?type=${encodeURIComponent('^(a+)+$')}`, 400],
  [46, 'U+0000 in a filter', '/queue?plugin=%00', 400],
  [46, 'U+0000 in another', '/directives?actor=%00', 400],
  [56, 'CR and LF in a path', '/job/%0d%0aset-cookie:%20x', 404],
  [56, 'CR and LF in a query', '/jobs?plugin=a%0d%0aset-cookie:%20x', 400],
];

/** All of these get the same response. */
const strangers: readonly (readonly [what: string, ...headers: string[]])[] = [
  ['no token'],
  ['an empty one', 'authorization: Bearer '],
  ['two of them', token, token],
  ['another scheme', `authorization: Basic ${OWNER}`],
  ['a long one', `authorization: Bearer ${'a'.repeat(8000)}`],
  ['one with more behind it', `authorization: Bearer ${OWNER} x`],
  ['one without its end', `authorization: Bearer ${OWNER.slice(0, -1)}`],
  ['look-alike letters', `authorization: Bearer ${OWNER.replace('o', '\xd0\xbe')}`],
];

const foreign = 'origin: https://evil.example';

export const places: readonly Hostile[] = [
  ...rows.map(([kind, what, path, status]) => ({
    kind,
    what,
    bytes: lines(`GET ${path} HTTP/1.1`, host, token),
    status,
  })),
  {
    kind: 49,
    what: 'a token in the query',
    bytes: lines(`GET /jobs?token=${OWNER} HTTP/1.1`, host),
    status: 401,
  },
  ...strangers.map(([what, ...headers]) => ({
    kind: 49,
    what,
    bytes: lines(get, host, ...headers),
    status: 401,
  })),
  {
    kind: 53,
    what: 'a form of a foreign page',
    bytes: `${lines(post, host, foreign, 'content-type: text/plain', 'content-length: 2')}{}`,
    status: 401,
  },
  {
    kind: 54,
    what: 'a foreign preflight',
    bytes: lines('OPTIONS /jobs HTTP/1.1', host, foreign, 'access-control-request-method: POST'),
    status: 403,
  },
  {
    kind: 56,
    what: 'a line in a request id',
    bytes: lines(get, host, token, 'x-request-id: a\rset-cookie: x'),
    status: 400,
  },
];
