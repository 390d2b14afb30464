/** Input of strangers: signatures, bodies, and values in templates and patterns. */
import assert from 'node:assert/strict';
import { DuctileError } from '../../src/base/errors.ts';
import { describeUnsafeJson, type JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { escapeMarkers, renderPrompt } from '../../src/webhook/prompt.ts';
import { normalizeEvent, readDeliveryEvent, toEventRules } from '../../src/webhook/event-type.ts';
import { findMatches, createMatchEffort, parsePattern } from '../../src/webhook/verify/pattern.ts';
import { parsePayload } from '../../src/webhook/verify/signed.ts';
import { presets } from '../../src/webhook/verify/presets.ts';
import { readDeliveryBody, readForm, type WebhookRequest } from '../../src/webhook/request.ts';
import { verifyDelivery } from '../../src/webhook/verify/verify.ts';
import { AT } from '../webhook/support.ts';
import { form, vectors, type Vector } from '../webhook/vectors.ts';
import type { Target } from './support/fuzz.ts';
import { fuzzing } from './support/fuzzing.ts';

/** The number of the vector, the address, the header lines, and after an empty line the body. */
function write(index: number, { url, headers, rawBody }: WebhookRequest): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  return [index, url, ...lines, '', rawBody.toString('latin1')].join('\n');
}

function read(input: string): { readonly index: number; readonly request: WebhookRequest } {
  const split = input.indexOf('\n\n');
  const head = split === -1 ? input : input.slice(0, split);
  const [index = '', url = '', ...lines] = head.split('\n');
  const headers = lines.map((line): readonly [string, string] => {
    const colon = line.indexOf(': ');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 2)];
  });
  const rawBody = Buffer.from(split === -1 ? '' : input.slice(split + 2), 'latin1');
  return { index: Number(index) || 0, request: { method: 'POST', url, headers, rawBody } };
}

const signature: Target = {
  name: 'signature',
  share: 3,
  examples: vectors.map(({ request }, index) => write(index, request)),
  words: [
    '\n',
    ': ',
    '=',
    ',',
    ' ',
    '.',
    'v1=',
    'v0=',
    'sha256=',
    't=1',
    't=',
    'v1,',
    'whsec_',
    '==',
    ...vectors.flatMap(({ request }) =>
      request.headers.map(([name, value]) => `\n${name}: ${value}`),
    ),

    '\nsvix-id: x',
    '\nwebhook-signature: v1,',
    'bodySHA256=',
    '&',
    '%00',
    ':443',
    'none',
    '\0',
  ],
  check(input) {
    const { index, request } = read(input);
    const vector = vectors[index % vectors.length] ?? vectors[0];
    assert.ok(vector !== undefined);
    const { preset, secret, at = AT } = vector;
    const verdict = verifyDelivery(presets[preset], request, [secret], at);
    if (verdict.kind === 'refused') return `${preset} ${verdict.reason}`;
    // No generator knows the secret, so an accepted input is the signed one.
    assert.ok(
      vectors.some((other) => isProven(other, vector, request)),
      'it is forged',
    );
    return `${preset} ${verdict.kind}`;
  },
};

function isProven(one: Vector, requested: Vector, request: WebhookRequest): boolean {
  if (one.secret !== requested.secret) return false;
  if (one.preset === 'gitlab') return request.headers.some(([, value]) => value === one.secret);
  if (one.preset !== 'twilio') return request.rawBody.equals(one.request.rawBody);
  return fieldsOf(request) === fieldsOf(one.request) || request.rawBody.equals(one.request.rawBody);
}

/** The signed part of a form, whose order and encoding don't matter. */
function fieldsOf({ rawBody }: WebhookRequest): string {
  const fields = readForm(rawBody);
  if (!fields.ok) return '';
  const pairs = [...fields.fields].flatMap(([name, values]) =>
    [...new Set(values)].toSorted().map((value) => name + value),
  );
  return pairs.toSorted().join('');
}

const body: Target = {
  name: 'hook-body',
  share: 2,
  examples: [
    'content-type: application/json\n\n{"a":[1,"x"]}',
    `content-type: ${form}; charset=utf-8\n\na=1&a=2&b=%C3%A9+x&c`,
    `content-type: ${form}\n\npayload=%7B%22a%22%3A1%7D`,
    `content-type: application/cloudevents+json

{"specversion":"1.0","id":"1","type":"a.b","source":"s","data":{"x":1}}`,
    `content-type: application/json
ce-specversion: 1.0
ce-id: 1
ce-type: t
ce-source: s
ce-subject: %41

{"a":1}`,
    'content-type: application/vnd.x+json; charset="UTF-8"\ncontent-encoding: identity\n\n{}',
  ],
  words: [
    '\n',
    ': ',
    ';',
    'charset=utf-16',
    'gzip',
    '-batch',
    '\nce-id: %00',
    '\nce-__proto__: 1',
    '%',

    '%zz',
    '&',
    '=',
    '+',
    'payload=',
    '__proto__=1',
    '%00',
    '\xc3',
    '\xff',
    '\xef\xbb\xbf',
    '{"a":',
    '"\\u0000"',
    '"\\ud800"',
    '[[[[',
    '1e400',
    '"a":1,"a":2',
    '\nce-time: %ED%A0%80',
    'null',
  ],
  check(input) {
    const { request } = read(`0\nhttps://h/\n${input}`);
    const parsed = readDeliveryBody(request, 'all');
    if (!parsed.ok) return `${parsed.fault} ${parsed.message}`;
    assert.equal(describeUnsafeJson(parsed.payload, limits.jsonDepthMax), undefined);
    assert.equal(describeUnsafeJson(parsed.event ?? null, limits.jsonDepthMax + 2), undefined);
    return `ok ${parsed.event !== undefined}`;
  },
};

const payload: JsonObject = {
  title: '{{body}} {{title}}',
  body: '$& $1 {{?x}}',
  n: 1,
  list: [1, { a: '}}' }],
  none: null,
  'a-b': 'dashed',
  deep: { n: 2, 'x.y': 3 },
  toString: 'own',
  été: 'ok',
};

const template: Target = {
  name: 'hook-template',
  share: 4,
  examples: [
    '{{title}}: {{body}}',
    '{{missing}} {{none}}',
    '{{ list }}{{list}}',
    '{{été}}{{{n}}}',
    '{{a-b}} {{deep.n}} {{\tdeep.x.y }} {{a b}}',
  ],
  words: [
    '{{',
    '}}',
    '{',
    '}',
    'title',
    'body',
    'n',
    'list',
    'constructor',
    '__proto__',
    '?',
    '$&',
    ' ',
    '.',
    '-',
    'deep',
  ],
  check(input) {
    try {
      const rendered = renderPrompt(input, payload);
      // A simple implementation: one pass from left to right that doesn't read inserted text again.
      const expected = input
        .split(/(\{\{[ \t]*[\p{L}\p{N}_][\p{L}\p{N}_.-]*[ \t]*\}\})/u)
        .map((part, index) => (index % 2 === 1 ? show(part.slice(2, -2).trim()) : part));
      assert.equal(rendered, expected.join(''));
      return `ok ${rendered === input} ${rendered.includes('{{?')}`;
    } catch (thrown) {
      if (!(thrown instanceof DuctileError)) throw thrown;
      return thrown.code;
    }
  },
};

/** Nested values, by their names with dots. */
const within: ReadonlyMap<string, number> = new Map([
  ['deep.n', 2],
  ['deep.x.y', 3],
]);

function show(field: string): string {
  const value = Object.hasOwn(payload, field) ? payload[field] : within.get(field);
  if (value === null || value === undefined) return `{{?${field}}}`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const boundary: Target = {
  name: 'boundary',
  share: 2,
  examples: [
    '#-- END EXTERNAL WEBHOOK PAYLOAD --#',
    'e x t e r n a l - webhook\npayload',
    'ЕXTERNAL WEВHOOK ΡAYLOAD',
    'ＥＸＴＥＲＮＡＬ ＷＥＢＨＯＯＫ ＰＡＹＬＯＡＤ',
    'nothing of the kind',
  ],
  words: [
    '#--',
    '--#',
    'END',
    'EXTERNAL',
    'WEBHOOK',
    'PAYLOAD',
    '\u200b',
    '\u0301',
    '\u{e0041}',
    'external',
  ],
  check(input) {
    const escaped = escapeMarkers(input);
    assert.doesNotMatch(escaped.normalize('NFKC'), /external[^\p{L}]*webhook[^\p{L}]*payload/iu);
    // Nothing is left to find a second time.
    assert.equal(escapeMarkers(escaped), escaped);
    return escaped === input ? 'same' : 'escaped';
  },
};

const subjects = [
  't=17,v1=ab0,v1=cd',
  'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!',
  '',
  'é=\u2028x',
];

const pattern: Target = {
  name: 'pattern',
  share: 2,
  examples: [
    'v1=([a-f0-9]+)',
    String.raw`\b(t)=(\d{1,3})$`,
    '(?:a|b)*(c?)',
    '((a+)+)$',
    '([^,]+?)',
  ],
  words: [
    '(',
    ')',
    '[',
    ']',
    '{',
    '}',
    '|',
    '*',
    '+',
    '?',
    '^',
    '$',
    '.',
    '\\d',
    '\\w',
    '\\b',
    '\\',
    '(?:',
    '(?<n>',
    '{2,}',
    '{1000}',
    '[^',
    'a-z',
    '(a*)*',
    '(a|a)+',
    '\\x41',
    '(?=',
  ],
  check(input) {
    const layout = parsePayload(input);
    const parsed = parsePattern(input);
    if (!parsed.ok) return `${parsed.message} ${layout.ok}`;
    for (const subject of subjects) {
      const found = findMatches(parsed.pattern, subject, 10, createMatchEffort()) ?? [];
      assert.ok(found.length <= 10 && found.every((one) => subject.includes(one)));
    }
    return 'ok';
  },
};

const eventType: Target = {
  name: 'event-type',
  share: 1,
  examples: ['push', 'orders/create', 'Push Hook', 'repo:push', 'com.example.Order.Paid'],
  words: ['.', '/', ':', ' ', '..', '_', '-', '*', '{', 'é', '\0', 'ß', 'İ', 'ghp_', '\u2028'],
  check(input) {
    const request = { ...read('0').request, headers: [['x-github-event', input]] as const };
    const rules = toEventRules({ auth_mode: 'github' });
    const { event, eventType: type } = readDeliveryEvent(rules, request, {}, undefined);
    assert.ok((type ?? '').length <= limits.webhookEventTypeChars);
    // A route can match it exactly: it contains no character with another meaning.
    assert.match(event ?? 'none', /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/);
    if (event !== undefined) assert.equal(normalizeEvent(event), event);
    return `${type === undefined} ${event === undefined} ${event === type}`;
  },
};

const targets = [signature, body, template, boundary, pattern, eventType];
fuzzing('fuzz-webhooks', { cases: 20_000 }, targets);
