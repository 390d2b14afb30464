import { expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { layOut, joinCells, formatWhen, cut, fitText, widthOf } from '../../src/cli/table.ts';

const id = (end: string): string => `0199a1b2-c3d4-7000-8000-00000000000${end}`;
const rows = [
  ['ID', 'PLUGIN', 'STATUS', 'ERROR'],
  [id('1'), 'mail', 'failed', 'the server said no, and then it said no again'],
  [id('2'), 'calendar', 'dead', '-'],
];
const print = (width?: number): string[] => layOut(rows, width).map(joinCells);

test('a table without a width has whole cells in aligned columns', () => {
  const lines = print();
  expect(lines[1]).toContain('and then it said no again');
  const at = lines[0]?.indexOf('STATUS');
  expect([lines[1]?.indexOf('failed'), lines[2]?.indexOf('dead')]).toEqual([at, at]);
});

test.each([100, 80, 60, 40, 24, 12])('at %i columns no line is longer', (width) => {
  for (const line of print(width)) expect(widthOf(line)).toBeLessThanOrEqual(width);
});

test('the last column gives way before any other', () => {
  const [, first = ''] = print(80);
  expect(first).toContain(id('1'));
  expect(first).toContain('mail');
  expect(first).toMatch(/…$/);
});

test('ids are shortened to their time and counter, which no other id of a process has', () => {
  const made = Array.from({ length: 500 }, () => makeId());
  const rowsOf = [['ID', 'X'], ...made.slice(0, 2).map((one) => [one, 'a'.repeat(30)])];
  const [, first = '', second = ''] = layOut(rowsOf, 40).map(joinCells);
  expect(first.slice(0, 20)).toBe(`${made[0]?.slice(0, 18)}  `);
  expect(second.slice(0, 20)).toBe(`${made[1]?.slice(0, 18)}  `);
  expect(new Set(made.map((one) => one.slice(0, 18))).size).toBe(made.length);
});

test('ids of two processes that have the time and the counter in common are lengthened', () => {
  const near = [
    ['ID', 'X'],
    [id('1'), 'a'.repeat(30)],
    [`${id('1').slice(0, 19)}9${id('1').slice(20)}`, 'b'],
  ];
  const lines = layOut(near, 40).map(joinCells);
  expect(lines[1]).toMatch(/^0199a1b2-c3d4-7000-8 {2}a/);
  expect(lines[2]).toMatch(/^0199a1b2-c3d4-7000-9 {2}b/);
});

test('wide and combining characters take the columns that a terminal gives them', () => {
  expect(widthOf('日本語')).toBe(6);
  expect(widthOf('e\u0301te\u0301')).toBe(3);
  expect(widthOf('👩‍👩‍👧')).toBe(2);
  expect(cut('日本語', 5)).toBe('日本…');
  expect(fitText('日本', 6)).toBe('日本  ');
});

test.each([
  ['2026-01-01T00:00:00.000Z', 'now'],
  ['2025-12-31T23:59:50.000Z', '10s ago'],
  ['2025-12-31T23:00:01.000Z', '59m ago'],
  ['2025-12-31T00:00:00.000Z', '1d ago'],
  ['2026-01-01T05:00:01.000Z', 'in 5h'],
])('%s is %s', (moment, words) => {
  expect(formatWhen(moment, Date.parse('2026-01-01T00:00:00.400Z'))).toBe(words);
});
