import { describe, expect, test } from 'vitest';
import {
  compareVersions,
  findLatest,
  parseRange,
  parseVersion,
  satisfies,
} from '../../src/package/version.ts';

test('versions sort by what they mean, not as text', () => {
  const sorted = [
    '0.9.0',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-beta',
    '1.0.0-beta.2',
    '1.0.0-beta.11',
    '1.0.0-rc.1',
    '1.0.0',
    '1.9.0',
    '1.10.0',
    '2.0.0',
  ];
  expect(sorted.toReversed().toSorted(compareVersions)).toEqual(sorted);
  expect(compareVersions('1.0.0+a', '1.0.0+b')).toBe(0);
});

test.each(['1', '1.0', 'v1.0.0', '01.0.0', '1.0.0-', '1.0.0-01', '1.0.0 ', 'latest', ''])(
  "%j isn't a version",
  (text) => expect(parseVersion(text)).toBeUndefined(),
);

test('the latest version is not a pre-release, unless there is nothing else', () => {
  expect(findLatest(['1.0.0', '1.10.0', '1.9.0', '2.0.0-rc.1'])).toBe('1.10.0');
  expect(findLatest(['1.0.0-a', '1.0.0-b'])).toBe('1.0.0-b');
  expect(findLatest([])).toBeUndefined();
});

describe('a range', () => {
  test.each([
    ['1.2.0', '1.2.0', true],
    ['1.2.0', '1.2.1', false],
    ['>=1.2.0', '1.2.0', true],
    ['>1.2.0', '1.2.0', false],
    ['>=1.2.0 <2.0.0', '1.99.0', true],
    ['>=1.2.0 <2.0.0', '2.0.0', false],
    ['<=1.0.0', '1.0.1', false],
    ['^1.2.0', '1.9.9', true],
    ['^1.2.0', '2.0.0', false],
    ['^0.2.3', '0.2.9', true],
    ['^0.2.3', '0.3.0', false],
    ['^0.0.3', '0.0.4', false],
    ['~1.2.3', '1.2.9', true],
    ['~1.2.3', '1.3.0', false],
    ['^1.0.0', '1.0', true],
    ['^1.0.0', '1', true],
    ['^1.0.0', 'whatever', false],
  ])('%s holds for %s: %s', (range, version, holds) => {
    expect(satisfies(version, parseRange(range) ?? [])).toBe(holds);
  });

  test.each(['', 'x', '>=1', '1.0.0 ||', '^'])('%j is none', (text) =>
    expect(parseRange(text)).toBeUndefined(),
  );
});
