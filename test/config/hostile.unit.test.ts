/** Hostile input that could hold up the program: it is refused with its location, and soon. */
import { describe, expect, test } from 'vitest';
import { parseDocument } from '../../src/config/document.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

function refusal(text: string): string {
  const [problem] = parseDocument(text, 'f').problems;
  return problem === undefined ? 'accepted' : `${problem.place} ${problem.message}`;
}

describe('YAML', () => {
  test.each([
    ['brackets', `a: ${'['.repeat(100_000)}`, /^f:1:\d+ the file is nested too deeply$/],
    ['braces', `${'{a: '.repeat(20_000)}${'}'.repeat(20_000)}`, /^f:1:\d+ the file is nested/],
    ['sequences', `${'- '.repeat(20_000)}x`, /^f:1:\d+ the file is nested too deeply$/],
    ['levels', `a: ${'['.repeat(70)}${']'.repeat(70)}`, /^f:1:\d+ is nested deeper than 64/],
    ['itself', 'a: &a [*a, *a, *a]', /^f:1:\d+ is nested deeper than 64 levels$/],
    ['values', '- 1\n'.repeat(110_000), /^f:\d+:3 exceeds the limit of 100000 values/],
    ['aliases', `a: &a 1\nb: [${'*a, '.repeat(2000)}]`, /^f:2:\d+ there are more than 1000/],
  ])('that is endless in %s', (_, text, expected) => {
    expect(refusal(text)).toMatch(expected);
  });

  test('aliases that multiply', () => {
    const lines = Array.from({ length: 12 }, (_, level) =>
      level === 0 ? 'a0: &a0 [x]' : `a${level}: &a${level} [${`*a${level - 1}, `.repeat(9)}]`,
    );
    expect(refusal(lines.join('\n'))).toMatch(/^f:12:\d+ Excessive alias count/);
  });

  test('the time for the keys of one map grows with their number, not with its square', () => {
    const keys = Array.from({ length: 40_000 }, (_, index) => `k${index}: 1`);
    const measure = (count: number): number => {
      const text = keys.slice(0, count).join('\n');
      const before = process.cpuUsage();
      expect(refusal(text)).toBe('accepted');
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    measure(5000);
    // Eight times as many keys: a factor of about 8, or of 64 if each were compared with all others.
    expect(measure(40_000) / measure(5000)).toBeLessThan(32);
    expect(refusal([...keys, 'k7: 2'].join('\n'))).toBe('f:40001:1 is given twice in the same map');
  });

  test('a hundred problems are enough', () => {
    expect(parseDocument(`[${',,,'.repeat(10_000)}`, 'f').problems).toHaveLength(100);
  });
});

test('a file that is too large is not even read', async () => {
  const directory = await makeConfigTree({ 'config.yaml': `# ${'x'.repeat(600_000)}` });
  expect(listProblems(directory)[0]).toMatch(/^config\.yaml {2}the file is \d+ bytes long/);
});

test('far too many files are refused', async () => {
  const files = Object.fromEntries(
    Array.from({ length: 300 }, (_, index) => [`d/${String(index).padStart(3, '0')}.yaml`, '{}']),
  );
  const directory = await makeConfigTree({
    'config.yaml': 'plugin_roots: [p]\ninclude: [d]\n',
    ...files,
  });
  expect(listProblems(directory)).toEqual([
    'config.yaml:2:11 include[0] exceeds the limit of 256 files',
  ]);
});
