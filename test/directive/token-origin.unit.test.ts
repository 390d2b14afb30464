/** Which actors count as one person when a directive is approved. */
import { expect, test } from 'vitest';
import { isSamePerson, type TokenOrigin } from '../../src/directive/approval.ts';

const made = (name: string, createdBy: string, role: TokenOrigin['role'] = 'admin') => ({
  name,
  role,
  createdBy,
});

const origins: readonly TokenOrigin[] = [
  made('boss', 'cli:root', 'owner'),
  made('ann', 'token:boss'),
  made('bob', 'token:boss'),
  made('ann-2', 'token:ann'),
  made('ann-3', 'token:ann-2', 'member'),
  made('ann-4', 'token:ann'),
  made('carl', 'token:file'),
  made('dora', 'cli:root'),
];

test.each([
  ['token:ann', 'token:ann'],
  ['token:ann', 'token:ann-3'],
  ['token:ann-3', 'token:ann'],
  ['token:ann-3', 'token:ann-4'],
  ['token:boss', 'token:ann-3'],
  ['token:file', 'token:carl'],
  ['token:dora', 'cli:root'],
])('%s and %s are one person', (a, b) => {
  expect(isSamePerson(a, b, origins)).toBe(true);
  expect(isSamePerson(b, a, origins)).toBe(true);
});

test.each([
  ['token:ann', 'token:bob'],
  ['token:ann-3', 'token:bob'],
  ['token:ann', 'token:carl'],
  ['token:carl', 'token:dora'],
  ['token:file', 'token:other-file'],
  ['token:bob', 'cli:ann'],
])('%s and %s are two persons', (a, b) => {
  expect(isSamePerson(a, b, origins)).toBe(false);
  expect(isSamePerson(b, a, origins)).toBe(false);
});

test('old rows whose names were reused in a circle end the walk', () => {
  const circle = [made('a', 'token:b'), made('b', 'token:a')];
  expect(isSamePerson('token:a', 'token:b', circle)).toBe(true);
  expect(isSamePerson('token:a', 'token:c', circle)).toBe(false);
});
