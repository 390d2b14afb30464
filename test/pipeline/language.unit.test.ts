import { describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { extendBaggage, parseBaggage } from '../../src/pipeline/language/baggage.ts';
import {
  evaluateCondition,
  matchesCase,
  parseCondition,
} from '../../src/pipeline/language/condition.ts';
import { PipelineFault } from '../../src/pipeline/run/halt.ts';
import {
  parseReference,
  parseTemplate,
  renderTemplate,
  type Scope,
} from '../../src/pipeline/language/template.ts';

const scope: Scope = {
  payload: {
    name: 'Ada Lovelace',
    count: 3,
    share: 0.5,
    none: null,
    flag: false,
    tags: ['red', 7, null],
    photo: { file: 'a.png', size: 12 },
    'odd key': 1,
    grid: [[1, 2], [3]],
    'list[0]': 'its own',
    list: [0],
  },
  context: { user: { id: 'u1' } },
};

function fill(written: Json): Json {
  const parsed = parseTemplate(written, ['payload', 'context']);
  if (!parsed.ok) throw new Error(parsed.faults.map(({ message }) => message).join('; '));
  // A run stores it as JSON text.
  return renderTemplate(JSON.parse(JSON.stringify(parsed.template)), scope);
}

describe('templates', () => {
  test.each<[Json, Json]>([
    ['plain', 'plain'],
    ['', ''],
    [5, 5],
    [null, null],
    ['{payload.count}', 3],
    ['{ payload.count }', 3],
    ['{payload.photo}', { file: 'a.png', size: 12 }],
    ['{payload.none}', null],
    ['{payload.flag}', false],
    ['{payload.tags.1}', 7],
    ['{payload.tags[1]}', 7],
    ['{payload.grid[1][0]}', 3],
    ['{payload.list[0]}', 'its own'],
    ['{payload.odd key}', 1],
    ['{payload}', scope.payload],
    [
      'Hello {payload.name}, {payload.count} of {payload.tags}',
      'Hello Ada Lovelace, 3 of ["red",7,null]',
    ],
    ['[{payload.none}]', '[]'],
    ['{{payload.count}}', '{payload.count}'],
    ['{{{payload.count}}}', '{3}'],
    [
      { to: '{context.user.id}', deep: ['{payload.count}', true] },
      { to: 'u1', deep: [3, true] },
    ],
    [
      { a: '{{', b: ['}}'] },
      { a: '{', b: ['}'] },
    ],
  ])('%j gives %j', (written, value) => {
    expect(fill(written)).toEqual(value);
  });

  test.each([
    ['{payload.count', 'has a { that is not closed; write {{ for the brace'],
    ['payload.count}', 'has a } that closes nothing; write }} for the brace'],
    ['{payload.{x}}', 'has a { that is not closed; write {{ for the brace'],
    ['{}', 'has {}, which must begin with payload. or context.'],
    ['{config.x}', 'has {config.x}, which must begin with payload. or context.'],
    ['{payload..x}', 'has {payload..x}, which has an empty part'],
    ['{signal.x}', 'has {signal.x}, which must begin with payload. or context.'],
  ])('%s is refused', (written, message) => {
    expect(parseTemplate({ key: [written] }, ['payload', 'context'])).toEqual({
      ok: false,
      faults: [{ at: ['key', 0], message }],
    });
  });

  test.each([
    '{payload.missing}',
    'x {payload.photo.missing}',
    '{payload.tags.3}',
    '{payload.name.length}',
    '{payload.constructor}',
    '{payload.tags.length}',
  ])('%s has no value, which is a fault and not text', (written) => {
    expect(() => fill(written)).toThrow(PipelineFault);
    expect(() => fill(written)).toThrow(/^there is no payload\./);
  });

  test('a reference can be written without braces', () => {
    const parsed = parseReference('payload.tags', ['payload']);
    expect(parsed).toEqual({ ok: true, template: { ref: ['payload', 'tags'] } });
    expect(parseReference([1, '{payload.count}'], ['payload'])).toMatchObject({
      ok: true,
      template: { list: [{ value: 1 }, { ref: ['payload', 'count'] }] },
    });
  });
});

function holds(written: Json, within: Scope = scope): boolean {
  const parsed = parseCondition(written, ['payload', 'context', 'signal']);
  if (!parsed.ok) throw new Error(parsed.faults.map(({ message }) => message).join('; '));
  return evaluateCondition(JSON.parse(JSON.stringify(parsed.condition)), within);
}

const when = (path: string, op: string, ...value: Json[]): JsonObject =>
  value[0] === undefined ? { path, op } : { path, op, value: value[0] };

describe('structured conditions', () => {
  test.each<[Json, boolean]>([
    [when('payload.name', 'exists'), true],
    [when('payload.none', 'exists'), true],
    [when('payload.missing', 'exists'), false],
    [when('payload.count', 'eq', 3), true],
    [when('payload.count', 'eq', '3'), false],
    [when('payload.missing', 'eq', null), true],
    [when('payload.photo', 'eq', { size: 12, file: 'a.png' }), true],
    [when('payload.flag', 'neq', true), true],
    [when('payload.count', 'in', [1, 3]), true],
    [when('payload.missing', 'in', [1]), false],
    [when('payload.count', 'gt', 3), false],
    [when('payload.count', 'gte', 3), true],
    [when('payload.share', 'lt', 1), true],
    [when('payload.share', 'lte', 0.5), true],
    [when('payload.name', 'contains', 'LOVE'), true],
    [when('payload.name', 'startswith', 'ada'), true],
    [when('payload.name', 'endswith', 'x'), false],
    [when('payload.name', 'regex', 'Ada .*'), true],
    [when('payload.name', 'regex', 'Ada'), false],
    [when('payload.name', 'regex', '(?i)ADA .*'), true],
    [{ all: [when('payload.count', 'eq', 3), when('context.user.id', 'eq', 'u1')] }, true],
    [{ any: [when('payload.count', 'eq', 4), when('payload.flag', 'eq', false)] }, true],
    [{ not: when('payload.count', 'eq', 3) }, false],
    [{ all: ['payload.count == 3', { not: 'payload.flag' }] }, true],
  ])('%j is %j', (written, answer) => {
    expect(holds(written)).toBe(answer);
  });

  test.each<[Json, string]>([
    [when('payload.name', 'gt', 3), 'payload.name is text, but gt compares a number only'],
    [
      when('payload.missing', 'lt', 3),
      'payload.missing is null or missing, but lt compares a number only',
    ],
    [
      when('payload.tags', 'contains', 'red'),
      'payload.tags is a list, but contains compares text only',
    ],
    [
      when('payload.count', 'regex', '3'),
      'payload.count is a number, but regex compares text only',
    ],
  ])('%j is a fault', (written, message) => {
    expect(() => holds(written)).toThrow(new PipelineFault(message));
  });

  test.each<[Json, (string | number)[], string]>([
    [[], [], 'must be an expression, or have path and op, or exactly one of all, any and not'],
    [
      { all: [], any: [] },
      [],
      'must be an expression, or have path and op, or exactly one of all, any and not',
    ],
    [{ all: [] }, ['all'], 'must be a list of conditions'],
    [
      { any: [{ not: when('config.x', 'exists') }] },
      ['any', 0, 'not', 'path'],
      'must begin with payload. or context. or signal.',
    ],
    [
      when('payload.x', 'like', 1),
      ['op'],
      'must be one of exists, eq, neq, in, gt, gte, lt, lte, contains, startswith, endswith, regex',
    ],
    [when('payload.x', 'gt', '1'), ['value'], 'must be a number for gt'],
    [when('payload.x', 'eq'), ['value'], 'is required for eq'],
    [when('payload.x', 'exists', true), ['value'], 'is not allowed with exists'],
    [when('payload.x', 'regex', '('), ['value'], 'is not a regular expression'],
    [when('payload..x', 'exists'), ['path'], 'has an empty part'],
  ])('%j is refused', (written, at, message) => {
    expect(parseCondition(written, ['payload', 'context', 'signal'])).toEqual({
      ok: false,
      faults: [{ at, message }],
    });
  });

  test('their size and depth are limited', () => {
    const many = {
      all: Array.from({ length: limits.conditionPartsMax }, () => when('payload.x', 'exists')),
    };
    expect(parseCondition(many, ['payload'])).toMatchObject({
      ok: false,
      faults: [{ message: 'must have at most 100 parts' }],
    });
    let deep: Json = when('payload.x', 'exists');
    for (let level = 0; level < 40; level += 1) deep = { not: deep };
    expect(parseCondition(deep, ['payload'])).toMatchObject({
      ok: false,
      faults: [{ message: 'is nested too deeply' }],
    });
  });

  test('a pattern that would never come to an end is a fault', () => {
    const endless = when('payload.name', 'regex', '(a+)+b');
    const payload = { name: 'a'.repeat(40) };
    const twice = 'payload.list.all(a, payload.list.all(b, payload.list.all(c, a + b + c >= 0)))';
    const list = Array.from({ length: 2000 }, (_, index) => index);
    expect(() => holds(twice, { payload: { list }, context: {} })).toThrow(PipelineFault);
    expect(() => holds(endless, { payload, context: {} })).toThrow(/took longer than 100 ms/);
    const maybe = when('payload.name', 'regex', `${'a?'.repeat(40)}${'a'.repeat(40)}`);
    const longer = { name: `${'a'.repeat(50)}b` };
    expect(() => holds(maybe, { payload: longer, context: {} })).toThrow(/took longer than 100 ms/);
    expect(() => holds('payload.name.matches("^(a+)+b$")', { payload, context: {} })).toThrow(
      PipelineFault,
    );
  });

  test('cases are compared by value, and keys of a map by their text', () => {
    expect(matchesCase('a', 'a')).toBe(true);
    expect(matchesCase(1, '1')).toBe(true);
    expect(matchesCase(true, 'true')).toBe(true);
    expect(matchesCase(null, 'null')).toBe(false);
    expect(matchesCase('1', 1)).toBe(false);
  });
});

describe('expressions', () => {
  test.each<[string, boolean]>([
    ['payload.count > 2', true],
    ['payload.count + 1 == 4', true],
    ['payload.count % 2 == 1', true],
    ['payload.count * 2 > payload.share', true],
    ['has(payload.missing)', false],
    ['has(payload.missing) && payload.missing > 3', false],
    ['payload.?missing.orValue(5) == 5', true],
    ['payload.name.startsWith("Ada") && !payload.flag', true],
    ['"red" in payload.tags', true],
    ['size(payload.tags) == 3', true],
    ['payload.tags.exists(tag, tag == 7)', true],
    ['payload["odd key"] == 1', true],
    ['context.user.id == "u1"', true],
    ['payload.none == null', true],
  ])('%s is %j', (text, answer) => {
    expect(holds(text)).toBe(answer);
  });

  test('a wait sees the signal', () => {
    expect(
      holds('signal.id == payload.id', { payload: { id: 4 }, context: {}, signal: { id: 4 } }),
    ).toBe(true);
  });

  test.each([
    ['payload.missing == 1', 'payload.missing == 1 cannot be evaluated: there is no missing'],
    ['payload.name > 3', 'payload.name > 3 cannot be evaluated: string > int is not supported'],
    ['payload.name', 'payload.name is not true or false'],
    [
      'payload.constructor == 1',
      'payload.constructor == 1 cannot be evaluated: there is no constructor',
    ],
  ])('%s is a fault', (text, message) => {
    expect(() => holds(text)).toThrow(new PipelineFault(message));
  });

  test.each([
    ['', 'must not be blank'],
    ['payload.x ==', 'is not an expression: Unexpected token: EOF'],
    [
      'plugin.x == 1',
      'is not an expression: Unknown variable: plugin; values begin with payload. or context.',
    ],
    [
      'signal.x == 1',
      'is not an expression: Unknown variable: signal; values begin with payload. or context.',
    ],
    [
      'payload.a.my-step.approved',
      'is not an expression: Unknown variable: step; a key with a hyphen is written payload.a["my-step"]',
    ],
    [
      'payload.n - size > context.a-long-key',
      'is not an expression: Unknown variable: size; values begin with payload. or context.',
    ],
    [
      'has(payload["my-step"])',
      'is not an expression: has() invalid argument; write "key" in payload',
    ],
    ['1 + 1', 'is a int, not true or false'],
    [`payload.x == "${'x'.repeat(5000)}"`, 'must be at most 4096 characters'],
  ])('%s is refused', (text, message) => {
    expect(parseCondition(text, ['payload', 'context'])).toEqual({
      ok: false,
      faults: [{ at: [], message }],
    });
  });
});

describe('baggage', () => {
  function add(written: JsonObject, context: JsonObject = {}): JsonObject {
    const parsed = parseBaggage(written);
    if (!parsed.ok) throw new Error(parsed.faults.map(({ message }) => message).join('; '));
    return extendBaggage(parsed.rule, { ...scope, context });
  }

  test('it is read from the payload and added to existing baggage', () => {
    expect(
      add({ 'photo.file': 'payload.photo.file', who: 'payload.name' }, { photo: { id: 1 } }),
    ).toEqual({
      photo: { id: 1, file: 'a.png' },
      who: 'Ada Lovelace',
    });
    expect(add({ from: 'payload.photo', namespace: 'origin.photo' })).toEqual({
      origin: { photo: { file: 'a.png', size: 12 } },
    });
  });

  test('an existing value stays: the same value is ignored, another value is a fault', () => {
    expect(add({ count: 'payload.count' }, { count: 3 })).toEqual({ count: 3 });
    expect(add({ photo: 'payload.photo' }, { photo: { size: 12, more: 1 } })).toEqual({
      photo: { size: 12, more: 1, file: 'a.png' },
    });
    expect(() => add({ count: 'payload.count' }, { count: 4 })).toThrow(
      'the baggage already has another value for count',
    );
    expect(() => add({ photo: 'payload.photo' }, { photo: { size: 13 } })).toThrow(
      'the baggage already has another value for photo.size',
    );
    expect(() => add({ 'count.x': 'payload.count' }, { count: 4 })).toThrow(PipelineFault);
  });

  test('a missing source and too much baggage are faults', () => {
    expect(() => add({ x: 'payload.missing' })).toThrow('there is no payload.missing for baggage');
    const context = { big: 'x'.repeat(limits.baggageBytesMax) };
    expect(() => add({ x: 'payload.count' }, context)).toThrow(
      /bytes; at most 1048576 are allowed$/,
    );
  });

  test.each<[JsonObject, string]>([
    [
      { 'a.__proto__': 'payload.a' },
      'must be words of letters, digits and _, with dots between them',
    ],
    [{ '1x': 'payload.a' }, 'must be words of letters, digits and _, with dots between them'],
    [{ 'ductile.x': 'payload.a' }, 'must not begin with ductile, which is reserved'],
    [{ x: 'signal.a' }, 'must begin with payload. or context.'],
    [{ x: 5 }, 'must be a path such as payload.user'],
    [{ namespace: 'x' }, 'must be a path such as payload.user'],
  ])('%j is refused', (written, message) => {
    expect(parseBaggage(written)).toMatchObject({ ok: false, faults: [{ message }] });
  });
});
