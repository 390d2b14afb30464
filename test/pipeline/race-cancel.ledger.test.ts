/** Concurrent changes of a run while it advances, from two connections. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import { describe, expect, test } from 'vitest';
import { task } from './graphs.ts';
import { openMeeting, runTogether } from '../support/ledger/barrier.ts';
import { ask, codesOf, direct } from '../support/ledger/run-directives.ts';
import { carryOn, claimSteps, define, done, findRun, start } from '../support/ledger/runs.ts';
import { only } from '../support/ledger/bench.ts';
import { fail } from '../support/ledger/drafts.ts';

const nodes = [task('a', { next: 'b' }), task('b')];

describe('a run that is cancelled while its job ends', () => {
  test('after the end: the next job exists and never starts', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const graph = await define(ledger, nodes);
    const { id } = await start(ledger, graph);
    const job = only(await claimSteps(ledger, graph));
    await barrier.hold('select 1 from pipeline_runs for update');
    const [settled] = await runTogether(
      barrier,
      () => ledger.jobs.settle([done(job)]),
      () => direct(other, id, (tx) => cancelRun(tx, id)),
    );
    expect(settled.verdicts.get(job.id)).toBe('settled');
    expect(await findRun(ledger, id)).toMatchObject({ status: 'cancelled' });
    const jobs = await ledger.jobs.list({ limit: 9, order: 'oldest' });
    expect(jobs.map(({ plugin, status }) => [plugin, status])).toEqual([
      ['a', 'succeeded'],
      ['b', 'cancelled'],
    ]);
    expect(await carryOn(ledger, graph)).toBe(0);
  });

  test('before the end: no job follows', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const graph = await define(ledger, nodes);
    const { id } = await start(ledger, graph);
    const job = only(await claimSteps(ledger, graph));
    await barrier.hold('select 1 from pipeline_runs for update');
    await runTogether(
      barrier,
      () => direct(other, id, (tx) => cancelRun(tx, id)),
      () => ledger.jobs.settle([done(job)]),
    );
    expect(await findRun(ledger, id)).toMatchObject({ status: 'cancelled' });
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(1);
    expect(await carryOn(ledger, graph)).toBe(0);
  });
});

test('two concurrent revivals of one run: one wins and the other learns of it', async () => {
  const { ledger, other, barrier } = await openMeeting();
  const graph = await define(ledger, nodes);
  const { id } = await start(ledger, graph);
  await carryOn(ledger, graph, fail);
  await barrier.hold(`select 1 from ledger_meta where key = 'epoch' for update`);
  const answers = await runTogether(
    barrier,
    () => ask(ledger, { of: id }),
    () => ask(other, { of: id, from: 'a' }),
  );
  expect(codesOf(answers)).toEqual(['', 'RUN_REVIVED']);
  expect(await carryOn(ledger, graph)).toBe(2);
});
