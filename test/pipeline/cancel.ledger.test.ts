/** Changes of a running run: cancelling it, and deciding about its approvals. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import type { Directive } from '../../src/directive/directive.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { approve, foreach, split, task, wait } from './graphs.ts';
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
import { ask, codesOf, decide, direct, revive } from '../support/ledger/run-directives.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import { beat, endAsCancelled } from '../support/ledger/drafts.ts';

describe.each(databases)('cancelling a run on %s', (kind) => {
  test('queued work never starts, running work is asked to stop, nothing follows', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      split('all', ['x', 'y', 'z', 'ok'], { next: 'after' }),
      task('x'),
      task('y'),
      wait('z', { delayMs: 60_000 }),
      approve('ok'),
      task('after'),
    ]);
    const { id } = await start(ledger, graph);
    const [running] = await claimSteps(ledger, graph, 1);
    if (running === undefined) throw new Error('nothing was claimed');
    const { result } = await cancel(ledger, id);
    expect(JSON.parse(result ?? '')).toEqual({
      run_id: id,
      outcome: 'cancelled',
      was: 'running',
      cancelled_jobs: 1,
      stopping: [running.id],
    });
    expect(await findRun(ledger, id)).toMatchObject({ status: 'cancelled', haltReason: null });
    const branches = await branchesOf(ledger, id);
    expect(new Set(branches.map(({ status }) => status))).toEqual(new Set(['cancelled']));
    const steps = await ledger.runs.listSteps({ runId: id, limit: 9 });
    expect(new Set(steps.map(({ status }) => status))).toEqual(new Set(['cancelled']));
    expect(await ledger.jobs.find(running.id)).toMatchObject({ status: 'running' });
    expect((await ledger.jobs.find(running.id))?.cancelRequestedAt).not.toBeNull();
    await ledger.jobs.settle([endAsCancelled(running)]);
    expect(await carryOn(ledger, graph)).toBe(0);
    const jobs = await ledger.jobs.list({ limit: 9 });
    expect(jobs.map(({ status }) => status)).toEqual(['cancelled', 'cancelled']);
    expect(await ledger.check()).toEqual([]);
  });

  test('a job that succeeds afterwards stays succeeded, and nothing follows', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const { id } = await start(ledger, graph);
    const [running] = await claimSteps(ledger, graph);
    if (running === undefined) throw new Error('nothing was claimed');
    await cancel(ledger, id);
    await ledger.jobs.settle([done(running)]);
    expect(await carryOn(ledger, graph)).toBe(0);
    expect(await findRun(ledger, id)).toMatchObject({ status: 'cancelled' });
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(1);
  });

  test('again, or after its end, changes nothing', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const { id } = await start(ledger, graph);
    await carryOn(ledger, graph);
    expect(JSON.parse((await cancel(ledger, id)).result ?? '')).toEqual({
      run_id: id,
      outcome: 'unchanged',
      was: 'succeeded',
    });
    expect(await findRun(ledger, id)).toMatchObject({ status: 'succeeded' });
    expect(await cancel(ledger, makeId())).toMatchObject({ errorCode: 'RUN_NOT_FOUND' });
  });

  test('a run that waits for its concurrency key never starts, and the next one starts', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const more = { concurrency: { key: 'k', limit: 1 } };
    const first = await start(ledger, graph, {}, more);
    const second = await start(ledger, graph, {}, more);
    await advanceAll(ledger);
    await cancel(ledger, second.id);
    await cancel(ledger, first.id);
    const third = await start(ledger, graph, {}, more);
    expect(await carryOn(ledger, graph)).toBe(1);
    expect(await findRun(ledger, second.id)).toMatchObject({
      status: 'cancelled',
      startedAt: null,
    });
    expect(await findRun(ledger, third.id)).toMatchObject({ status: 'succeeded' });
  });

  test('all branches of a wide block end, started or not', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'work'), task('work')]);
    const items = Array.from({ length: 1000 }, (_, index) => index);
    const { id } = await start(ledger, graph, { items });
    await ledger.processes.heartbeat(beat('p1'));
    const { branchIds } = await ledger.runs.claimBranches({
      processId: 'p1',
      token: 't',
      limit: 1,
    });
    const [branchId = ''] = branchIds;
    expect(await ledger.runs.advance({ branchId, token: 't' })).toMatchObject({ verdict: 'more' });
    await cancel(ledger, id);
    expect(await ledger.runs.advance({ branchId, token: 't' })).not.toMatchObject({
      verdict: 'more',
    });
    expect(await carryOn(ledger, graph)).toBe(0);
    expect(await ledger.runs.listBranches({ runId: id, open: true, limit: 9 })).toEqual([]);
    expect(await ledger.check()).toEqual([]);
  });
});

describe.each(databases)('cancelling a wide run on %s', (kind) => {
  const width = 3 * limits.cancelBatchMax;

  /** Starts all branches, without running jobs. */
  async function cancelWide(ledger: Ledger): Promise<{ graph: Graph; id: string }> {
    const graph = await define(ledger, [
      foreach('each', 'work', { maxFanout: width }),
      task('work'),
    ]);
    const { id } = await start(ledger, graph, { items: range(width) });
    await advanceAll(ledger);
    const { result } = await cancel(ledger, id);
    expect(JSON.parse(result ?? '')).toMatchObject({
      cancelled_jobs: limits.cancelBatchMax,
      sweeping: true,
    });
    return { graph, id };
  }

  async function claimRoot(ledger: Ledger, processId: string) {
    await ledger.processes.heartbeat(beat(processId));
    const token = makeId();
    const { branchIds } = await ledger.runs.claimBranches({ processId, token, limit: 1 });
    return { branchId: only(branchIds), token };
  }

  const queued = async (ledger: Ledger) => (await ledger.jobs.countQueue()).ready;

  test('takes bounded steps, and no job of the run starts meanwhile', async () => {
    const { ledger } = await openBench(kind);
    const { graph, id } = await cancelWide(ledger);
    expect((await findRun(ledger, id)).status).toBe('cancelled');
    expect(await claimSteps(ledger, graph)).toEqual([]);
    expect(await ledger.check()).toEqual([]);
    const held = await claimRoot(ledger, 'p1');
    const steps: [string, number][] = [];
    for (let verdict = 'more'; verdict === 'more';) {
      ({ verdict } = await ledger.runs.advance(held));
      steps.push([verdict, await queued(ledger)]);
    }
    expect(steps).toEqual([
      ['more', limits.cancelBatchMax],
      ['more', 0],
      ['done', 0],
    ]);
    expect(await ledger.runs.listBranches({ runId: id, open: true, limit: 9 })).toEqual([]);
    const jobs = await ledger.jobs.count({ status: ['cancelled'], limit: 2 * width });
    expect(jobs).toBe(width);
  });

  test('is continued by another process after a crash', async () => {
    const { ledger } = await openBench(kind);
    const { id } = await cancelWide(ledger);
    const held = await claimRoot(ledger, 'p1');
    expect((await ledger.runs.advance(held)).verdict).toBe('more');
    await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [] });
    expect((await ledger.runs.advance(held)).verdict).toBe('fenced');
    await advanceAll(ledger, 'p2');
    expect(await queued(ledger)).toBe(0);
    expect(await ledger.runs.listBranches({ runId: id, open: true, limit: 9 })).toEqual([]);
  });

  test('is finished before the run can be revived', async () => {
    const { ledger } = await openBench(kind);
    const { graph, id } = await cancelWide(ledger);
    expect(await ask(ledger, { of: id, from: 'work' })).toMatchObject({ errorCode: 'RUN_OPEN' });
    await advanceAll(ledger);
    await revive(ledger, id, { from: 'work' });
    expect(await carryOn(ledger, graph)).toBe(width);
  });
});

describe.each(databases)('a step that waits for approval on %s', (kind) => {
  const nodes = [task('a', { next: 'ok' }), approve('ok', { next: 'b' }), task('b')];

  test('continues with the approver, the time and the reason', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, nodes);
    const { id } = await start(ledger, graph, { n: 1 });
    await carryOn(ledger, graph);
    const { result } = await decide(ledger, id, 'ok', true, 'read it');
    const { at } = JSON.parse(result ?? '{}') as { at: string };
    await carryOn(ledger, graph, (job) => done(job, 'done'));
    expect(await outputOf(ledger, id)).toEqual({
      n: 1,
      result: 'done',
      ok: { approved: true, by: 'api:test', at, why: 'read it' },
    });
    const [step] = await ledger.runs.listSteps({ runId: id, node: 'ok', limit: 2 });
    expect(step).toMatchObject({ status: 'succeeded', note: 'approved by api:test: read it' });
  });

  test('halts its run when a user rejects', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, nodes);
    const { id } = await start(ledger, graph);
    await carryOn(ledger, graph);
    await decide(ledger, id, 'ok', false);
    await carryOn(ledger, graph);
    expect(await findRun(ledger, id)).toMatchObject({ status: 'halted', haltReason: 'rejected' });
  });

  test('is decided once, and only while it waits', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, nodes);
    const { id } = await start(ledger, graph);
    expect(await decide(ledger, id, 'ok', true)).toMatchObject({ errorCode: 'STEP_NOT_WAITING' });
    await carryOn(ledger, graph);
    const answers = await Promise.all([
      decide(ledger, id, 'ok', true),
      decide(ledger, id, 'ok', false),
    ]);
    expect(codesOf(answers)).toEqual(['', 'STEP_NOT_WAITING']);
    await carryOn(ledger, graph);
    expect(await decide(ledger, id, 'ok', true)).toMatchObject({ errorCode: 'STEP_NOT_WAITING' });
    expect(await decide(ledger, id, 'a', true)).toMatchObject({ errorCode: 'STEP_NOT_WAITING' });
    expect(await decide(ledger, id, 'zz', true)).toMatchObject({ errorCode: 'STEP_NOT_FOUND' });
    expect(await decide(ledger, makeId(), 'ok', true)).toMatchObject({
      errorCode: 'RUN_NOT_FOUND',
    });
  });

  test('is named by its row id if several branches wait at it', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'ok'), approve('ok')]);
    const { id } = await start(ledger, graph, { items: [1, 2] });
    expect(await decide(ledger, id, 'ok', true)).toMatchObject({ errorCode: 'STEP_AMBIGUOUS' });
    for (const step of await ledger.runs.listSteps({ runId: id, limit: 9 })) {
      expect(await decide(ledger, id, step.id, true)).toMatchObject({ status: 'completed' });
    }
    await advanceAll(ledger);
    expect(await findRun(ledger, id)).toMatchObject({ status: 'succeeded' });
  });
});

function cancel(ledger: Ledger, runId: string): Promise<Directive> {
  return direct(ledger, runId, (tx) => cancelRun(tx, runId));
}
