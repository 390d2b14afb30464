import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/instance.ts';
import type { Operation } from './support/client.ts';
import { disks } from './support/disk.ts';
import { makeStage } from './support/stage.ts';

const timeout = 60_000;
const ASKED_MAX = 500;
const padding = 'x'.repeat(8000);

describe.each(disks)('on $name', (disk) => {
  const name = 'a server refuses what it cannot keep, survives, and goes on when there is room';
  test(name, { timeout }, async ({ skip }) => {
    skip(disk.lack !== undefined, disk.lack);
    const stage = await makeStage('sqlite');
    const state = join(stage.place.directory, 'state');
    disk.prepare(state);
    const server = await stage.start();
    const before = await stage.client.enqueue();
    await stage.recorded(before, { phase: 'end' });
    const running = await stage.client.enqueue({ sleep_ms: 1000 });
    await stage.recorded(running, { phase: 'start' });
    disk.fill(state, server.pid);
    // The journal may still have room of its own, which is used up first.
    let answer: Operation | undefined;
    for (let asked = 0; asked < ASKED_MAX && answer?.outcome !== 'refused'; asked += 1)
      answer = await stage.client.enqueue({ padding });
    expect(answer).toMatchObject({ outcome: 'refused', code: 'LEDGER_UNAVAILABLE' });
    // The work goes on, but its end cannot be written down yet.
    await stage.recorded(running, { phase: 'end' });
    expect(await stage.client.enqueue({ padding })).toMatchObject({ outcome: 'refused' });
    expect(server.isAlive).toBe(true);
    disk.free(state, server.pid);
    await eventually('work is taken again', async () => {
      const { outcome } = await stage.client.enqueue({ padding });
      return outcome === 'acknowledged';
    });
    await stage.drain();
    expect(server.isAlive).toBe(true);
    const { faults, counts } = await stage.judge();
    expect(faults).toEqual([]);
    expect(counts).toMatchObject({ unknown: 0, crashed: 0, released: 0, repeated: 0 });
  });
});
