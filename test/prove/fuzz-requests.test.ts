/** Input of callers: JSON, cursors, paths and queries, CloudEvents, trace contexts. */
import assert from 'node:assert/strict';
import { DuctileError } from '../../src/base/errors.ts';
import {
  describeUnsafeJson,
  isObject,
  replaceExact,
  parseStrictJson,
} from '../../src/base/json.ts';
import { numbersIn } from '../support/number-texts.ts';
import { limits } from '../../src/base/limits.ts';
import { parseTraceparent, formatTraceparent } from '../../src/base/trace.ts';
import {
  decodeSegments,
  readQuery,
  createRouter,
  readParams,
  splitPath,
} from '../../src/http/router.ts';
import { readCursor, writeCursor } from '../../src/operation/page.ts';
import { operations } from '../../src/operation/all.ts';
import { fromCloudEvent, fromCloudEvents, readCloudEvent } from '../../src/signal/cloudevent.ts';
import type { Target } from './support/fuzz.ts';
import { fuzzing } from './support/fuzzing.ts';

/** The result, or the code of the one kind of error that it may throw. */
function attempt<T>(run: () => T): { readonly value: T } | { readonly refused: string } {
  try {
    return { value: run() };
  } catch (thrown) {
    if (!(thrown instanceof DuctileError)) throw thrown;
    assert.ok(thrown.kind.status < 500, `${thrown.code} is a failure of the server`);
    return { refused: `${thrown.code} ${thrown.message}` };
  }
}

const json: Target = {
  name: 'json',
  share: 4,
  examples: [
    '{"a":1,"b":[true,null,{"c":"d"}],"e":"\\u00e9\\n"}',
    '{"a":1,"a":2}',
    '[-9007199254740993,1e400,0.1e-7]',
    '{"__proto__":{"x":1},"constructor":{"prototype":1}}',
    ' \t\n"text"\r',
  ],
  words: [
    '{"a":',
    '[',
    ']',
    '}',
    ',',
    ':',
    '"',
    '\\u0000',
    '\\ud800',
    '\\"',
    '"a":1,',
    'null',
    'tru',

    '-0',
    '1e',
    '1E+2',
    '.5',
    '01',
    '[[[[[[[[[[',
    '//',
    '/**/',
    '\ufeff',
    'NaN',
    '"__proto__":',
  ],
  check(input) {
    const parsed = parseStrictJson(input);
    if (!parsed.ok) return parsed.fault.replace(/^\$\S*/, '$');
    // As doubles they equal the result of JSON.parse; as exact numbers they equal the text.
    const asDoubles = replaceExact(parsed.value, (number) => Number(number.text));
    assert.deepEqual(asDoubles, JSON.parse(input));
    assert.deepEqual(numbersIn(JSON.stringify(parsed.value)), numbersIn(input));
    assert.equal(describeUnsafeJson(parsed.value, limits.jsonDepthMax), undefined);
    // An accepted input is accepted again in our own spelling, with the same meaning.
    const written = JSON.stringify(parsed.value);
    const again = parseStrictJson(written);
    assert.ok(again.ok, 'it is refused as we write it');
    assert.equal(JSON.stringify(again.value), written);
    return `ok ${typeof parsed.value}`;
  },
};

const cursor: Target = {
  name: 'cursor',
  share: 4,
  examples: [
    writeCursor('j', 'epoch-of-ours', [1, 2]),
    writeCursor('j', 'another-one', [1, 2]),
    writeCursor('e', 'epoch-of-ours', [7]),
    writeCursor('j', 'epoch-of-ours', [Number.MAX_SAFE_INTEGER, 0]),
  ],
  words: ['ai5lcG9jaC1vZi4x', '.', '=', '-', '_', '+', '/', 'ZQ', 'Lg', ' ', '\0'],
  check(input) {
    const read = attempt(() => readCursor('j', 'epoch-of-ours', input, 2));
    if ('refused' in read) return read.refused;
    if (read.value === 'reset') return 'reset';
    assert.ok(read.value.every((n) => Number.isSafeInteger(n) && n >= 0));
    const written = writeCursor('j', 'epoch-of-ours', read.value);
    assert.deepEqual(readCursor('j', 'epoch-of-ours', written, 2), read.value);
    return 'ok';
  },
};

const router = createRouter(operations);

const address: Target = {
  name: 'address',
  share: 2,
  examples: [
    '/jobs?plugin=echo&limit=5&cursor=abc',
    '/job/0199a1b2-0000-7000-8000-000000000001',
    '/plugin/echo/poll?dry_run=true',
    '/facts/echo?type=a%20b+c',
    '/events?type=a&type=b&after=%ff',
    '/directives/%00?__proto__=1',
  ],
  words: [
    '%00',
    '%zz',
    '%',
    '..%2f',
    '%c0%af',
    '%ed%a0%80',
    '?',
    '&',
    '=',
    '/',
    '//',
    ';',
    '\\',
    '+',

    'plugin=',
    'limit=-1',
    '__proto__',
    'constructor',
    'token=x',
    '%2e%2e',
    '#',
    '/jobs',
    '/job/',
  ],
  check(input) {
    const path = input.split('?', 1)[0] ?? '';
    const segments = splitPath(path);
    const places = router
      .find(segments)
      .flatMap((place) => [...place.routes.values()].map((route) => ({ place, route })));
    const outcomes = places.map(({ place, route }) => {
      const params = attempt(() => decodeSegments(readParams(place, segments)));
      const query = attempt(() => readQuery(input, route));
      if ('refused' in params) return params.refused;
      if ('refused' in query) return query.refused;
      for (const text of [...Object.values(params.value), ...Object.values(query.value).flat()]) {
        assert.ok(!text.includes('\0'));
      }
      return `ok ${Object.keys(params.value).length} ${Object.keys(query.value).length}`;
    });
    return outcomes.join(' ');
  },
};

const cloudEvent: Target = {
  name: 'cloudevent',
  share: 2,
  examples: [
    JSON.stringify({
      headers: { 'content-type': 'application/cloudevents+json' },
      body: { specversion: '1.0', id: '1', type: 'a.b', source: '/s', data: { x: 1 }, time: 't' },
    }),
    JSON.stringify({
      headers: {
        'ce-specversion': '1.0',
        'ce-id': '7',
        'ce-type': 'a%20b',
        'ce-source': 's',
        'ce-subject': '%E2%82%AC',
        'ce-correlationid': 'c',
      },
      body: [1],
    }),
    JSON.stringify({
      headers: { 'content-type': 'application/cloudevents-batch+json' },
      body: [{ specversion: '1.0', id: '1', type: 'a', source: 's', data_base64: 'aGk=' }],
    }),
  ],
  words: [
    '"ce-__proto__":"1",',
    '"ce-constructor":"1",',
    '%00',
    '%ED%A0%80',
    '%',
    '%zz',
    '"ce-data":',

    '"data":',
    'null',
    '[]',
    '{}',
    '"time":',
    '"subject":',
    '"specversion":"0.3"',
    '-batch',
    ';',
  ],
  check(input) {
    const parsed = parseStrictJson(input);
    if (!parsed.ok || !isObject(parsed.value)) return 'no request';
    const { headers = {}, body } = parsed.value;
    if (!isObject(headers)) return 'no headers';
    const lines = Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' ? [[name, value] as const] : [],
    );
    const read = attempt(() => {
      const event = readCloudEvent(Object.fromEntries(lines), body);
      return Array.isArray(event) ? fromCloudEvents(event) : [fromCloudEvent(event)];
    });
    if ('refused' in read) return read.refused.replaceAll(/\[\d+\]|ce-\S+/g, '');
    const unsafe = describeUnsafeJson(read.value, limits.jsonDepthMax + 3);
    assert.equal(unsafe, undefined);
    return `ok ${Object.keys(read.value[0] ?? {}).join(' ')}`;
  },
};

const traceparent: Target = {
  name: 'traceparent',
  share: 4,
  examples: [
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    'cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more',
    '00-00000000000000000000000000000000-b7ad6b7169203331-01',
  ],
  words: ['-', '00', 'ff', '0'.repeat(16), 'g', 'A', ' ', '01'],
  check(input) {
    const place = parseTraceparent(input);
    if (place === undefined) return 'none';
    assert.deepEqual(parseTraceparent(formatTraceparent(place)), place);
    return `ok ${place.isSampled}`;
  },
};

fuzzing('fuzz-requests', { cases: 20_000 }, [json, cursor, address, cloudEvent, traceparent]);
