/** Dedupe keys of runs: one run of a pipeline at a time has a key. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { RunDraft, RunStart } from '../../src/pipeline/run/types.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { task } from './graphs.ts';
import { openMeeting, runTogether } from '../support/ledger/barrier.ts';
import { direct, revive } from '../support/ledger/run-directives.ts';
import {
  carryOn,
  claimSteps,
  define,
  done,
  findRun,
  runOf,
  start,
} from '../support/ledger/runs.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import { fail } from '../support/ledger/drafts.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

function keyed(key: string, ttlMs = DAY_MS): Pick<RunDraft, 'dedupe'> {
  return { dedupe: { key, ttlMs } };
}

async function ask(ledger: Ledger, graph: Graph, key = 'k', ttlMs = DAY_MS): Promise<RunStart> {
  const run = runOf(graph, {}, keyed(key, ttlMs));
  return only((await ledger.runs.start({ jobs: [], runs: [run] })).runs);
}

describe.each(databases)('the key of a run on %s', (kind) => {
  test('blocks while its run is running, and nothing is added', async () => {
    const { ledger, dump } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const first = await ask(ledger, graph);
    expect(first).not.toHaveProperty('duplicateOf');
    const before = await dump();
    const run = runOf(graph, {}, keyed('k'));
    const { runs, dropped, queued } = await ledger.runs.start({ jobs: [], runs: [run] });
    const expected = { runId: run.id, status: 'running', duplicateOf: first.runId, dedupeKey: 'k' };
    expect(runs).toEqual([expected]);
    expect(dropped).toEqual([expected]);
    expect(queued).toBe(false);
    expect(await dump()).toEqual(before);
  });

  test('blocks while its run waits for its time', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const first = await start(ledger, graph, {}, { ...keyed('k'), due: { inMs: DAY_MS } });
    expect(await ask(ledger, graph)).toMatchObject({ duplicateOf: first.id, status: 'queued' });
  });

  test('blocks after its success for its time', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const first = await ask(ledger, graph);
    await carryOn(ledger, graph);
    const again = await ask(ledger, graph);
    expect(again).toMatchObject({ duplicateOf: first.runId, status: 'succeeded' });
    await sql(`update pipeline_runs set held_until = '2000-01-01T00:00:00.000Z'
      where held_until is not null`);
    const next = await ask(ledger, graph);
    expect(next).not.toHaveProperty('duplicateOf');
    expect(await ask(ledger, graph)).toMatchObject({ duplicateOf: next.runId });
    expect(await ledger.check()).toEqual([]);
  });

  test('is free as soon as its run succeeded, if its duration is 0', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    await ask(ledger, graph, 'k', 0);
    await carryOn(ledger, graph);
    expect(await ask(ledger, graph)).not.toHaveProperty('duplicateOf');
  });

  test('is released when its run halts or is cancelled', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const first = await ask(ledger, graph);
    await ledger.jobs.settle([fail(only(await claimSteps(ledger, graph)))]);
    expect((await findRun(ledger, first.runId)).status).toBe('halted');
    const { runId, duplicateOf } = await ask(ledger, graph);
    expect(duplicateOf).toBeUndefined();
    await direct(ledger, runId, (tx) => cancelRun(tx, runId));
    expect(await ask(ledger, graph)).not.toHaveProperty('duplicateOf');
    expect(await ledger.check()).toEqual([]);
  });

  test('does not block other pipelines or other keys', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const other = await define(ledger, [task('a')], { name: 'other' });
    await ask(ledger, graph);
    expect(await ask(ledger, other)).not.toHaveProperty('duplicateOf');
    expect(await ask(ledger, graph, 'K')).not.toHaveProperty('duplicateOf');
  });

  test('does not block a repeated request for the run itself', async () => {
    const { ledger, dump } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph, {}, keyed('k'));
    const before = await dump();
    const { runs } = await ledger.runs.start({ jobs: [], runs: [run] });
    expect(runs).toEqual([{ runId: run.id, status: 'running' }]);
    expect(await dump()).toEqual(before);
  });

  test('lets the first of a batch through, and others beside it', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const [one, two] = [runOf(graph, {}, keyed('k')), runOf(graph, {}, keyed('k'))];
    const plain = runOf(graph);
    const { runs } = await ledger.runs.start({ jobs: [], runs: [one, plain, two] });
    expect(runs.map(({ runId, duplicateOf }) => [runId, duplicateOf])).toEqual([
      [one.id, undefined],
      [plain.id, undefined],
      [two.id, one.id],
    ]);
    expect(await claimSteps(ledger, graph)).toHaveLength(2);
  });

  test('holds back a run that an end of a job would start', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const first = await ask(ledger, graph);
    const job = only(await claimSteps(ledger, graph));
    const next = runOf(graph, {}, { ...keyed('k'), parentJobId: job.id });
    const another = runOf(graph, {}, { ...keyed('l'), parentJobId: job.id });
    const { verdicts, runEvents } = await ledger.jobs.settle([
      { ...done(job), runs: [next, another] },
    ]);
    expect(verdicts.get(job.id)).toBe('settled');
    expect(runEvents.dropped).toMatchObject([{ runId: next.id, duplicateOf: first.runId }]);
    expect(await ledger.runs.find(next.id)).toBeUndefined();
    expect((await findRun(ledger, another.id)).status).toBe('running');
  });

  test('keeps its run on the ledger while it blocks', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const { runId } = await ask(ledger, graph);
    await carryOn(ledger, graph);
    await sql(`update pipeline_runs set completed_at = '2000-01-01T00:00:00.000Z'`);
    const prune = { what: 'runs', olderThanMs: 0, limit: 100 } as const;
    await ledger.history.prune(prune);
    expect(await ask(ledger, graph)).toMatchObject({ duplicateOf: runId });
    await sql(`update pipeline_runs set held_until = '2000-01-01T00:00:00.000Z'`);
    await ledger.history.prune(prune);
    expect(await ledger.runs.find(runId)).toBeUndefined();
  });

  test('moves to the run that continues its work', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const halted = await ask(ledger, graph);
    await ledger.jobs.settle([fail(only(await claimSteps(ledger, graph)))]);
    const revived = await revive(ledger, halted.runId);
    expect(await ask(ledger, graph)).toMatchObject({ duplicateOf: revived });
    await carryOn(ledger, graph);
    expect(await ask(ledger, graph)).toMatchObject({ duplicateOf: revived });
    const again = await revive(ledger, revived, { from: 'a' });
    expect(await ask(ledger, graph)).toMatchObject({ duplicateOf: again, status: 'running' });
    expect(await ledger.check()).toEqual([]);
  });

  test('does not keep a halted run from being revived', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const first = await ask(ledger, graph);
    await ledger.jobs.settle([fail(only(await claimSteps(ledger, graph)))]);
    const second = await ask(ledger, graph);
    const revived = await revive(ledger, first.runId);
    expect(await carryOn(ledger, graph)).toBe(2);
    expect((await findRun(ledger, revived)).status).toBe('succeeded');
    expect(await ask(ledger, graph)).toMatchObject({ duplicateOf: second.runId });
    expect(await ledger.check()).toEqual([]);
  });
});

describe('a key that two hosts ask for at once', () => {
  test('goes to one of them, and the other learns which run has it', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const graph = await define(ledger, [task('a')]);
    // Both wait at their insert.
    await barrier.hold('lock table pipeline_runs in exclusive mode');
    const [one, two] = await runTogether(
      barrier,
      () => ask(ledger, graph),
      () => ask(other, graph),
    );
    const winner = only([one, two].filter(({ duplicateOf }) => duplicateOf === undefined));
    const loser = only([one, two].filter(({ duplicateOf }) => duplicateOf !== undefined));
    expect(loser.duplicateOf).toBe(winner.runId);
    expect(await ledger.runs.list({ limit: 9 })).toHaveLength(1);
    expect(await claimSteps(ledger, graph)).toHaveLength(1);
  });

  test('goes to one of them when its time has just passed', async () => {
    const { ledger, other, sql } = await openMeeting();
    const graph = await define(ledger, [task('a')]);
    await ask(ledger, graph, 'k', 0);
    await carryOn(ledger, graph);
    await sql(`update pipeline_runs set held_until = '2000-01-01T00:00:00.000Z'`);
    const results = await Promise.all(
      range(20).map((n) => ask(n % 2 === 0 ? ledger : other, graph, 'k')),
    );
    expect(results.filter(({ duplicateOf }) => duplicateOf === undefined)).toHaveLength(1);
    expect(new Set(results.map(({ runId, duplicateOf }) => duplicateOf ?? runId)).size).toBe(1);
  });

  test('do not lock each other out with several keys in another order', async () => {
    const { ledger, other } = await openMeeting();
    const graph = await define(ledger, [task('a')]);
    const results = await Promise.all(
      range(12).map((n) => {
        const keys = n % 2 === 0 ? ['x', 'y', 'z'] : ['z', 'y', 'x'];
        const runs = keys.map((key) => runOf(graph, {}, keyed(key)));
        return (n % 2 === 0 ? ledger : other).runs.start({ jobs: [], runs });
      }),
    );
    const begun = results.flatMap(({ runs }) => runs).filter((run) => !('duplicateOf' in run));
    expect(begun).toHaveLength(3);
  });
});
