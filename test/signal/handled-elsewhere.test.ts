/** Signals that are accepted by a host whose configuration lacks their route. */
import { expect, test } from 'vitest';
import { ownerOf } from '../../src/operation/context.ts';
import { operations } from '../../src/operation/all.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { findLedgerFaults } from '../../src/insight/ledger-findings.operations.ts';
import { makePlace, type TestInstance } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

async function emit(
  { engine }: TestInstance,
  type: string,
): Promise<Readonly<Record<string, unknown>>> {
  const operation = operations.find((one) => one.name === 'signal.emit');
  if (operation === undefined) throw new Error('there is no signal.emit');
  const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' } as const;
  return await invoke(operation, context, { type, source: 'shop' });
}

test('the response and doctor say that another live host would have handled it', async () => {
  const plugins = { worker: { program: succeeds } };
  const place = await makePlace({ database: 'postgres', plugins });
  const without = await place.start();
  const routes = [{ event_type: 'order.paid', to: 'worker.poll' }];
  const varied = await place.vary({ plugins, routes });
  const having = await varied.start();
  expect(await emit(having, 'order.paid')).toMatchObject({ created: true, handlers: 1 });
  const emitted = await emit(without, 'order.paid');
  expect(emitted).toMatchObject({ created: true, handlers: 0 });
  expect(emitted['warning']).toContain('order.paid');
  const unknown = await emit(without, 'order.lost');
  expect(unknown).toMatchObject({ handlers: 0 });
  expect(unknown['warning']).toBeUndefined();
  const { findings } = await findLedgerFaults(without.ledger, () => undefined);
  expect(findings).toContainEqual(
    expect.objectContaining({ severity: 'warning', key: 'signal order.paid' }),
  );
});
