/** Failures that need several hosts, or a database behind a network. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { readState, waitForDeath } from '../support/hosts.ts';
import { eventually } from '../support/instance.ts';
import { startDatabaseProxy } from '../support/crash/proxy.ts';
import type { Server } from '../support/crash/server.ts';
import { makeCrashTest } from '../support/crash/crash-test.ts';

/** A host that is stopped in the middle of a transaction keeps its locks for 15 s. */
const timeout = 120_000;
const outageMs = 2000;
const fenced = 'a result came after its claim was lost, and was discarded';

describe('a host that falls silent for longer than the others wait', () => {
  // No host finds the work by polling: the host that released it notifies the others.
  const service = { poll_interval: '1h' };

  test('has its late result discarded', { timeout }, async () => {
    const stage = await makeCrashTest('postgres', service);
    const silent = await stage.start('run.after-exit:stop');
    const operation = await stage.client.enqueue();
    await eventually('it has stopped', () => readState(silent.pid) === 'T');
    const other = await stage.start();
    await stage.recorded(operation, { attempt: 2, phase: 'end' });
    silent.signal('SIGCONT');
    await said(silent, fenced);
    await said(silent, 'this process was presumed dead; its claims were given to others');
    // Both are well again.
    const later = [await stage.client.enqueue(), await stage.client.enqueue()];
    for (const each of later) await stage.recorded(each, { phase: 'end' });
    await stage.drain();
    expect([silent.isAlive, other.isAlive]).toEqual([true, true]);
    const { faults, counts } = await stage.judge();
    expect(faults).toEqual([]);
    expect(counts).toMatchObject({ acknowledged: 3, repeated: 1, crashed: 1 });
  });

  test('has its plugins killed before another host starts them', { timeout }, async () => {
    const stage = await makeCrashTest('postgres', service);
    const silent = await stage.start();
    const operation = await stage.client.enqueue({ hang_before: 2 });
    const { pid } = await stage.recorded(operation, { attempt: 1, phase: 'start' });
    silent.signal('SIGSTOP');
    await waitForDeath(pid);
    expect(readState(silent.pid)).toBe('T');
    await stage.start();
    await stage.recorded(operation, { attempt: 2, phase: 'end' });
    silent.signal('SIGCONT');
    await said(silent, fenced);
    await stage.drain();
    const { faults, counts } = await stage.judge();
    expect(faults).toEqual([]);
    expect(counts).toMatchObject({ acknowledged: 1, repeated: 1, crashed: 1, released: 0 });
  });
});

test('a database that goes away for a while is waited for', { timeout }, async () => {
  const stage = await makeCrashTest('postgres');
  const proxy = await startDatabaseProxy(stage.place);
  const server = await stage.start();
  const operation = await stage.client.enqueue({ hang_before: 2 });
  const { pid } = await stage.recorded(operation, { attempt: 1, phase: 'start' });
  await stage.client.enqueue({ fail_before: 2 });
  await stage.client.enqueue();
  await proxy.cut();
  const until = performance.now() + outageMs;
  let refused = 0;
  // A request in progress may get its response only when the database is back: such a client waits.
  while (performance.now() < until) {
    expect(await stage.client.enqueue()).toMatchObject({
      outcome: 'refused',
      code: 'LEDGER_UNAVAILABLE',
    });
    refused += 1;
    await sleep(100);
  }
  // No other host could know that it still lives, so its work had to stop.
  await waitForDeath(pid);
  expect(server.isAlive).toBe(true);
  await proxy.restore();
  await stage.recorded(operation, { attempt: 2, phase: 'end' });
  expect(await stage.client.enqueue()).toMatchObject({ outcome: 'acknowledged' });
  await stage.drain();
  expect(server.isAlive).toBe(true);
  const { faults, counts } = await stage.judge();
  expect(faults).toEqual([]);
  expect(counts).toMatchObject({ acknowledged: 4, unknown: 0, crashed: 0 });
  expect(counts.refused).toBe(refused);
  expect(refused).toBeGreaterThan(1);
});

function said({ records }: Server, message: string): Promise<unknown> {
  return eventually(`it says: ${message}`, () =>
    records.find((record) => record.message === message),
  );
}
