/**
 * Whole engines in virtual time: several hosts, clients and a database under random faults. Every commit
 * is checked against the invariants; then the faults end, and all work is completed.
 */
import { beforeAll, expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';
import { openCrew, type Crew, type PlayedWorld } from './simulation/crew.ts';
import type { Size } from './simulation/plan.ts';
import type { WorldSetup } from './simulation/world-setup.ts';
import { openWorldSetup, runWorld, type WorldReport } from './simulation/world.ts';
import { campaign, isShort } from './support/campaign.ts';

/** A single world is large. */
const SHORT = Array.from({ length: 25 }, (_, index) => 100 + index);
const LONG_WORLDS = 1000;
const HOUR = 3_600_000;
const MIB = 2 ** 20;
let setup: WorldSetup;
let crew: Crew | undefined;

beforeAll(async () => {
  setup = await openWorldSetup(await makeDirectory());
  if (!isShort) crew = await openCrew();
});

campaign('simulation', { trials: 1, timeoutMs: 600_000 }, async ({ seed }) => {
  const long = Array.from({ length: LONG_WORLDS }, (_, index) => seed * LONG_WORLDS + index);
  const numbers = isShort ? SHORT : long;
  const beganAt = performance.now();
  const played = await (crew?.play(numbers) ?? playHere(numbers));
  for (const { number, report } of played) {
    if (report.fault !== undefined) throw new Error(`world ${number}: ${report.fault}`);
  }
  const reports = played.map(({ report }) => report);
  const sum = (of: (report: WorldReport) => number, among = reports): number =>
    among.reduce((total, report) => total + of(report), 0);
  const sized = (size: Size): WorldReport[] => reports.filter((report) => report.size === size);
  const timesReal = (among: WorldReport[]): number =>
    sum(({ virtualMs }) => virtualMs, among) / sum(({ cpuMs }) => cpuMs, among);
  return {
    worlds: reports.length,
    large: sized('large').length,
    virtualHours: sum(({ virtualMs }) => virtualMs) / HOUR,
    timesRealSmall: [timesReal(sized('small'))],
    timesRealLarge: [timesReal(sized('large'))],
    worldsPerMinute: [(reports.length * 60_000) / (performance.now() - beganAt)],
    memoryMiB: [process.memoryUsage.rss() / MIB],
    steps: sum(({ steps }) => steps),
    commits: sum(({ commits }) => commits),
    jobs: sum(({ jobs }) => jobs),
    runs: sum(({ runs }) => runs),
    attempts: sum(({ attempts }) => attempts),
    troubles: sum(({ troubles }) => troubles),
    moves: [new Set(reports.flatMap(({ moves }) => [...moves])).size],
  };
});

async function playHere(numbers: readonly number[]): Promise<readonly PlayedWorld[]> {
  const played: PlayedWorld[] = [];
  for (const number of numbers) played.push({ number, report: await runWorld(setup, number) });
  return played;
}

test.for(['small', 'large'] as const)('the same seed is the same %s world', async (size) => {
  const [one, two, other] = [
    await runWorld(setup, 28, { size }),
    await runWorld(setup, 28, { size }),
    await runWorld(setup, 21, { size }),
  ];
  expect(two.trace).toBe(one.trace);
  expect(two.steps).toBe(one.steps);
  expect(other.trace).not.toBe(one.trace);
});
