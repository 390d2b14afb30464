/** Responses that would block everything else while they are parsed. */
import { expect, test } from 'vitest';
import { parseResponse, toStorable } from '../../src/plugin/response.ts';

const LEVELS = 1_000_000;
const deep = `${'['.repeat(LEVELS)}${']'.repeat(LEVELS)}`;

test.each([
  ['alone', deep],
  ['in a field that nobody reads', `{"status":"ok","result":"r","unknown":${deep}}`],
])('a response that is far too deep is refused by its outline, %s', (_, text) => {
  const fault = 'stdout is nested too deeply';
  expect(parseResponse(Buffer.from(text))).toEqual({ status: 'invalid', fault });
});

test("brackets in a text aren't levels", () => {
  const text = JSON.stringify({ status: 'ok', result: '['.repeat(LEVELS) });
  expect(parseResponse(Buffer.from(text)).status).toBe('ok');
});

test('every U+0000 is replaced, and nothing else', () => {
  expect(toStorable('\0a\0\0😀\ufeff\0')).toBe('\uFFFDa\uFFFD\uFFFD😀\ufeff\uFFFD');
  expect(toStorable('\ufeffplain')).toBe('\ufeffplain');
  expect(toStorable('\0'.repeat(3_000_000))).toBe('\uFFFD'.repeat(3_000_000));
});
