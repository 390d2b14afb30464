import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/base/json.ts';
import { makeValueMask } from '../../src/base/mask-values.ts';
import { parseJson } from '../../src/base/parse-json.ts';

const value = 'p/a"s\\s wörd';
const mask = makeValueMask([{ value, shown: '[it]' }]);
const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('a text without known values', () => {
  test.each([
    ['as it is', value],
    ['in JSON', JSON.stringify(value).slice(1, -1)],
    ['in JSON with escaped slashes', JSON.stringify(value).slice(1, -1).replaceAll('/', '\\/')],
    ['in ASCII JSON', JSON.stringify(value).slice(1, -1).replaceAll('ö', '\\u00f6')],
    ['percent-encoded', encodeURIComponent(value)],
    ['of a form', encodeURIComponent(value).replaceAll('%20', '+')],
    ['hexadecimal', Buffer.from(value).toString('hex')],
    ['hexadecimal in capitals', Buffer.from(value).toString('hex').toUpperCase()],
  ])('has none of it %s', (_, form) => {
    expect(mask.text(`<${form}> and <${form}>`)).toBe('<[it]> and <[it]>');
  });

  const twice = (text: string): string =>
    JSON.stringify(JSON.stringify(text).slice(1, -1)).slice(1, -1);
  const hard = `p!a"s's(w)*~ö\\\\ /&<x>\n+=%`;
  const lower = (text: string): string => text.replaceAll(/%../g, (code) => code.toLowerCase());
  const strict = (text: string): string =>
    encodeURIComponent(text).replaceAll(
      /[!'()*~]/g,
      (sign) => `%${sign.charCodeAt(0).toString(16)}`,
    );
  test.each([
    ['percent-encoded to the last sign', strict(hard)],
    ['percent-encoded in small letters', lower(encodeURIComponent(hard))],
    ['percent-encoded twice', encodeURIComponent(strict(hard))],
    ['with only one sign percent-encoded', hard.replace('!', '%21')],
    ['of a form, to the last sign', strict(hard).replaceAll('%20', '+')],
    ['in JSON in JSON', twice(hard)],
    ['in JSON in JSON in JSON', JSON.stringify(twice(hard)).slice(1, -1)],
    [
      'in JSON that escapes what need not be',
      JSON.stringify(hard).slice(1, -1).replace('!', '\\u0021'),
    ],
    ['in HTML', hard.replaceAll('&', '&amp;').replace('<', '&lt;').replace('"', '&#34;')],
  ])('has none of a hard one %s', (_, form) => {
    const hardMask = makeValueMask([{ value: hard, shown: '[it]' }]);
    expect(hardMask.text(`<${form}> and <${form}>`)).toBe('<[it]> and <[it]>');
    expect(hardMask.text('p!a"s and p%21a%22s stay')).toBe('p!a"s and p%21a%22s stay');
  });

  test.each([
    ['\\'.repeat(8), '\\'.repeat(200_000)],
    ['\\"'.repeat(20), '\\"'.repeat(100_000)],
    ['%'.repeat(20), '%25'.repeat(100_000)],
    ['a!'.repeat(20), 'a%21'.repeat(100_000)],
    ['&'.repeat(20), '&amp;'.repeat(100_000)],
  ])('is looked through for %j in a time that grows with its length', (secret, text) => {
    const started = performance.now();
    makeValueMask([{ value: `${secret}x!`, shown: '[it]' }]).text(`${text}y`);
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  test.each(['', 'u:', 'us:', 'usr:'])('has none of it in base64 behind %j', (before) => {
    const masked = mask.text(base64(`${before}${value}${before}`));
    expect(masked).toContain('[it]');
    const [inner = ''] = masked.split('[it]').filter((part) => part.length > 8);
    expect(inner).toBe('');
  });

  test('has none of the lines of a long value', () => {
    const lines = ['-----BEGIN KEY-----', 'MIIEvQIBADANBgkqhkiG9w0B', 'AQ', '-----END KEY-----'];
    const pem = makeValueMask([{ value: lines.join('\n'), shown: '[pem]' }]);
    expect(pem.text(`x ${lines[1]} y`)).toBe('x [pem] y');
    expect(pem.text('short AQ stays')).toBe('short AQ stays');
  });

  test('that was cut off does not end with the beginning of one', () => {
    expect(mask.cutText(`so ${value.slice(0, 6)}`)).toBe('so [it]');
    expect(mask.cutText('so p/')).toBe('so p/');
    expect(mask.cutText('nothing')).toBe('nothing');
  });

  test('knows the longer one of two that begin alike', () => {
    const two = makeValueMask([
      { value: 'abcd', shown: '[short]' },
      { value: 'abcdefgh', shown: '[long]' },
    ]);
    expect(two.text('abcdefgh abcd')).toBe('[long] [short]');
  });
});

describe('a value of JSON without known values', () => {
  test('has none in texts and keys, however deep, nor as a number', () => {
    const pin = makeValueMask([{ value: '123456', shown: '[pin]' }]);
    expect(pin.json({ a: [{ x123456: 'is 123456' }], b: 123456, c: 1234567, d: null })).toEqual({
      a: [{ 'x[pin]': 'is [pin]' }],
      b: '[pin]',
      c: 1234567,
      d: null,
    });
  });

  test('is the very same when there is nothing in it', () => {
    const clean = { a: [1, 'two', { three: null }] };
    expect(mask.json(clean)).toBe(clean);
  });
});

test('a number that a double can’t hold is masked where it is the secret, and kept where it is not', () => {
  const number = makeValueMask([{ value: '12345678901234567890', shown: '[it]' }]);
  const input = parseJson('{"a":12345678901234567890,"b":[12345678901234567891]}') as Json;
  expect(JSON.stringify(number.json(input))).toBe('{"a":"[it]","b":[12345678901234567891]}');
});
