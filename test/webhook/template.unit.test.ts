import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import { findBadPlaceholder, renderPrompt } from '../../src/webhook/prompt.ts';

describe('a template', () => {
  test.each([
    ['W-30', 'Hi {{name}}!', { name: 'Ada' }, 'Hi Ada!'],
    ['W-31', 'Hi {{name}}', { other: 1 }, 'Hi {{?name}}'],
    ['W-32', 'Hi', { name: 'Ada' }, 'Hi'],
    ['W-33', '{{a}}', {}, '{{?a}}'],
    ['W-34', '{{n}} {{f}}', { n: 42, f: 1.5 }, '42 1.5'],
    ['W-35', '[{{e}}]', { e: '' }, '[]'],
    ['W-35', '{{z}} {{f}}', { z: 0, f: false }, '0 false'],
    ['W-36', '{{n}}', { n: null }, '{{?n}}'],
    ['W-37', '{{a}}{{a}} {{a}}', { a: 'x' }, 'xx x'],
    ['W-38', '{{a}}', { a: '{{b}}', b: 'secret' }, '{{b}}'],
    ['W-38', '{{a}}b}}', { a: '{{', b: 'secret' }, '{{b}}'],
    ['W-38', '{{a}}', { a: '$& $1 $$' }, '$& $1 $$'],
    ['W-39', '{{ a }} {{a.b}} {{a-b}} {{}} {a}', { a: 1 }, '1 {{?a.b}} {{?a-b}} {{}} {a}'],
    ['W-39', '{{a-b}} {{\ta }} {{ a.b }}', { 'a-b': 1, a: { b: 2 } }, '1 {"b":2} 2'],
    ['W-39', '{{a.b}} {{a.b.c}}', { 'a.b': 1, a: { b: { c: 2 } } }, '1 2'],
    ['W-39', '{{a.constructor}} {{a.0}}', { a: ['x'] }, '{{?a.constructor}} {{?a.0}}'],
    ['W-39', '{{größe_1}} {{名}}', { größe_1: 'L', 名: 'n' }, 'L n'],
    ['W-39', '{{{a}}}', { a: 1 }, '{1}'],
    ['W-40', '{{o}} {{l}}', { o: { b: [1, null] }, l: ['x'] }, '{"b":[1,null]} ["x"]'],
    ['W-31', '{{constructor}} {{toString}}', {}, '{{?constructor}} {{?toString}}'],
  ])('%s %s of %j', (_case, template, payload, expected) => {
    expect(renderPrompt(template, payload)).toBe(expected);
  });

  test('finds what is known of the delivery before fields of the payload', () => {
    const besides = { webhook: { event: 'push', headers: { 'x-region': 'eu' } } };
    const template = '{{webhook.event}} {{ webhook.headers.x-region }} {{webhook.id}} {{webhook}}';
    expect(renderPrompt(template, { webhook: 'own' }, besides)).toBe('push eu {{?webhook.id}} own');
  });

  test.each([
    ['{{a b}}', '{{a b}}'],
    ['{{ok}} and {{}}', '{{}}'],
    ['{{ok}} {{#each x}}', '{{#each x}}'],
    ['{{ok}} {a} {{ a-b.c }} {{{x}}}', undefined],
    ['a {{ b\n c }}', undefined],
  ])('%j has the bad placeholder %j', (template, bad) => {
    expect(findBadPlaceholder(template)).toBe(bad);
  });

  test('shows a number exactly', () => {
    const payload = parseJson('{"id":820982911946154507,"o":{"n":1.10}}') as JsonObject;
    expect(renderPrompt('{{id}} {{o}} {{o.n}}', payload)).toBe('820982911946154507 {"n":1.1} 1.1');
  });

  test('does not grow without bounds', () => {
    const payload = { a: 'x'.repeat(100_000) };
    expect(() => renderPrompt('{{a}}'.repeat(1000), payload)).toThrow(/longer than 1048576/);
  });
});
