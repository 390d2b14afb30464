/** Texts in pipelines: conditions, expressions, templates, ranges of versions. */
import assert from 'node:assert/strict';
import { isObject, type Json, parseStrictJson } from '../../src/base/json.ts';
import { compareVersions, parseRange, parseVersion, satisfies } from '../../src/package/version.ts';
import { evaluateCondition, parseCondition } from '../../src/pipeline/language/condition.ts';
import { PipelineFault } from '../../src/pipeline/run/halt.ts';
import {
  scopeRoots,
  parseTemplate,
  listTemplatePaths,
  renderTemplate,
  type Scope,
} from '../../src/pipeline/language/template.ts';
import type { Target } from './support/fuzz.ts';
import { fuzzing } from './support/fuzzing.ts';

const scope: Scope = {
  payload: {
    kind: 'photo',
    size: 7.5,
    tags: ['a', 'b', { c: null }],
    deep: { 'a b': true, constructor: 'own' },
    text: `${'a'.repeat(40)}!`,
    empty: '',
  },
  context: { user: 'é😀', n: -1, big: 9_007_199_254_740_991 },
  signal: { type: 'x', data: { items: [1, 2, 3] } },
};

/** Reading a value doesn't change it. */
const before = JSON.stringify(scope);

/** The result; only a fault that a run can report may be thrown. */
function attempt(run: () => Json): string {
  try {
    const value = run();
    assert.notEqual(value, undefined);
    return `ok ${Array.isArray(value) ? 'list' : typeof value}`;
  } catch (thrown) {
    if (!(thrown instanceof PipelineFault)) throw thrown;
    return `fault ${thrown.message.replaceAll(/(payload|context|signal)\S*/g, '')}`;
  } finally {
    assert.equal(JSON.stringify(scope), before);
  }
}

const words = [
  'payload.',
  'context.',
  'signal.',
  'kind',
  'size',
  'tags',
  'deep',
  '0',
  'constructor',
  'text',
  '__proto__',
  'prototype',
  'toString',
  'length',
  '{payload.kind}',
  '{{',
  '}}',
  '{',
  '}',
];

const expression: Target = {
  name: 'expression',
  share: 0.6,
  examples: [
    'payload.kind == "photo" && payload.size > 3',
    'has(payload.deep) ? payload.tags[0] in ["a"] : !true',
    'payload.tags.exists(t, t == "b") || size(payload.text) < 50',
    'payload.text.matches("^(a+)+$")',
    'context.n + 1 == 0 && "x" + "y" != b"z"',
    'signal.data.items.all(i, i > 0)',
    'payload.?missing.orValue(1) == 1',
    'timestamp("2026-01-01T00:00:00Z") > timestamp("2025-01-01T00:00:00Z")',
  ],
  words: [
    ...words,

    '==',
    '!=',
    '&&',
    '||',
    '!',
    '?',
    ':',
    '(',
    ')',
    '[',
    ']',
    '.map(',
    '.filter(',
    'in',
    'has(',

    'size(',
    'duration("1h")',
    'int(',
    'double(',
    'string(',
    '1u',
    '0x1F',
    '1e400',
    "'''",
    'r"',

    '"\\u0000"',
    '-',
    '%',
    '/0',
    '9223372036854775807',
    'dyn(',
    'type(',
    'optional.of(',
    'null',
  ],
  check(input) {
    const parsed = parseCondition(input, scopeRoots);
    if (!parsed.ok) return parsed.faults.map(({ message }) => message).join(' ');
    return attempt(() => evaluateCondition(parsed.condition, scope));
  },
};

const condition: Target = {
  name: 'condition',
  examples: [
    '{"path":"payload.kind","op":"eq","value":"photo"}',
    '{"all":[{"path":"payload.size","op":"gte","value":7},{"not":{"path":"payload.x","op":"exists"}}]}',
    '{"any":[{"path":"payload.tags.0","op":"in","value":["a"]},"payload.size > 1.0"]}',
    '{"path":"payload.text","op":"regex","value":"(?i)A+!"}',
    '{"path":"context.user","op":"contains","value":"\\ud83d\\ude00"}',
    '{"path":"payload.text","op":"endswith","value":"!"}',
  ],
  words: [
    ...words,
    '{"all":[',
    '{"any":[',
    '{"not":',
    ']}',
    '"op":"',
    'neq',
    'lt',
    'startswith',
    '"value":',
    '(a|a)*',
    'a?',
    '[^',
    '\\\\p{L}',
    '(?<=x)',
    'null',
    '1',
    '[]',
    '{}',
    'true',
    '"path":""',
  ],
  check(input) {
    const value = parseStrictJson(input);
    if (!value.ok || !isObject(value.value)) return 'no condition';
    const parsed = parseCondition(value.value, scopeRoots);
    if (!parsed.ok) return parsed.faults.map(({ message }) => message).join(' ');
    return attempt(() => evaluateCondition(parsed.condition, scope));
  },
};

const template: Target = {
  name: 'template',
  share: 4,
  examples: [
    '"Hello {context.user}, {payload.size}"',
    '{"a":"{payload.tags}","b":["{payload.deep.a b}","{{x}}"],"c":1}',
    '"{payload.tags.2.c}"',
    '"{ payload.kind }{payload.kind}"',
    '"{{payload.kind}}"',
  ],
  words,
  check(input) {
    const value = parseStrictJson(input);
    if (!value.ok) return 'no JSON';
    const written = value.value as Json;
    const parsed = parseTemplate(written, scopeRoots);
    const whole = parseTemplate(escapeBraces(written), scopeRoots);
    // With doubled braces, any text is plain text.
    assert.ok(whole.ok);
    assert.deepEqual(renderTemplate(whole.template, scope), written);
    if (!parsed.ok)
      return parsed.faults.map(({ message }) => message.replace(/{.*}/, '')).join(' ');
    assert.ok(
      listTemplatePaths(parsed.template).every(([root]) =>
        scopeRoots.some((known) => known === root),
      ),
    );
    return attempt(() => renderTemplate(parsed.template, scope));
  },
};

function escapeBraces(value: Json): Json {
  if (typeof value === 'string') return value.replaceAll(/[{}]/g, '$&$&');
  if (Array.isArray(value)) return value.map(escapeBraces);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, escapeBraces(inner)]),
  );
}

const version: Target = {
  name: 'version',
  share: 4,
  examples: ['1.2.3', '^1.2.0', '~0.3.1', '>=1.0.0 <2.0.0', '1.x', '1.0.0-beta.1+build', '*'],
  words: [
    '^',
    '~',
    '>=',
    '<',
    '=',
    '||',
    ' ',
    '.',
    '-',
    '+',
    'x',
    '*',
    '0',
    '01',
    '99999999999999999999',
  ],
  check(input) {
    const parsed = parseVersion(input);
    if (parsed !== undefined) assert.equal(compareVersions(input, input), 0);
    const range = parseRange(input);
    if (range === undefined) return `no range ${parsed !== undefined}`;
    return `ok ${satisfies('1.2.3', range)} ${satisfies('0.0.0', range)} ${parsed !== undefined}`;
  },
};

fuzzing('fuzz-pipelines', { cases: 20_000 }, [expression, condition, template, version]);
