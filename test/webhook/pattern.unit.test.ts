import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { findMatches, createMatchEffort, parsePattern } from '../../src/webhook/verify/pattern.ts';

function find(pattern: string, text: string, max = 10, effort = createMatchEffort()) {
  const parsed = parsePattern(pattern);
  if (!parsed.ok) throw new Error(`${pattern} ${parsed.message}`);
  return findMatches(parsed.pattern, text, max, effort);
}

describe('a pattern', () => {
  test.each([
    ['v1=([a-f0-9]+)', 't=1,v1=ab0,v1=cd', ['ab0', 'cd']],
    [String.raw`t=(\d+)`, 't=17,v1=x', ['17']],
    [':([a-f0-9]+)$', 'v0=1:ab:cd', ['cd']],
    ['(?:a|b)(c|d)', 'ac bd', ['c', 'd']],
    ['(?P<sig>x+)', 'xxx', ['xxx']],
    ['(?<sig>x+?)', 'xx', ['x', 'x']],
    ['^(a{2,3})', 'aaaa', ['aaa']],
    ['(a{2,3}?)', 'aaaa', ['aa', 'aa']],
    [String.raw`\b(v1)\b`, 'xv1 v1=', ['v1']],
    ['([^,]+)', 'a,b', ['a', 'b']],
    [String.raw`([\w.-]+)`, 'a.b-c d', ['a.b-c', 'd']],
    ['([]a]+)', 'a]b', ['a]']],
    ['a()', 'aa', ['', '']],
    ['(x)?y', 'y', ['']],
    [String.raw`\{(\S+)\}`, '{a}', ['a']],
    ['(a|ab)(c|bcd)', 'abcd', ['a']],
    ['(é)', 'é', ['é']],
  ])('W-06 %s in %s', (pattern, text, expected) => {
    expect(find(pattern, text)).toEqual(expected);
  });

  test('finds at most as many as are asked for', () => {
    expect(find('(a)', 'aaaa', 2)).toEqual(['a', 'a']);
  });

  test.each([
    ['abc', 'has no group'],
    ['(a', 'without its )'],
    ['(a))', 'without its ('],
    ['([a)', 'without its ]'],
    ['(*)', 'after nothing'],
    ['(a**)', 'repeats a repetition'],
    ['(a+{2})', 'repeats a repetition'],
    ['(^*)', 'repeats a position'],
    [String.raw`(a)\1`, 'refers back'],
    [String.raw`(?<a>a)\k<a>`, 'refers back'],
    ['(?=a)(b)', 'has a lookahead'],
    ['(?<!a)(b)', 'a lookbehind'],
    ['(?i)(b)', 'or an option'],
    [String.raw`(\p{L})`, 'has the unknown escape'],
    ['([z-a])', 'out of order'],
    ['(a{3,2})', 'out of order'],
    ['(a{2000})', 'more than 1000'],
    ['((a{900}){900})', 'too long with its repetitions expanded'],
    ['(a)\\', 'ends in'],
    ['('.repeat(40), 'nested too deeply'],
    [`(${'a'.repeat(300)})`, 'longer than'],
  ])('refuses %s, because it %s', (pattern, why) => {
    const parsed = parsePattern(pattern);
    expect(parsed).toMatchObject({ ok: false, message: expect.stringContaining(why) });
    expect(parsed.ok || parsed.hint).toMatch(/around the part to find/);
  });

  test('takes no time for repetitions of nothing', () => {
    expect(find('(?:(?:(?:){1000}){1000}){1000}(a)', 'a')).toEqual(['a']);
  });

  test('does as many steps as it is long times the text, whatever both say', () => {
    const text = `${'a'.repeat(4000)}!`;
    for (const pattern of ['^((a+)+)$', '(a*a*a*a*a*)b', '((a|aa)+)$', '(.*.*.*)=(.*)x']) {
      expect(find(pattern, text)).toEqual([]);
    }
  });

  test('is given up when it takes more than one verification may', () => {
    const header = 'a'.repeat(limits.webhookHeaderCharsMax);
    const wide = `[${Array.from({ length: 90 }, (_, at) => String.fromCharCode(98 + at)).join('')}]`;
    for (const pattern of [
      '(?:a*){300}!|(a)',
      '(?:a?){300}(!)',
      '((?:a|a|a|a){60})!',
      `(?:${wide}|a){9}(!)`,
    ]) {
      const effort = createMatchEffort();
      expect(find(pattern, header, 9, effort), pattern).toBeUndefined();
      expect(effort.left).toBeLessThan(0);
      expect(find('(a)', 'a', 1, effort)).toBeUndefined();
    }
  });

  test('takes from one budget for all that it finds', () => {
    const effort = createMatchEffort();
    expect(find('v1=([a-f0-9]+)', 'v1=ab,v1=cd', 9, effort)).toEqual(['ab', 'cd']);
    const spent = limits.patternEffortMax - effort.left;
    expect(spent).toBeGreaterThan(11);
    expect(find('v1=([a-f0-9]+)', 'v1=ab,v1=cd', 9, effort)).toEqual(['ab', 'cd']);
    expect(limits.patternEffortMax - effort.left).toBe(2 * spent);
  });

  test('finds what the language’s own expressions find', () => {
    const atom = fc.constantFrom(
      'a',
      'b',
      '[ab]',
      '[^a]',
      '.',
      String.raw`\d`,
      '(?:ab|b)',
      '^',
      '$',
    );
    const times = fc.constantFrom('', '', '*', '+', '?', '{1,2}', '*?', '+?', '??');
    const piece = fc
      .tuple(atom, times)
      .map(([one, many]) => (/[$^]$/.test(one) && one.length === 1 ? one : one + many));
    const side = fc.array(piece, { maxLength: 3 }).map((pieces) => pieces.join(''));
    const whole = fc.tuple(side, side, side).map(([a, b, c]) => `${a}(${b})${c}`);
    const subject = fc.string({ unit: fc.constantFrom('a', 'b', '1', '-'), maxLength: 8 });
    fc.assert(
      fc.property(whole, subject, (pattern, text) => {
        const native = new RegExp(pattern).exec(text);
        expect(find(pattern, text, 1)).toEqual(native === null ? [] : [native[1] ?? '']);
      }),
      { numRuns: 2000 },
    );
  });
});
