/** Ended runs that are repeated from a step on in a new run. */
import { describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../../src/job/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import { approve, foreach, ref, split, task } from './graphs.ts';
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
  stepsOf,
} from '../support/ledger/runs.ts';
import { ask, decide, revive } from '../support/ledger/run-directives.ts';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import { fail } from '../support/ledger/drafts.ts';

describe.each(databases)('an ended run on %s', (kind) => {
  const chain = [task('a', { next: 'b' }), task('b', { next: 'c' }), task('c')];
  const tell = (job: ClaimedJob, word: string): Closing => done(job, `${job.plugin} ${word}`);

  test('is repeated from a step on, with the payload that it had there', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, chain);
    const { id } = await start(ledger, graph, { n: 1 });
    await carryOn(ledger, graph, (job) => tell(job, 'one'));
    const again = await revive(ledger, id, { from: 'b' });
    expect(await stepsOf(ledger, again)).toEqual(['a succeeded']);
    await advanceAll(ledger);
    const job = only(await claimSteps(ledger, graph));
    expect(job).toMatchObject({ plugin: 'b', payload: '{"n":1,"result":"a one"}' });
    await ledger.jobs.settle([tell(job, 'two')]);
    await carryOn(ledger, graph, (last) => tell(last, 'two'));
    expect(await outputOf(ledger, again)).toEqual({ n: 1, result: 'c two' });
    expect(await ledger.check()).toEqual([]);
    const whole = await revive(ledger, again, { from: 'a' });
    await advanceAll(ledger);
    expect(only(await claimSteps(ledger, graph))).toMatchObject({
      payload: '{"n":1}',
      runId: whole,
    });
  });

  const wide = [
    task('before', { next: 'each' }),
    foreach('each', 'x', { next: 'after' }),
    task('x', { next: 'y' }),
    task('y'),
    task('after', { next: 'both' }),
    split('both', ['l', 'r']),
    task('l'),
    task('r'),
  ];

  test.each([
    ['before', ['after', 'before', 'l', 'r', 'x', 'x', 'y', 'y']],
    ['each', ['after', 'l', 'r', 'x', 'x', 'y', 'y']],
    ['x', ['after', 'l', 'r', 'x', 'x', 'y', 'y']],
    ['y', ['after', 'l', 'r', 'y', 'y']],
    ['after', ['after', 'l', 'r']],
    ['both', ['l', 'r']],
    ['l', ['l']],
  ])('that has blocks is done again from %s', async (from, wanted) => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, wide);
    const { id } = await start(ledger, graph, { items: ['p', 'q'] });
    await carryOn(ledger, graph, (job) => tell(job, 'one'));
    const before = await outputOf(ledger, id);
    const again = await revive(ledger, id, { from });
    expect(await ledger.check()).toEqual([]);
    const did: string[] = [];
    await carryOn(ledger, graph, (job) => {
      did.push(job.plugin);
      return tell(job, 'one');
    });
    expect(did.toSorted()).toEqual(wanted);
    expect(await findRun(ledger, again)).toMatchObject({ status: 'succeeded' });
    expect(await outputOf(ledger, again)).toEqual(before);
    expect((await stepsOf(ledger, again)).toSorted()).toEqual(
      (await stepsOf(ledger, id)).toSorted(),
    );
    expect(await ledger.check()).toEqual([]);
  });

  test('is repeated after several events, or from the task that emitted them', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      task('tell', { next: 'hear' }),
      task('hear', { next: 'note' }),
      task('note'),
    ]);
    const { id } = await start(ledger, graph, {});
    const conclude = (job: ClaimedJob): Closing =>
      job.plugin === 'tell' ? done(job, null, [{ n: 1 }, { n: 2 }]) : tell(job, 'one');
    await carryOn(ledger, graph, conclude);
    const before = await outputOf(ledger, id);
    const refusal = {
      code: 'STEP_AMBIGUOUS',
      error: expect.stringContaining('repeat the run from step tell') as string,
    };
    expect(await ledger.runs.findRetryFromRefusal(id, 'hear')).toMatchObject(refusal);
    const { code: errorCode, error } = refusal;
    expect(await ask(ledger, { of: id, from: 'hear' })).toMatchObject({ errorCode, error });
    expect(await ledger.runs.list({ limit: 9 })).toHaveLength(1);
    expect(await ledger.runs.findRetryFromRefusal(id, 'note')).toBeUndefined();
    const again = await revive(ledger, id, { from: 'note' });
    expect(await carryOn(ledger, graph, conclude)).toBe(2);
    expect(await outputOf(ledger, again)).toEqual(before);
    const third = await revive(ledger, again, { from: 'tell' });
    expect(await carryOn(ledger, graph, conclude)).toBe(5);
    expect(await outputOf(ledger, third)).toEqual(before);
  });

  test('that halted elsewhere too continues there as well', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      split('both', ['l', 'r'], { next: 'last' }),
      task('l'),
      task('r'),
      task('last'),
    ]);
    const { id } = await start(ledger, graph, {});
    await carryOn(ledger, graph, (job) => (job.plugin === 'r' ? fail(job) : tell(job, 'one')));
    const again = await revive(ledger, id, { from: 'l' });
    const did: string[] = [];
    await carryOn(ledger, graph, (job) => {
      did.push(job.plugin);
      return tell(job, 'two');
    });
    expect(did.toSorted()).toEqual(['l', 'last', 'r']);
    expect(await findRun(ledger, again)).toMatchObject({ status: 'succeeded' });
  });

  test('starts without the baggage of repeated steps', async () => {
    const { ledger } = await openBench(kind);
    const baggage = [{ to: ['said'], from: ['payload', 'result'] }];
    const graph = await define(ledger, [
      task('a', { next: 'b' }),
      task('b', { next: 'c', baggage }),
      task('c', { with: { said: ref('context.said') } }),
    ]);
    const { id } = await start(ledger, graph, {});
    await carryOn(ledger, graph, (job) => tell(job, 'one'));
    const again = await revive(ledger, id, { from: 'a' });
    const messages: unknown[] = [];
    await carryOn(ledger, graph, (job) => {
      if (job.plugin === 'c') messages.push((JSON.parse(job.payload) as { said: string }).said);
      return tell(job, 'two');
    });
    expect(await findRun(ledger, again)).toMatchObject({ status: 'succeeded' });
    expect(messages).toEqual(['a two']);
  });

  test('waits for approval again if that is the step', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [approve('ok')]);
    const { id } = await start(ledger, graph, {});
    await decide(ledger, id, 'ok', true);
    await advanceAll(ledger);
    expect(await findRun(ledger, id)).toMatchObject({ status: 'succeeded' });
    const again = await revive(ledger, id, { from: 'ok' });
    expect(await branchesOf(ledger, again)).toMatchObject([{ node: 'ok', payload: '{}' }]);
  });

  test('that has not ended, or has no such step, is left unchanged', async () => {
    const { ledger, dump } = await openBench(kind);
    const graph = await define(ledger, [...chain, task('never')]);
    const { id } = await start(ledger, graph, {});
    expect(await ask(ledger, { of: id, from: 'a' })).toMatchObject({ errorCode: 'RUN_OPEN' });
    await carryOn(ledger, graph);
    const { pipeline_runs: runs, run_branches: branches } = await dump();
    expect(await ask(ledger, { of: id, from: 'nope' })).toMatchObject({
      errorCode: 'STEP_NOT_FOUND',
    });
    expect(await ask(ledger, { of: id, from: 'never' })).toMatchObject({
      errorCode: 'STEP_NOT_FOUND',
      error: expect.stringContaining('never reached') as string,
    });
    expect(await dump()).toMatchObject({ pipeline_runs: runs, run_branches: branches });
  });
});
