/** Runs of pipelines: started, advanced when their jobs settle, joined, halted and ended. */
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { foreach, ref, split, task } from './graphs.ts';
import {
  branchesOf,
  carryOn,
  claimSteps,
  define,
  done,
  findRun,
  outputOf,
  runOf,
  start,
  stepsOf,
} from '../support/ledger/runs.ts';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import {
  beat,
  closeUnrunnable,
  crash,
  endAsCancelled,
  fail,
  retryLater,
  settleOne,
} from '../support/ledger/drafts.ts';

describe.each(databases)('a run on %s', (kind) => {
  test('goes from job to job in the transactions that settle them', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b', { timeoutMs: 7 })]);
    const run = await start(ledger, graph, { n: 1 });
    const a = only(await claimSteps(ledger, graph));
    expect(a).toMatchObject({
      id: run.firstJobId,
      rootJobId: run.firstJobId,
      payload: '{"n":1}',
      runId: run.id,
      branchId: run.id,
      stepId: 'a',
      baseKey: null,
    });
    const { runEvents } = await ledger.jobs.settle([done(a, 'x')]);
    expect(runEvents).toEqual({ advancing: false, queued: true, dueInMs: undefined });
    const b = only(await claimSteps(ledger, graph));
    expect(b).toMatchObject({
      parentJobId: a.id,
      rootJobId: a.id,
      payload: '{"n":1,"result":"x"}',
      timeoutMs: 7,
    });
    const last = await ledger.jobs.settle([done(b, 'y')]);
    expect(last.runEvents).toMatchObject({ queued: false });
    expect(await findRun(ledger, run.id)).toMatchObject({ status: 'succeeded', haltReason: null });
    expect(await outputOf(ledger, run.id)).toEqual({ n: 1, result: 'y' });
    expect(await stepsOf(ledger, run.id)).toEqual(['a succeeded', 'b succeeded']);
  });

  test('has an edge from each step to the next', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    await start(ledger, graph);
    await carryOn(ledger, graph);
    const edges = await sql('select from_node, to_node from run_transitions order by from_node');
    expect(edges.map((edge) => ({ ...edge }))).toEqual([
      { from_node: 'a', to_node: 'b' },
      { from_node: 'b', to_node: null },
    ]);
  });

  test('that is asked for twice begins once', async () => {
    const { ledger, dump } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph);
    const before = await dump();
    await ledger.runs.start({ jobs: [], runs: [run] });
    expect(await dump()).toEqual(before);
  });

  test('begins with the settling that caused it', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    await start(ledger, graph);
    const job = only(await claimSteps(ledger, graph));
    const next = runOf(graph, { from: 'a' }, { parentJobId: job.id, rootJobId: job.rootJobId });
    const { runEvents } = await ledger.jobs.settle([{ ...done(job), runs: [next] }]);
    expect(runEvents.queued).toBe(true);
    const caused = only(await claimSteps(ledger, graph));
    expect(caused).toMatchObject({ runId: next.id, parentJobId: job.id, rootJobId: job.id });
    expect(await settleOne(ledger, done(caused))).toBe('settled');
  });

  test('keeps the keys of its jobs over attempts, and has others for other steps', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const run = await start(ledger, graph);
    const first = only(await claimSteps(ledger, graph));
    await ledger.jobs.settle([retryLater(first, 0)]);
    await ledger.jobs.promote();
    const second = only(await claimSteps(ledger, graph));
    expect(second.idempotencyKey).toBe(first.idempotencyKey);
    await ledger.jobs.settle([done(second)]);
    const b = only(await claimSteps(ledger, graph));
    expect(b.idempotencyKey).not.toBe(first.idempotencyKey);
    const again = await start(ledger, graph, {}, { lineage: run.id });
    const copy = only(await claimSteps(ledger, graph));
    expect(copy).toMatchObject({ runId: again.id, idempotencyKey: first.idempotencyKey });
  });

  test('with skipped steps only ends at its beginning', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { when: { cel: 'false' } })]);
    const run = runOf(graph, { n: 1 });
    await ledger.runs.start({ jobs: [], runs: [run] });
    expect((await findRun(ledger, run.id)).status).toBe('succeeded');
    expect(await outputOf(ledger, run.id)).toEqual({ n: 1 });
    expect(await stepsOf(ledger, run.id)).toEqual(['a skipped']);
  });

  test('adds baggage as rows of its own lineage', async () => {
    const { ledger, sql } = await openBench(kind);
    const baggage = [{ to: ['who'], from: ['payload', 'name'] }];
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b', { baggage })]);
    const root = { id: makeId(), accumulated: '{"trace":"t"}' };
    const run = runOf(graph, { name: 'ann' }, { eventContextId: root.id });
    await ledger.runs.start({ jobs: [], contexts: [root], runs: [run] });
    const a = only(await claimSteps(ledger, graph));
    expect(a).toMatchObject({ eventContextId: root.id, context: '{"trace":"t"}' });
    await ledger.jobs.settle([done(a)]);
    const b = only(await claimSteps(ledger, graph));
    expect(JSON.parse(b.context)).toEqual({ trace: 't', who: 'ann' });
    const row = only(await sql('select * from event_context where parent_id is not null'));
    expect(row).toMatchObject({ parent_id: root.id, pipeline_name: 'flow', step_id: 'b' });
  });
});

describe.each(databases)("a run that can't continue, on %s", (kind) => {
  test('halts with its reason, a signal and a job for each handler', async () => {
    const { ledger } = await openBench(kind);
    const onHalt = { plugin: 'nurse', command: 'handle' };
    const graph = await define(ledger, [task('a')], { onHalt });
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    const { runEvents } = await ledger.jobs.settle([fail(a)]);
    expect(runEvents).toMatchObject({ queued: true });
    expect(await findRun(ledger, run.id)).toMatchObject({
      status: 'halted',
      haltReason: 'retries_exhausted',
      haltedAtStep: 'a',
    });
    const signal = only(await ledger.signals.list({ type: 'run.halted', limit: 10 }));
    expect(signal).toMatchObject({ subjectId: run.id, correlationId: a.rootJobId });
    const nurse = only(await claimSteps(ledger, graph));
    expect(nurse).toMatchObject({ plugin: 'nurse', parentJobId: a.id, runId: null });
    expect(JSON.parse(nurse.payload)).toMatchObject({
      run_id: run.id,
      pipeline: 'flow',
      branches: [{ step_id: 'a', reason: 'retries_exhausted' }],
    });
    await ledger.jobs.settle([fail(nurse)]);
    expect((await findRun(ledger, run.id)).status).toBe('halted');
  });

  test.each([
    ['its job was cancelled', endAsCancelled, 'cancelled'],
    ['its job failed for good', fail, 'retries_exhausted'],
  ] as const)('says so when %s', async (_, end, haltReason) => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph);
    await ledger.jobs.settle([end(only(await claimSteps(ledger, graph)))]);
    expect(await findRun(ledger, run.id)).toMatchObject({ status: 'halted', haltReason });
  });

  test('says so when its queued job is cancelled or buried', async () => {
    const { ledger, job } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const [one, two] = [await start(ledger, graph), await start(ledger, graph)];
    expect(await ledger.jobs.cancel(one.firstJobId)).toBe('cancelled');
    await ledger.jobs.settle([closeUnrunnable(await job(two.firstJobId))]);
    expect((await findRun(ledger, one.id)).haltReason).toBe('cancelled');
    expect((await findRun(ledger, two.id)).haltReason).toBe('retries_exhausted');
  });

  test('stands still while its job is tried again', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph);
    const job = only(await claimSteps(ledger, graph));
    await ledger.processes.heartbeat(beat('p2'));
    await ledger.jobs.settle([crash(job)]);
    expect((await findRun(ledger, run.id)).status).toBe('running');
    expect(await carryOn(ledger, graph)).toBe(1);
    expect((await findRun(ledger, run.id)).status).toBe('succeeded');
  });

  test('continues after a failure if its step says so', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b', onError: 'continue' }), task('b')]);
    const run = await start(ledger, graph);
    await carryOn(ledger, graph, (job) => (job.stepId === 'a' ? fail(job) : done(job)));
    expect(await outputOf(ledger, run.id)).toMatchObject({
      error: { reason: 'retries_exhausted' },
    });
  });
});

describe.each(databases)('a block on %s', (kind) => {
  test('is joined once, in the order of its definition', async () => {
    const { ledger } = await openBench(kind);
    const nodes = [split('both', ['l', 'r'], { next: 'z' }), task('l'), task('r'), task('z')];
    const graph = await define(ledger, nodes);
    const run = await start(ledger, graph, { n: 1 });
    const jobs = await claimSteps(ledger, graph);
    expect(jobs.map(({ stepId }) => stepId)).toEqual(['l', 'r']);
    const key = `${run.id}:1`;
    expect(jobs.map(({ baseKey, payload }) => [baseKey, payload])).toEqual([
      [key, '{}'],
      [key, '{}'],
    ]);
    expect(await ledger.runs.readBasePayload(key)).toBe('{"n":1}');
    const [l, r] = jobs;
    if (l === undefined || r === undefined) throw new Error('two jobs were expected');
    expect((await ledger.jobs.settle([done(r, 2)])).runEvents.queued).toBe(false);
    expect((await ledger.jobs.settle([done(l, 1)])).runEvents.queued).toBe(true);
    const z = only(await claimSteps(ledger, graph));
    expect(JSON.parse(z.payload)).toEqual({ n: 1, both: { l: { result: 1 }, r: { result: 2 } } });
    await ledger.jobs.settle([done(z)]);
    expect((await findRun(ledger, run.id)).status).toBe('succeeded');
  });

  test('is joined by a settling that ends all of its branches', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'a', { next: 'z' }), task('a'), task('z')]);
    const run = await start(ledger, graph, { items: [null, false, 0, 'x'] });
    const jobs = await claimSteps(ledger, graph);
    expect(jobs.map(({ payload }) => JSON.parse(payload) as unknown)).toEqual([
      { item: null, index: 0 },
      { item: false, index: 1 },
      { item: 0, index: 2 },
      { item: 'x', index: 3 },
    ]);
    await ledger.jobs.settle(jobs.toReversed().map((job, index) => done(job, index)));
    const z = only(await claimSteps(ledger, graph));
    const { each } = JSON.parse(z.payload) as { each: { result: number }[] };
    expect(each.map(({ result }) => result)).toEqual([3, 2, 1, 0]);
    await ledger.jobs.settle([done(z)]);
    expect((await findRun(ledger, run.id)).status).toBe('succeeded');
  });

  test('within a block is joined into it', async () => {
    const { ledger } = await openBench(kind);
    const inner = foreach('inner', 'a', { items: ref('payload.item') });
    const graph = await define(ledger, [foreach('outer', 'inner'), inner, task('a')]);
    const run = await start(ledger, graph, { items: [[1, 2], [], [3]] });
    await carryOn(ledger, graph, (job) => {
      const { item } = JSON.parse(job.payload) as { item: number };
      return done(job, item * 10);
    });
    const { outer } = (await outputOf(ledger, run.id)) as {
      outer: { inner: { result: number }[] }[];
    };
    expect(outer.map((one) => one.inner.map(({ result }) => result))).toEqual([[10, 20], [], [30]]);
    expect((await branchesOf(ledger, run.id)).map(({ path }) => path)).toEqual([
      '0',
      '0.0',
      '0.0.0',
      '0.0.1',
      '0.1',
      '0.2',
      '0.2.0',
    ]);
  });

  test('halts when one of its branches does, after the others have finished', async () => {
    const { ledger } = await openBench(kind);
    const nodes = [split('both', ['l', 'r'], { next: 'z' }), task('l'), task('r'), task('z')];
    const graph = await define(ledger, nodes);
    const run = await start(ledger, graph);
    const [l, r] = await claimSteps(ledger, graph);
    if (l === undefined || r === undefined) throw new Error('two jobs were expected');
    await ledger.jobs.settle([fail(l)]);
    expect((await findRun(ledger, run.id)).status).toBe('running');
    await ledger.jobs.settle([done(r)]);
    expect(await findRun(ledger, run.id)).toMatchObject({
      status: 'halted',
      haltReason: 'retries_exhausted',
      haltedAtStep: 'l',
    });
    expect(await claimSteps(ledger, graph)).toEqual([]);
  });

  test('with several events runs the rest once for each', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const run = await start(ledger, graph, { n: 1 });
    const a = only(await claimSteps(ledger, graph));
    await ledger.jobs.settle([done(a, null, [{ e: 1 }, 'two'])]);
    const jobs = await claimSteps(ledger, graph);
    expect(jobs.map(({ payload, baseKey }) => [payload, baseKey])).toEqual([
      ['{"e":1}', null],
      ['{"value":"two"}', null],
    ]);
    await ledger.jobs.settle(jobs.map((job) => done(job)));
    expect(await outputOf(ledger, run.id)).toEqual([
      { e: 1, result: null },
      { value: 'two', result: null },
    ]);
  });
});
