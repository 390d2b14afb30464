/** The roles by which operations are offered are those of the directives behind them. */
import { expect, test } from 'vitest';
import { operations } from '../../src/operation/all.ts';
import { roleForOperation } from '../../src/operation/offered.ts';
import { makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

test('every directive type that names a role is known by it', async () => {
  const { engine } = await (
    await makePlace({ plugins: { worker: { program: succeeds } } })
  ).start();
  const types = engine.directives.types.filter(({ role }) => role !== undefined);
  expect(types.length).toBeGreaterThan(10);
  for (const { type, role } of types) {
    const operation = operations.find(({ name }) => name === type);
    expect([type, operation?.role ?? roleForOperation(type)]).toEqual([type, role]);
  }
});
