/**
 * The disk of the ledger fills up and is freed again and again, under load. What can't be stored is
 * refused and never lost, and the server survives. Ends of attempts are written later, and the work
 * continues by itself when there is space.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Operation } from '../support/crash/client.ts';
import { disks, type Disk } from '../support/crash/disk.ts';
import { startLoad } from '../support/crash/load.ts';
import { between, type Random } from '../support/crash/random.ts';
import type { Server } from '../support/crash/server.ts';
import { makeCrashTest, type CrashTest } from '../support/crash/crash-test.ts';
import { eventually } from '../support/instance.ts';
import { campaign, isShort, type Trial } from './support/campaign.ts';

/** The ledger grows with each, and must still fit on the small disk. */
const cyclesOfTrial: readonly [number, number] = isShort ? [1, 1] : [10, 16];
const ASKED_MAX = 3000;
const padding = 'x'.repeat(8000);

campaign('disk-full', { trials: disks.length, timeoutMs: 600_000 }, (trial) => {
  const disk = disks[trial.index % disks.length];
  if (disk === undefined) throw new Error('there is no disk');
  if (disk.lack === undefined) return run(trial, disk);
  console.warn(`${disk.name} was left out: ${disk.lack}`);
  return Promise.resolve({ leftOut: 1 });
});

async function run({ random }: Trial, disk: Disk) {
  const crashTest = await makeCrashTest('sqlite');
  const state = join(crashTest.place.directory, 'state');
  disk.prepare(state);
  const server = await crashTest.start();
  const load = isShort ? undefined : startLoad(crashTest.client, random);
  const recoverMs: number[] = [];
  const cycles = between(random, ...cyclesOfTrial);
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    recoverMs.push(await fillAndFree({ crashTest, disk, state, server }, random));
  }
  await load?.stop();
  await crashTest.drain();
  if (!server.isAlive) throw new Error('the server is dead');
  const { faults, counts } = await crashTest.verify();
  if (faults.length > 0) throw new Error(faults.join('\n'));
  const { unknown, crashed, released, repeated, failed, refused, jobs } = counts;
  // Only the part of the load that is meant to fail is repeated.
  if (unknown + crashed + released > 0 || repeated !== failed)
    throw new Error(`a full disk interrupted work: ${JSON.stringify(counts)}`);
  return { cycles, jobs, refused, recoverMs };
}

interface FullDisk {
  readonly crashTest: CrashTest;
  readonly disk: Disk;
  readonly state: string;
  readonly server: Server;
}

/** Returns the time from the moment when there is space to the next acknowledgement. */
async function fillAndFree({ crashTest, disk, state, server }: FullDisk, random: Random) {
  const running = await crashTest.client.enqueue({ sleep_ms: 500 });
  await crashTest.recorded(running, { phase: 'start' });
  disk.fill(state, server.pid);
  // The journal may still have room of its own, which is used up first.
  let answer: Operation | undefined;
  for (let asked = 0; asked < ASKED_MAX && answer?.outcome !== 'refused'; asked += 1)
    answer = await crashTest.client.enqueue({ padding });
  if (answer?.outcome !== 'refused' || answer.code !== 'LEDGER_UNAVAILABLE')
    throw new Error(`on a full disk: ${JSON.stringify(answer)}`);
  // The job continues, but its end can't be written yet.
  await crashTest.recorded(running, { phase: 'end' });
  if (!isShort) await sleep(between(random, 0, 2000));
  if (!server.isAlive) throw new Error('the server did not survive a full disk');
  disk.free(state, server.pid);
  const freed = performance.now();
  await eventually('work is taken again', async () => {
    const { outcome } = await crashTest.client.enqueue({ padding });
    return outcome === 'acknowledged';
  });
  return Math.round(performance.now() - freed);
}
