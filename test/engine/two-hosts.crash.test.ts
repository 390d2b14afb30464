/** Failures that need several hosts, or a database behind a network. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { readState, waitForDeath } from '../support/hosts.ts';
import { eventually } from '../support/instance.ts';
import { startDatabaseProxy } from '../support/crash/proxy.ts';
import type { Server } from '../support/crash/server.ts';
import { makeCrashTest } from '../support/crash/crash-test.ts';

const outageMs = 2000;
const fenced = 'a result came after its claim was lost, and was discarded';

describe('a host that falls silent for longer than the others wait', () => {
  // No host finds the work by polling: the host that released it notifies the others.
  const service = { poll_interval: '1h' };

  test('has its late result discarded', async () => {
    const crashTest = await makeCrashTest('postgres', service);
    const silent = await crashTest.start('run.after-exit:stop');
    const operation = await crashTest.client.enqueue();
    await eventually('it has stopped', () => readState(silent.pid) === 'T');
    const other = await crashTest.start();
    await crashTest.recorded(operation, { attempt: 2, phase: 'end' });
    silent.signal('SIGCONT');
    await waitForLog(silent, fenced);
    await waitForLog(silent, 'this process was presumed dead; its claims were released');
    // Both are well again.
    const later = [await crashTest.client.enqueue(), await crashTest.client.enqueue()];
    for (const each of later) await crashTest.recorded(each, { phase: 'end' });
    await crashTest.drain();
    expect([silent.isAlive, other.isAlive]).toEqual([true, true]);
    const { faults, counts } = await crashTest.verify();
    expect(faults).toEqual([]);
    expect(counts).toMatchObject({ acknowledged: 3, repeated: 1, crashed: 1 });
  });

  test('has its plugins killed before another host starts them', async () => {
    const crashTest = await makeCrashTest('postgres', service);
    const silent = await crashTest.start();
    const operation = await crashTest.client.enqueue({ hang_before: 2 });
    const { pid } = await crashTest.recorded(operation, { attempt: 1, phase: 'start' });
    silent.signal('SIGSTOP');
    await waitForDeath(pid);
    expect(readState(silent.pid)).toBe('T');
    await crashTest.start();
    await crashTest.recorded(operation, { attempt: 2, phase: 'end' });
    silent.signal('SIGCONT');
    await waitForLog(silent, fenced);
    await crashTest.drain();
    const { faults, counts } = await crashTest.verify();
    expect(faults).toEqual([]);
    expect(counts).toMatchObject({ acknowledged: 1, repeated: 1, crashed: 1, released: 0 });
  });
});

test('a database that goes away for a while is waited for', async () => {
  const crashTest = await makeCrashTest('postgres');
  const proxy = await startDatabaseProxy(crashTest.place);
  const server = await crashTest.start();
  const operation = await crashTest.client.enqueue({ hang_before: 2 });
  const { pid } = await crashTest.recorded(operation, { attempt: 1, phase: 'start' });
  await crashTest.client.enqueue({ fail_before: 2 });
  await crashTest.client.enqueue();
  await proxy.cut();
  const until = performance.now() + outageMs;
  let refused = 0;
  // A request in progress may get its response only when the database is back: such a client waits.
  while (performance.now() < until) {
    expect(await crashTest.client.enqueue()).toMatchObject({
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
  await crashTest.recorded(operation, { attempt: 2, phase: 'end' });
  expect(await crashTest.client.enqueue()).toMatchObject({ outcome: 'acknowledged' });
  await crashTest.drain();
  expect(server.isAlive).toBe(true);
  const { faults, counts } = await crashTest.verify();
  expect(faults).toEqual([]);
  expect(counts).toMatchObject({ acknowledged: 4, unknown: 0, crashed: 0 });
  expect(counts.refused).toBe(refused);
  expect(refused).toBeGreaterThan(1);
});

function waitForLog({ records }: Server, message: string): Promise<unknown> {
  return eventually(`it says: ${message}`, () =>
    records.find((record) => record.message === message),
  );
}
