/**
 * Servers are killed at random moments while clients ask for work. DUCTILE_CRASH_KILLS says how
 * often on each database, DUCTILE_CRASH_SEED chooses the moments.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Database } from '../support/instance.ts';
import { startLoad } from './support/load.ts';
import { between, makeRandom } from './support/random.ts';
import type { Server } from './support/server.ts';
import { makeStage } from './support/stage.ts';

const asked = Number(process.env['DUCTILE_CRASH_KILLS'] ?? 0);
const seed = Number(process.env['DUCTILE_CRASH_SEED'] ?? 1);
/** A part of them is killed on the way up, the others when they have been at work for this long. */
const EARLY = 0.25;
const earlyMs = [20, 400] as const;
const workMs = [20, 900] as const;
const TIMEOUT_MS_PER_KILL = 10_000;

const campaigns: readonly { database: Database; hosts: number; kills: number }[] = [
  { database: 'sqlite', hosts: 1, kills: asked || 12 },
  { database: 'postgres', hosts: 2, kills: asked || 6 },
];

test.for(campaigns)(
  '$kills kills of $hosts host(s) on $database: nothing is lost, nothing done twice',
  { timeout: 60_000 + (asked || 12) * TIMEOUT_MS_PER_KILL },
  async ({ database, hosts, kills }) => {
    const random = makeRandom(seed);
    const stage = await makeStage(database, { max_workers: 3 });
    const load = startLoad(stage.client, makeRandom(seed + 1));
    const readyMs: number[] = [];
    const launch = (): Server => {
      const server = stage.launch();
      server.ready.then(
        ({ ms }) => readyMs.push(ms),
        () => 'it was killed before',
      );
      return server;
    };
    const living = Array.from({ length: hosts }, launch);
    for (let kill = 0; kill < kills; kill += 1) {
      const place = between(random, 0, hosts - 1);
      const early = random() < EARLY;
      if (!early) await living[place]?.ready;
      const [low, high] = early ? earlyMs : workMs;
      await sleep(between(random, low, high));
      expect(await living[place]?.kill()).toMatchObject({ signal: 'SIGKILL' });
      living[place] = launch();
    }
    for (const { ready } of living) await ready;
    await load.stop();
    await stage.drain();
    const { faults, counts } = await stage.judge();
    console.info(`${kills} kills on ${database}, seed ${seed}:`, counts, sum(readyMs));
    expect(faults).toEqual([]);
    expect(counts.acknowledged).toBeGreaterThan(0);
    expect(counts.crashed).toBeGreaterThan(0);
  },
);

function sum(readyMs: readonly number[]): string {
  const sorted = readyMs.toSorted((a, b) => a - b).map((ms) => `${Math.round(ms)} ms`);
  return `ready after ${sorted[sorted.length >> 1]}, at most ${sorted.at(-1)}`;
}
