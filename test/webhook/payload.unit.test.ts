/** The boundaries of signed parts, which a sender must not choose. */
import { describe, expect, test } from 'vitest';
import { fillPayload, parsePayload } from '../../src/webhook/verify/signed.ts';
import { makeRequest } from './support.ts';

interface SentPayload {
  readonly id?: string;
  readonly body?: string;
  readonly url?: string;
  readonly host?: string;
}

/** Returns the signed text of a request, or why it has none. */
function fill(template: string, { id = 'id7', body = '{}', url, host = 'h' }: SentPayload): string {
  const parsed = parsePayload(template);
  if (!parsed.ok) throw new Error(parsed.message);
  const request = makeRequest({ host, 'x-id': id }, body, url);
  const filled = fillPayload(parsed.parts, request, []);
  return filled.ok ? filled.parts.map(String).join('') : filled.reason;
}

const URL = 'http://h.example/hooks/a';

describe('a part beside the body', () => {
  test('cannot take from a body that stands before it', () => {
    const template = '{body}.{header:X-Id}';
    expect(fill(template, { body: 'amount=1.5' })).toBe('amount=1.5.id7');
    expect(fill(template, { body: 'amount=1', id: '5.id7' })).toBe('value_ambiguous');
    expect(fill('{body}.{header:X-Id}.end', { id: '5.id7' })).toBe('value_ambiguous');
  });

  test('cannot end in a half of its separator', () => {
    expect(fill('{header:X-Id}..{body}', { id: 'x' })).toBe('x..{}');
    expect(fill('{header:X-Id}..{body}', { id: 'x.' })).toBe('value_ambiguous');
    expect(fill('{body}..{header:X-Id}', { id: '.x' })).toBe('value_ambiguous');
    expect(fill('{body}..{header:X-Id}', { id: 'x.' })).toBe('{}..x.');
  });

  test('may be a number directly behind a body that ends in none', () => {
    const template = '{body}{header:X-Id}';
    expect(fill(template, { id: '1700000000' })).toBe('{}1700000000');
    expect(fill(template, { body: 'n=1', id: '1700000000' })).toBe('value_ambiguous');
    expect(fill(template, { id: '}1700000000' })).toBe('value_ambiguous');
  });
});

describe('the address', () => {
  test.each(['{url}{body}', '{url}.{body}', '{body}{url}', '{header:X-Id}.{url}{body}'])(
    'may have no query in %s',
    (template) => {
      expect(fill(template, { url: URL })).toContain(URL);
      for (const more of ['?k=v', '?', '#k']) {
        expect(fill(template, { url: `${URL}${more}` })).toBe('value_ambiguous');
      }
    },
  );

  test('may have one before a separator that it does not have', () => {
    const url = `${URL}?k=v`;
    expect(fill('{url}\n{body}', { url })).toBe(`${url}\n{}`);
    expect(fill('{body}\n{url}', { url })).toBe(`{}\n${url}`);
    expect(fill('{url}|{body}', { url: `${url}|` })).toBe('value_ambiguous');
  });

  test('has no path in its host', () => {
    const moved = { url: 'http://h/hooks/a/hooks/a', host: 'h/hooks/a' };
    expect(fill('{url}{body}', moved)).toBe('value_ambiguous');
  });
});
