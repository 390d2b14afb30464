import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { tokens } from '../../web/text/json.ts';
import { pieces, plain, shortId } from '../../web/text/visible.ts';
import { bytes, count, duration, percent, relative } from '../../web/text/time.ts';

describe('text from anywhere', () => {
  test('keeps what can be read, and names what cannot be seen', () => {
    expect(plain('a\u202Eb')).toBe('a⟨202E⟩b');
    expect(plain('\u001B[31m\0')).toBe('⟨ESC⟩[31m⟨NUL⟩');
    expect(plain('zero\u200Bwidth')).toBe('zero⟨200B⟩width');
    expect(plain('Ünïcödé 日本 שלום')).toBe('Ünïcödé 日本 שלום');
  });

  test('leaves the joiner in a picture, and marks it in a word', () => {
    expect(plain('👩\u200D🚀')).toBe('👩\u200D🚀');
    expect(plain('ad\u200Dmin')).toBe('ad⟨200D⟩min');
  });

  test('shows lines as lines only where lines are shown', () => {
    expect(plain('a\nb')).toBe('a⟨↵⟩b');
    expect(pieces('a\n\tb\r', { lines: true })).toEqual([
      { text: 'a\n\tb', isMark: false },
      { text: 'CR', isMark: true },
    ]);
  });

  // The library's own strings of any character take many seconds to be set up.
  const anyCharacter = fc.integer({ min: 0, max: 0x10ffff });

  test('never lets a control of direction through, whatever comes', () => {
    fc.assert(
      fc.property(fc.array(anyCharacter), (characters) => {
        const text = String.fromCodePoint(...characters);
        for (const piece of pieces(text))
          expect(piece.text).not.toMatch(/[\p{Bidi_Control}\p{Cc}]/u);
      }),
    );
  });

  test('shortens ids so that their ends still differ', () => {
    expect(shortId('0199a1b2-0000-7000-8000-00000000beef')).toBe('0199a1b2…beef');
    expect(shortId('short')).toBe('short');
  });
});

describe('JSON in colours', () => {
  test('is the same text, cut into kinds', () => {
    const printed = JSON.stringify({ a: [1, -2.5e3, 'x": 1', true, null] });
    const found = tokens(printed);
    expect(found.map(({ text }) => text).join('')).toBe(printed);
    expect(found.filter(({ kind }) => kind !== 'sign').map(({ kind }) => kind)).toEqual([
      'key',
      'number',
      'number',
      'text',
      'word',
      'word',
    ]);
  });

  test('loses nothing of any JSON, nor of one that is cut off', () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), (text, at) => {
        const cut = text.slice(0, at);
        expect(
          tokens(cut)
            .map((token) => token.text)
            .join(''),
        ).toBe(cut);
      }),
    );
  });
});

describe('numbers and times', () => {
  const now = Date.parse('2026-11-16T12:00:00Z');
  test.each([
    [0, 'now'],
    [-5_000, '5s ago'],
    [90_000, 'in 1m'],
    [-3_600_000, '1h ago'],
    [-(2 * 3_600_000 + 300_000), '2h 5m ago'],
    [26 * 3_600_000, 'in 1d 2h'],
    [-40 * 86_400_000, '40d ago'],
  ])('%i ms from now is %s', (distance, text) => {
    expect(relative(now + distance, now)).toBe(text);
  });

  test.each([
    [null, '–'],
    [0, '0 ms'],
    [999, '999 ms'],
    [1234, '1.23 s'],
    [59_900, '59.9 s'],
    [61_000, '1m'],
  ])('%j takes %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  test('large and small numbers can be read', () => {
    expect(count(1234567)).toBe('1\u202F234\u202F567');
    expect([bytes(12), bytes(1536), bytes(5 * 1024 * 1024)]).toEqual(['12 B', '1.5 KB', '5.0 MB']);
    expect([percent(0, 0), percent(1, 300), percent(30, 60)]).toEqual(['–', '0.3 %', '50 %']);
  });
});
