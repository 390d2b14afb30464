/** Halted runs that continue in a new run, without repeating what succeeded. */
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { endAsCrashed } from '../../src/job/outcome.ts';
import type { ClaimedJob } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { foreach, ref, split, task } from './graphs.ts';
import {
  advanceAll,
  branchesOf,
  carryOn,
  claimSteps,
  define,
  done,
  findRun,
  outputOf,
  start,
} from '../support/ledger/runs.ts';
import { ask, codesOf, indexOf, revive } from '../support/ledger/run-directives.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import { crash, fail } from '../support/ledger/drafts.ts';

describe.each(databases)('a halted run on %s', (kind) => {
  test('continues in a new one at the step that failed, under the same key', async () => {
    const { ledger } = await openBench(kind);
    const nodes = [task('a', { next: 'b' }), task('b', { next: 'c' }), task('c')];
    const graph = await define(ledger, nodes);
    const { id } = await start(ledger, graph, { n: 1 });
    const first: ClaimedJob[] = [];
    await carryOn(ledger, graph, (job) => {
      first.push(job);
      return job.plugin === 'b' ? fail(job) : done(job, `${job.plugin} did`);
    });
    expect(await findRun(ledger, id)).toMatchObject({ status: 'halted', haltedAtStep: 'b' });

    const revived = await revive(ledger, id);
    expect(await findRun(ledger, revived)).toMatchObject({
      status: 'running',
      revivedFrom: id,
      lineage: id,
      haltReason: null,
      payload: '{"n":1}',
      actor: 'api:test',
    });
    await advanceAll(ledger);
    const again = only(await claimSteps(ledger, graph));
    const failed = first[1];
    expect(again).toMatchObject({
      plugin: 'b',
      payload: failed?.payload,
      idempotencyKey: failed?.idempotencyKey,
      parentJobId: failed?.id,
      runId: revived,
    });
    await ledger.jobs.settle([done(again, 'b did')]);
    await carryOn(ledger, graph, (job) => done(job, 'c did'));
    expect(await outputOf(ledger, revived)).toEqual({ n: 1, result: 'c did' });
    const steps = await ledger.runs.listSteps({ runId: revived, limit: 9 });
    expect(
      steps.map(({ node, status, sourceStepId }) => [node, status, sourceStepId !== null]),
    ).toEqual([
      ['a', 'succeeded', true],
      ['b', 'succeeded', false],
      ['c', 'succeeded', false],
    ]);
    expect(await findRun(ledger, id)).toMatchObject({ status: 'halted' });
    expect(await ledger.check()).toEqual([]);
  });

  test('whose step crashed too many processes runs that step again', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const { id } = await start(ledger, graph);
    const rules = { crashesMax: 1, suspectAfter: 1 };
    await carryOn(ledger, graph, (job) =>
      job.plugin === 'b' ? { ...crash(job), ending: endAsCrashed(job, true, rules) } : done(job),
    );
    expect(await findRun(ledger, id)).toMatchObject({ status: 'halted', haltedAtStep: 'b' });
    const revived = await revive(ledger, id);
    await advanceAll(ledger);
    const again = only(await claimSteps(ledger, graph));
    expect(again).toMatchObject({ plugin: 'b', crashCount: 0, suspect: false });
    await ledger.jobs.settle([done(again)]);
    expect(await findRun(ledger, revived)).toMatchObject({ status: 'succeeded' });
  });

  test('repeats nothing of a block that succeeded, and joins old and new in order', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      foreach('each', 'double', { next: 'sum' }),
      task('double', { next: 'store' }),
      task('store'),
      task('sum'),
    ]);
    const { id } = await start(ledger, graph, { items: [1, 2, 3, 4] });
    const isBad = (job: ClaimedJob) => job.plugin === 'store' && indexOf(job) % 2 === 1;
    await carryOn(ledger, graph, (job) =>
      isBad(job) ? fail(job) : done(job, `${job.plugin} ${indexOf(job)}`),
    );
    expect(await findRun(ledger, id)).toMatchObject({ status: 'halted' });
    const revived = await revive(ledger, id);
    expect(await ledger.check()).toEqual([]);
    const did: string[] = [];
    await carryOn(ledger, graph, (job) => {
      did.push(`${job.plugin} ${job.plugin === 'sum' ? '' : indexOf(job)}`.trim());
      return done(job, job.plugin === 'sum' ? 10 : `again ${indexOf(job)}`);
    });
    expect(did.toSorted()).toEqual(['store 1', 'store 3', 'sum']);
    expect(await outputOf(ledger, revived)).toMatchObject({
      result: 10,
      each: [
        { item: 1, result: 'store 0' },
        { item: 2, result: 'again 1' },
        { item: 3, result: 'store 2' },
        { item: 4, result: 'again 3' },
      ],
    });
    expect(await ledger.check()).toEqual([]);
  });

  test('continues through blocks within blocks', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      split('both', ['left', 'right'], { next: 'last' }),
      foreach('left', 'work'),
      task('work'),
      task('right'),
      task('last'),
    ]);
    const { id } = await start(ledger, graph, { items: ['x', 'y'] });
    await carryOn(ledger, graph, (job) =>
      job.plugin === 'work' && indexOf(job) === 1 ? fail(job) : done(job, 'first'),
    );
    const revived = await revive(ledger, id);
    const open = (await branchesOf(ledger, revived)).filter((one) => one.completedAt === null);
    expect(open.map(({ status, node, pending }) => [status, node, pending])).toEqual([
      ['waiting', 'both', 1],
      ['waiting', 'left', 1],
      ['advancing', 'work', 0],
    ]);
    expect(await carryOn(ledger, graph, (job) => done(job, 'second'))).toBe(2);
    expect(await outputOf(ledger, revived)).toMatchObject({
      result: 'second',
      both: {
        left: { left: [{ result: 'first' }, { result: 'second' }] },
        right: { result: 'first' },
      },
    });
  });

  test("that halted again can be revived, and the older run can't", async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const { id } = await start(ledger, graph);
    expect(await ask(ledger, { of: id })).toMatchObject({ errorCode: 'RUN_NOT_HALTED' });
    await carryOn(ledger, graph, fail);
    const second = await revive(ledger, id);
    expect(await ask(ledger, { of: id })).toMatchObject({
      status: 'failed',
      errorCode: 'RUN_REVIVED',
      error: expect.stringContaining(second) as string,
    });
    await carryOn(ledger, graph, fail);
    const third = await revive(ledger, second);
    await carryOn(ledger, graph);
    expect(await findRun(ledger, third)).toMatchObject({ status: 'succeeded', lineage: id });
    expect(await ask(ledger, { of: third })).toMatchObject({ errorCode: 'RUN_NOT_HALTED' });
    expect(await ask(ledger, { of: makeId() })).toMatchObject({ errorCode: 'RUN_NOT_FOUND' });
  });

  test('is revived once, even if two callers ask at the same moment', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const { id } = await start(ledger, graph);
    await carryOn(ledger, graph, fail);
    const answers = await Promise.all([ask(ledger, { of: id }), ask(ledger, { of: id })]);
    expect(codesOf(answers)).toEqual(['', 'RUN_REVIVED']);
    expect(await ledger.runs.list({ limit: 9 })).toHaveLength(2);
  });

  test('whose transition failed restarts at that step, not before', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      task('a', { next: 'b' }),
      task('b', { with: { x: ref('payload.missing') } }),
    ]);
    const { id } = await start(ledger, graph);
    await carryOn(ledger, graph);
    expect(await findRun(ledger, id)).toMatchObject({ haltReason: 'invalid_transition' });
    const revived = await revive(ledger, id);
    expect(await branchesOf(ledger, revived)).toMatchObject([{ node: 'b', status: 'advancing' }]);
    expect(await carryOn(ledger, graph)).toBe(0);
    expect(await findRun(ledger, revived)).toMatchObject({ haltReason: 'invalid_transition' });
  });

  test('whose advancement failed continues with the recorded arrival, and does not repeat the job', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const { id } = await start(ledger, graph);
    await carryOn(ledger, graph, fail);
    await sql(
      `update run_branches set halt_reason = 'advancement_retries_exhausted',
        outcome = '{"kind":"done","events":[],"result":"kept"}' where id = ?`,
      [id],
    );
    const revived = await revive(ledger, id);
    await advanceAll(ledger);
    expect(only(await claimSteps(ledger, graph))).toMatchObject({
      plugin: 'b',
      payload: '{"result":"kept"}',
      runId: revived,
    });
  });

  test('waits for its turn when others of its key are running', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const more = { concurrency: { key: 'k', limit: 1 } };
    const { id } = await start(ledger, graph, {}, more);
    await carryOn(ledger, graph, fail);
    const other = await start(ledger, graph, {}, more);
    await advanceAll(ledger);
    const revived = await revive(ledger, id);
    await advanceAll(ledger);
    expect(await findRun(ledger, revived)).toMatchObject({ status: 'queued' });
    await carryOn(ledger, graph);
    expect(await findRun(ledger, other.id)).toMatchObject({ status: 'succeeded' });
    expect(await findRun(ledger, revived)).toMatchObject({ status: 'succeeded' });
  });

  test('with a wide block is copied whole', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'work'), task('work')]);
    const items = Array.from({ length: 1000 }, (_, index) => index);
    const { id } = await start(ledger, graph, { items });
    await carryOn(ledger, graph, (job) => (indexOf(job) % 2 === 0 ? done(job, 1) : fail(job)));
    const revived = await revive(ledger, id);
    expect(await ledger.check()).toEqual([]);
    expect(await carryOn(ledger, graph, (job) => done(job, 2))).toBe(500);
    const { each } = (await outputOf(ledger, revived)) as { each: { result: number }[] };
    expect(each.map(({ result }) => result)).toEqual(items.map((n) => (n % 2 === 0 ? 1 : 2)));
  });

  test.each([
    ['of which all failed', 7, 0],
    ['of which some failed', 4, 2],
  ])('with a limited block %s runs no more than the limit', async (_, jobs, wells) => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'work', { concurrency: 2 }), task('work')]);
    const { id } = await start(ledger, graph, { items: range(7) });
    const isWell = (job: ClaimedJob) => wells > 0 && indexOf(job) % wells === 1;
    await carryOn(ledger, graph, (job) => (isWell(job) ? done(job) : fail(job)));
    const revived = await revive(ledger, id);
    expect(await doOneByOne(ledger, graph)).toEqual({ jobs, underWay: 2 });
    expect((await findRun(ledger, revived)).status).toBe('succeeded');
  });

  test('with nested limited blocks keeps to both limits', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      foreach('outer', 'inner', { concurrency: 2 }),
      foreach('inner', 'work', { concurrency: 3 }),
      task('work'),
    ]);
    const { id } = await start(ledger, graph, { items: range(4) });
    await carryOn(ledger, graph, (job) => fail(job));
    const revived = await revive(ledger, id);
    expect(await doOneByOne(ledger, graph)).toEqual({ jobs: 16, underWay: 6 });
    expect((await findRun(ledger, revived)).status).toBe('succeeded');
  });

  test('leaves its baggage out if requested', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const eventContextId = makeId();
    const contexts = [{ id: eventContextId, accumulated: '{"who":"me"}' }];
    await ledger.jobs.enqueue({ jobs: [], contexts });
    const { id } = await start(ledger, graph, {}, { eventContextId });
    await carryOn(ledger, graph, fail);
    const bare = await revive(ledger, id, { withContext: false });
    await advanceAll(ledger);
    const job = only(await claimSteps(ledger, graph));
    expect(job).toMatchObject({ eventContextId: null, runId: bare });
    await ledger.jobs.settle([fail(job)]);
  });
});

/** Counts the jobs, and the most jobs at a time. */
async function doOneByOne(
  ledger: Ledger,
  graph: Graph,
): Promise<{ readonly jobs: number; readonly underWay: number }> {
  for (let [jobs, underWay] = [0, 0]; ; jobs += 1) {
    await advanceAll(ledger);
    underWay = Math.max(underWay, (await ledger.jobs.countQueue()).ready);
    const [job] = await claimSteps(ledger, graph, 1);
    if (job === undefined) return { jobs, underWay };
    await ledger.jobs.settle([done(job)]);
  }
}
