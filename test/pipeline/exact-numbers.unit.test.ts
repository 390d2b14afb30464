/** Conditions and templates over numbers that a double can't hold. */
import { describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import {
  evaluateCondition,
  matchesCase,
  parseCondition,
} from '../../src/pipeline/language/condition.ts';
import { parseTemplate, renderTemplate } from '../../src/pipeline/language/template.ts';

const payload = parseJson(`{
  "near": 9007199254740993, "same": 9007199254740993.0, "below": 9007199254740992,
  "int": 12345678901234567890, "twin": 12345678901234567890, "next": 12345678901234567891,
  "huge": 1e400, "price": 0.10000000000000001, "list": [9007199254740993, 12345678901234567890],
  "n": 3
}`) as JsonObject;
const scope = { payload, context: {} };

function holds(condition: Json): boolean {
  const parsed = parseCondition(condition, ['payload', 'context']);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults));
  return evaluateCondition(parsed.condition, scope);
}

describe('an expression', () => {
  test.each<[string, boolean]>([
    ['payload.near == 9007199254740993', true],
    ['payload.near == 9007199254740992', false],
    ['payload.near > payload.below', true],
    ['payload.near + 1 == 9007199254740994', true],
    ['payload.near in [9007199254740993]', true],
    ['9007199254740992 in payload.list', false],
    ['payload.int == payload.twin', true],
    ['payload.int == payload.next', false],
    ['payload.int < payload.next', true],
    ['payload.int > 9223372036854775807', true],
    ['payload.int in payload.list', true],
    ['payload.next in payload.list', false],
    ['payload.huge > payload.int', true],
    ['payload.huge > 1.5', true],
    ['1 < payload.huge', true],
    ['payload.price * 2.0 < 0.3', true],
    ['string(payload.int) == "12345678901234567890"', true],
    ['payload.n == 3', true],
  ])('%s: %s', (cel, expected) => {
    expect(holds(cel)).toBe(expected);
  });

  test('that computes with a number beyond 64 bits is refused with its type', () => {
    expect(() => holds('payload.int + 1 > 0')).toThrow('large_number + int is not supported');
  });
});

describe('a comparison', () => {
  test.each<[string, string, Json, boolean]>([
    ['near', 'gt', 9007199254740992, true],
    ['near', 'lte', 9007199254740992, false],
    ['int', 'gt', 1, true],
    ['huge', 'lt', 1e308, false],
    ['near', 'eq', 9007199254740992, false],
    ['near', 'in', [9007199254740992], false],
  ])('%s %s %j: %s', (field, op, value, expected) => {
    expect(holds({ path: `payload.${field}`, op, value })).toBe(expected);
  });

  test('between two such numbers uses their value', () => {
    const { near = null, same = null, int = null, next = null } = payload;
    expect(matchesCase(near, same)).toBe(true);
    expect(matchesCase(int, next)).toBe(false);
    expect(matchesCase(int, '12345678901234567890')).toBe(true);
  });

  test('with text is refused as one of a number', () => {
    expect(() => holds({ path: 'payload.int', op: 'contains', value: '1' })).toThrow('is a number');
  });
});

test('a template keeps them, alone and in text', () => {
  const templates = { whole: '{payload.int}', text: 'id {payload.near}', deep: '{payload.list.1}' };
  const parsed = parseTemplate(templates, ['payload']);
  if (!parsed.ok) throw new Error('the template is not understood');
  expect(JSON.stringify(renderTemplate(parsed.template, scope))).toBe(
    '{"whole":12345678901234567890,"text":"id 9007199254740993","deep":12345678901234567890}',
  );
});
