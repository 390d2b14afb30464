/** The roles by which operations are offered are those of the directives behind them. */
import { expect, test } from 'vitest';
import { allDirectives, operations } from '../../src/operation/all.ts';

test('every operation of a directive that names a role needs that role', () => {
  const types = allDirectives.filter(({ role }) => role !== undefined);
  expect(types.length).toBeGreaterThan(10);
  for (const { type, role } of types) {
    const requesting = operations.filter(({ directive }) => directive === type);
    expect(requesting.length).toBeGreaterThan(0);
    for (const operation of requesting) expect([type, operation.role]).toEqual([type, role]);
  }
});
