/**
 * Whole engines in virtual time: several hosts, clients and a database suffer what a seed has in store,
 * and every commit is held against the invariants; then nothing goes wrong any more, and all is done.
 */
import { beforeAll, expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';
import { openCrew, type Crew, type Played } from './simulation/crew.ts';
import type { Stage } from './simulation/stage.ts';
import { openStage, runWorld, type WorldReport } from './simulation/world.ts';
import { campaign, isShort } from './support/campaign.ts';

const SHORT_WORLDS = 4;
const LONG_WORLDS = 60;
const HOUR = 3_600_000;
let stage: Stage;
let crew: Crew | undefined;

beforeAll(async () => {
  stage = await openStage(await makeDirectory());
  if (!isShort) crew = await openCrew();
});

campaign('simulation', { trials: 1, timeoutMs: 600_000 }, async ({ seed }) => {
  const count = isShort ? SHORT_WORLDS : LONG_WORLDS;
  const numbers = Array.from({ length: count }, (_, index) => seed * count + index);
  const beganAt = performance.now();
  const { user, system } = process.cpuUsage();
  const played = await (crew?.play(numbers) ?? playHere(numbers));
  const used = process.cpuUsage();
  for (const { number, report } of played) {
    if (report.fault !== undefined) throw new Error(`world ${number}: ${report.fault}`);
  }
  const reports = played.map(({ report }) => report);
  const cpuMs = (used.user - user + used.system - system) / 1000;
  const sum = (of: (report: WorldReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const virtualMs = sum((report) => report.virtualMs);
  return {
    worlds: reports.length,
    virtualHours: virtualMs / HOUR,
    timesReal: [virtualMs / cpuMs],
    worldsPerMinute: [(reports.length * 60_000) / (performance.now() - beganAt)],
    steps: sum(({ steps }) => steps),
    commits: sum(({ commits }) => commits),
    jobs: sum(({ jobs }) => jobs),
    runs: sum(({ runs }) => runs),
    attempts: sum(({ attempts }) => attempts),
    troubles: sum(({ troubles }) => troubles),
    moves: reports.map(({ moves }) => moves.size),
  };
});

async function playHere(numbers: readonly number[]): Promise<readonly Played[]> {
  const played: Played[] = [];
  for (const number of numbers) played.push({ number, report: await runWorld(stage, number) });
  return played;
}

test('the same seed is the same world', { timeout: 120_000 }, async () => {
  const [one, two, other] = [
    await runWorld(stage, 28),
    await runWorld(stage, 28),
    await runWorld(stage, 21),
  ];
  expect(two.trace).toBe(one.trace);
  expect(two.steps).toBe(one.steps);
  expect(other.trace).not.toBe(one.trace);
});
