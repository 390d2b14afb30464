import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseStrictJson } from '../../src/base/json-text.ts';
import { limits } from '../../src/base/limits.ts';

describe('JSON from a stranger', () => {
  test('is the value that JSON gives, whatever stands in it', () => {
    const safe = fc
      .jsonValue({ maxDepth: 5, stringUnit: 'grapheme' })
      .filter((value) => !/\\u0000|\\ud[89a-f]|__proto__|\d{16}/i.test(JSON.stringify(value)));
    fc.assert(
      fc.property(safe, (value) => {
        const text = JSON.stringify(value);
        expect(parseStrictJson(text)).toEqual({ ok: true, value: JSON.parse(text) as unknown });
      }),
    );
  });

  test.each([
    ['{"a":1,"a":1}', 'twice'],
    ['{"a":{"b":1,"b":2}}', 'twice'],
    ['[{"a":1,"\\u0061":2}]', 'twice'],
    ['{"a":12345678901234567890}', 'too large'],
    ['[-9007199254740993]', 'too large'],
    // We would write them in digits, and those are refused.
    ['[1E20]', 'too large'],
    ['[9007199254740993.0]', 'too large'],
    ['{"a":-214741e11}', 'too large'],
    ['1e999', 'finite'],
    ['{"__proto__":1}', '__proto__'],
    ['"\\u0000"', 'U+0000'],
    ['"\\ud800"', 'surrogate'],
    ['[1,]', 'not JSON'],
    ['', 'not JSON'],
    ['{"a":1} {"b":2}', 'not JSON'],
    ['"', 'not JSON'],
    ['['.repeat(limits.jsonDepthMax + 1), 'deeply'],
    [`{${'"a":1,'.repeat(limits.jsonKeysMax + 1)}}`, 'keys'],
    [`[${'1,'.repeat(limits.jsonElementsMax)}1]`, 'elements'],
    [`[${'[],'.repeat(limits.jsonElementsMax)}[]]`, 'elements'],
  ])('%.40s is refused', (text, reason) => {
    const parsed = parseStrictJson(text);
    expect(parsed).toMatchObject({ ok: false, fault: expect.stringContaining(reason) });
  });

  test.each([
    ['9007199254740993', '$'],
    ['{"a":1,"id":9007199254740993}', '$.id'],
    ['{"a":{"b":[1,[2,3],{"c":"x:,]","d":-9007199254740993}]}}', '$.a.b.2.d'],
    ['[[],{},[1],9007199254740993]', '$.3'],
    [':9007199254740993', '$'],
    [`{"${'k'.repeat(1000)}":9007199254740993}`, `$.${'k'.repeat(98)}`],
  ])('it is said where a number is too large: %#', (text, place) => {
    const fault = `has a number at ${place} that is too large to stay exact`;
    expect(parseStrictJson(text)).toEqual({ ok: false, fault });
  });

  test.each(['9007199254740991', '1e300', '0.12345678901234567890', '"{\\"a\\":1,\\"a\\":2}"'])(
    '%s is taken',
    (text) => {
      expect(parseStrictJson(text)).toEqual({ ok: true, value: JSON.parse(text) as unknown });
    },
  );
});
