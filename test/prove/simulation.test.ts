/**
 * Whole engines in virtual time: several hosts, clients and a database suffer what a seed has in store,
 * and every commit is held against the invariants; then nothing goes wrong any more, and all is done.
 */
import { expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';
import { openStage, runWorld, type WorldReport } from './simulation/world.ts';
import { campaign } from './support/campaign.ts';

const WORLDS = 4;
const HOUR = 3_600_000;

campaign('simulation', { trials: 1, timeoutMs: 600_000 }, async ({ seed }) => {
  const stage = await openStage(await makeDirectory());
  const reports: WorldReport[] = [];
  const { user, system } = process.cpuUsage();
  for (let index = 0; index < WORLDS; index += 1) {
    const number = seed * WORLDS + index;
    const report = await runWorld(stage, number);
    if (report.fault !== undefined) throw new Error(`world ${number}: ${report.fault}`);
    reports.push(report);
  }
  const used = process.cpuUsage();
  const cpuMs = (used.user - user + used.system - system) / 1000;
  const sum = (of: (report: WorldReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const virtualMs = sum((report) => report.virtualMs);
  return {
    worlds: reports.length,
    virtualHours: virtualMs / HOUR,
    timesReal: [virtualMs / cpuMs],
    steps: sum(({ steps }) => steps),
    commits: sum(({ commits }) => commits),
    jobs: sum(({ jobs }) => jobs),
    runs: sum(({ runs }) => runs),
    attempts: sum(({ attempts }) => attempts),
    troubles: sum(({ troubles }) => troubles),
    moves: reports.map(({ moves }) => moves.size),
  };
});

test('the same seed is the same world', { timeout: 120_000 }, async () => {
  const stage = await openStage(await makeDirectory());
  const [one, two, other] = [
    await runWorld(stage, 7),
    await runWorld(stage, 7),
    await runWorld(stage, 8),
  ];
  expect(two.trace).toBe(one.trace);
  expect(two.steps).toBe(one.steps);
  expect(other.trace).not.toBe(one.trace);
});
