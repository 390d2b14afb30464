import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareNumbers,
  ExactNumber,
  isExactText,
  toBigInt,
  parseJson,
} from '../../src/base/parse-json.ts';
import { toCanonicalJson, isObject, type Json, parseStrictJson } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { normalizeNumbers, numberText } from '../support/number-texts.ts';

/** JavaScript puts keys that are whole numbers first. */
const name = fc.string().map((text) => `k${text}`);
const blank = fc.constantFrom('', ' ', '\n', '\t ');

/** JSON as text, with strings that look like numbers and blanks wherever they may be. */
const jsonText = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    numberText,
    fc.constantFrom('null', 'true', 'false', '"12345678901234567890"', '", 1e400 ,"', '"\\"1e400"'),
    fc.string().map((text) => JSON.stringify(text)),
    fc
      .array(fc.tuple(blank, tie('value'), blank).map((parts) => parts.join('')))
      .map((parts) => `[${parts.join(',')}]`),
    fc
      .uniqueArray(fc.tuple(name, blank, tie('value')), { selector: ([key]) => key })
      .map((members) =>
        members.map(([key, space, value]) => `${JSON.stringify(key)}:${space}${value}`),
      )
      .map((members) => `{${members.join(',')}}`),
  ),
})).value;

describe('a text of JSON with any numbers', () => {
  test('is written again with the same numbers', () => {
    fc.assert(
      fc.property(jsonText, (text) => {
        const written = JSON.stringify(parseJson(text));
        expect(normalizeNumbers(written)).toBe(normalizeNumbers(text));
        // A number that needs it keeps its spelling, so that its bytes are those that came.
        expect(JSON.stringify(parseJson(written))).toBe(written);
      }),
      { numRuns: 2000 },
    );
  });

  test('is read alike by the strict parser, or refused for another reason', () => {
    fc.assert(
      fc.property(jsonText, (text) => {
        const strict = parseStrictJson(text);
        if (strict.ok) expect(toCanonicalJson(strict.value)).toBe(toCanonicalJson(parseJson(text)));
        else expect(strict.fault).toMatch(/U\+0000|surrogate|twice/);
      }),
      { numRuns: 500 },
    );
  });

  test('without such numbers is what JSON.parse gives', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(parseJson(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  test.each(['', '[1,]', '01', '[12345678901234567890', '{"a":1e400} x', '1e', '--1', '[1 2e400]'])(
    '%j is not JSON',
    (text) => {
      expect(() => parseJson(text)).toThrow(SyntaxError);
    },
  );

  test('keeps a key called __proto__ as it is', () => {
    const text = '{"__proto__":12345678901234567890,"a":1}';
    expect(JSON.stringify(parseJson(text))).toBe(text);
  });

  test('is refused with a number of absurd length', () => {
    const text = '1'.repeat(limits.jsonNumberCharsMax + 1);
    expect(() => parseJson(text)).toThrow('more than');
    expect(parseStrictJson(`{"a":[${text}]}`)).toEqual({
      ok: false,
      fault: 'has a number at $.a.0 with too many characters',
    });
  });
});

describe('a number', () => {
  test.each([
    '0',
    '-0',
    '1.0',
    '9007199254740992',
    '0.1',
    '1e21',
    '1e300',
    '5e-324',
    '1.50000000000000000',
  ])('%s is an ordinary one', (text) => {
    expect(isExactText(text)).toBe(true);
    expect(parseJson(text)).toBe(Number(text));
  });

  test.each([
    '9007199254740993',
    '-12345678901234567890',
    '0.1234567890123456789',
    '0.10000000000000001',
    '999999999999999.99',
    '1e400',
    '1e-400',
    '4.9e-324',
    '9007199254740993.0',
  ])('%s is kept as it is', (text) => {
    expect(parseJson(text)).toEqual(new ExactNumber(text));
    expect(JSON.stringify({ a: [parseJson(text)] })).toBe(`{"a":[${text}]}`);
    expect(String(parseJson(text))).toBe(text);
  });

  test('is a scalar to every walker', () => {
    expect(isObject(new ExactNumber('1e400'))).toBe(false);
    expect(toCanonicalJson({ b: new ExactNumber('1e400'), a: 1 })).toBe('{"a":1,"b":1e400}');
  });

  test('is compared by its value', () => {
    fc.assert(
      fc.property(fc.bigInt(), fc.bigInt(), fc.nat(5), (a, b, zeros) => {
        const one = new ExactNumber(`${a}${'0'.repeat(a === 0n ? 0 : zeros)}e-${zeros}`);
        const two = new ExactNumber(`${b}.${'0'.repeat(zeros + 1)}`);
        expect(Math.sign(compareNumbers(one, two))).toBe(a < b ? -1 : Number(a > b));
        expect(toBigInt(two)).toBe(b);
      }),
    );
    expect(compareNumbers(new ExactNumber('9007199254740993'), 2 ** 53)).toBeGreaterThan(0);
    expect(compareNumbers(new ExactNumber('1e400'), new ExactNumber('10e399'))).toBe(0);
    expect(compareNumbers(new ExactNumber('-1e400'), new ExactNumber('1e-400'))).toBeLessThan(0);
  });

  test('is as large as it is written, whatever that would take to write out', () => {
    expect(toBigInt(new ExactNumber('1e999999999'))).toBeUndefined();
    const value = parseJson('[1e99999999999999999999]') as Json[];
    expect(compareNumbers(value[0] as ExactNumber, new ExactNumber('1e400'))).toBeGreaterThan(0);
  });
});
