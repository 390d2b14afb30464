import { expect, test } from 'vitest';
import { toVisibleText } from '../../src/base/text.ts';

test.each([
  ['what moves a cursor', 'a\u001b[2J\u009bb', 'a\\u001b[2J\\u009bb'],
  ['line ends and tabs', 'a\r\n\tb\tc\rd\u2028', 'a ↵ b\\tc\\rd\\u2028'],
  ['turned writing', 'x\u202ey\u2066', 'x\\u202ey\\u2066'],
  ['what takes no room', 'pay\u200bpal\u00ad\ufeff\u3164', 'pay\\u200bpal\\u00ad\\ufeff\\u3164'],
  ['joiners in a Latin word', 'pay\u200dpa\u200c\u200dl', 'pay\\u200dpa\\u200c\\u200dl'],
  ['tags and lone surrogates', 'a\u{e0041}\ud800', 'a\\udb40\\udc41\\ud800'],
  ['a pile of marks', `e${'\u0301'.repeat(6)}`, `e${'\u0301'.repeat(4)}\\u0301\\u0301`],
])('%s is escaped, once, and is the same in JSON', (_, hostile, shown) => {
  expect(toVisibleText(hostile)).toBe(shown);
  expect(toVisibleText(shown)).toBe(shown);
  expect(JSON.parse(toVisibleText(JSON.stringify(hostile)))).toBe(hostile);
});

test.each(['Zoë, naïve', 'tiếng Việt', '漢字', '👩‍👩‍👧 ❤️ 1️⃣', 'می‌خواهم', 'क्‍ष', 'עברית'])(
  '%s stays as it is',
  (text) => {
    expect(toVisibleText(text)).toBe(text);
  },
);
