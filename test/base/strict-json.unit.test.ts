import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseStrictJson } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';

describe('JSON from an untrusted sender', () => {
  test('is the value that JSON gives, whatever it contains', () => {
    const safe = fc
      .jsonValue({ maxDepth: 5, stringUnit: 'grapheme' })
      .filter((value) => !/\\u0000|\\ud[89a-f]|__proto__/i.test(JSON.stringify(value)));
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

  const long = '9'.repeat(limits.jsonNumberCharsMax + 1);

  test.each([
    [long, '$'],
    [`{"a":1,"id":${long}}`, '$.id'],
    [`{"a":{"b":[1,[2,3],{"c":"x:,]","d":-${long}}]}}`, '$.a.b.2.d'],
    [`[[],{},[1],${long}]`, '$.3'],
    [`:${long}`, '$'],
    [`{"${'k'.repeat(1000)}":${long}}`, `$.${'k'.repeat(98)}`],
  ])('the fault says where a number is too long: %#', (text, place) => {
    const fault = `has a number at ${place} with too many characters`;
    expect(parseStrictJson(text)).toEqual({ ok: false, fault });
  });

  test.each([
    '9007199254740993',
    '[1E400]',
    '{"a":-12345678901234567890}',
    '0.12345678901234567890',
  ])('%s is kept exactly', (text) => {
    const parsed = parseStrictJson(text);
    expect(parsed.ok && JSON.stringify(parsed.value)).toBe(text);
  });

  test.each(['9007199254740991', '1e300', '"{\\"a\\":1,\\"a\\":2}"'])('%s is accepted', (text) => {
    expect(parseStrictJson(text)).toEqual({ ok: true, value: JSON.parse(text) as unknown });
  });
});
