/** Several threads on one ledger at full speed: what holds for two that meet holds for all. */
import { Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import type { Race, RaceResult } from '../support/ledger/racer.ts';
import { databases, openBench, range } from '../support/ledger/bench.ts';

const threads = 3;
const rounds = 30;
const parallelism = 4;

function run(race: Race): Promise<RaceResult> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('../support/ledger/racer.ts', import.meta.url), {
      workerData: race,
    });
    let raced: RaceResult | undefined;
    worker.on('message', (message: RaceResult) => (raced = message));
    worker.on('error', reject);
    worker.on('exit', () => {
      if (raced === undefined) reject(new Error(`${race.name} ended without a word`));
      else resolve(raced);
    });
  });
}

describe.each(databases)('a storm on %s', (kind) => {
  test('loses nothing, doubles nothing and keeps every limit', async () => {
    const { ledger, place } = await openBench(kind);
    const names = range(threads).map((index) => `thread ${index}`);
    const raced = await Promise.all(names.map((name) => run({ place, name, rounds, parallelism })));

    const added = raced.flatMap((one) => one.added);
    expect(added.map(([key]) => key).toSorted()).toEqual(
      range(rounds)
        .map((round) => `shared ${round}`)
        .toSorted(),
    );
    const jobs = await ledger.jobs.list({ limit: 10_000 });
    expect(jobs).toHaveLength(rounds + 2 * threads * rounds);
    expect(new Set(jobs.map(({ status }) => status))).toEqual(new Set(['succeeded']));
    const succeeded = raced.flatMap((one) => one.succeeded);
    expect(succeeded.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
    expect(raced.map(({ fenced }) => fenced)).toEqual(names.map(() => 0));
    expect(Math.max(...raced.map(({ runningMax }) => runningMax))).toBeLessThanOrEqual(parallelism);
    expect(Math.max(...raced.map(({ inTurnMax }) => inTurnMax))).toBe(1);

    const attempts = await ledger.attempts.listByJob(jobs.map(({ id }) => id));
    expect(attempts.map(({ attempt }) => attempt)).toEqual(jobs.flatMap(() => [1, 2]));
    const facts = await ledger.plugins.listFacts('echo', 10_000);
    expect(facts.map(({ seq }) => seq)).toEqual(range(facts.length).map((n) => facts.length - n));
    const marks = Object.keys(JSON.parse(await ledger.plugins.readState('echo')) as object);
    expect(marks.length + facts.length).toBe(jobs.length);
  });
});
