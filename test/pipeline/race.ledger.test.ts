/** Two hosts that advance the same run at the same moment. */
import pg from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import { foreach, split, task } from './graphs.ts';
import { openMeeting, runTogether } from '../support/ledger/barrier.ts';
import {
  advanceAll,
  claimSteps,
  define,
  done,
  findRun,
  outputOf,
  start,
} from '../support/ledger/runs.ts';
import { only, range } from '../support/ledger/bench.ts';
import { beat, fail } from '../support/ledger/drafts.ts';

const both = [split('both', ['l', 'r'], { next: 'z' }), task('l'), task('r'), task('z')];

describe('siblings that end at the same moment on two hosts', () => {
  /** Both run, and their parent is locked until the barrier is lifted. */
  async function meetAtJoin() {
    const met = await openMeeting();
    const graph = await define(met.ledger, both);
    const run = await start(met.ledger, graph);
    const [l, r] = await claimSteps(met.ledger, graph);
    if (l === undefined || r === undefined) throw new Error('two jobs were expected');
    await met.barrier.hold('select 1 from run_branches where id = $1 for update', [run.id]);
    return { ...met, graph, run, l, r };
  }

  test('have one continuation', async () => {
    const { ledger, other, barrier, graph, run, l, r } = await meetAtJoin();
    const [one, two] = await runTogether(
      barrier,
      () => ledger.jobs.settle([done(l, 1)]),
      () => other.jobs.settle([done(r, 2)]),
    );
    expect([one, two].filter(({ runEvents }) => runEvents.queued)).toHaveLength(1);
    const z = only(await claimSteps(ledger, graph));
    expect(JSON.parse(z.payload)).toEqual({ both: { l: { result: 1 }, r: { result: 2 } } });
    await ledger.jobs.settle([done(z)]);
    expect((await findRun(ledger, run.id)).status).toBe('succeeded');
  });

  test('end their run once, even if one of them halts', async () => {
    const { ledger, other, barrier, run, l, r } = await meetAtJoin();
    await runTogether(
      barrier,
      () => ledger.jobs.settle([fail(l)]),
      () => other.jobs.settle([done(r)]),
    );
    expect((await findRun(ledger, run.id)).status).toBe('halted');
    expect(await ledger.signals.list({ type: 'run.halted', limit: 10 })).toHaveLength(1);
  });

  test('in two blocks do not deadlock', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    const runs = [
      await start(ledger, graph, { items: [1, 2] }),
      await start(ledger, graph, { items: [1, 2] }),
    ];
    const jobs = await claimSteps(ledger, graph);
    const [a1, a2, b1, b2] = jobs;
    if (a1 === undefined || a2 === undefined || b1 === undefined || b2 === undefined) {
      throw new Error('four jobs were expected');
    }
    const ids = runs.map(({ id }) => id);
    await barrier.hold('select 1 from run_branches where id = any($1) for update', [ids]);
    const query = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => query.mockRestore());
    await runTogether(
      barrier,
      () => ledger.jobs.settle([done(a1), done(b1)]),
      () => other.jobs.settle([done(b2), done(a2)]),
    );
    // No transaction was rolled back, so none was repeated.
    expect(query.mock.calls.filter(([text]) => text === 'rollback')).toHaveLength(1);
    for (const id of ids) expect((await findRun(ledger, id)).status).toBe('succeeded');
  });
});

describe('advancers on two hosts', () => {
  test('claim a branch once', async () => {
    const { ledger, other } = await openMeeting();
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    for (const n of range(20)) await start(ledger, graph, { items: range(150), n });
    await ledger.processes.heartbeat(beat('p1'));
    await ledger.processes.heartbeat(beat('p2'));
    const claims = await Promise.all(
      range(20).map((n) =>
        (n % 2 === 0 ? ledger : other).runs.claimBranches({
          processId: n % 2 === 0 ? 'p1' : 'p2',
          token: makeToken(),
          limit: 2,
        }),
      ),
    );
    const ids = claims.flatMap(({ branchIds }) => branchIds);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toHaveLength(20);
  });

  test('start no more runs of a key than its limit', async () => {
    const { ledger, other } = await openMeeting();
    const graph = await define(ledger, [task('a')]);
    const concurrency = { key: 'k', limit: 3 };
    for (const n of range(9)) await start(ledger, graph, { n }, { concurrency });
    await Promise.all([
      advanceAll(ledger, 'p1'),
      advanceAll(other, 'p2'),
      advanceAll(ledger, 'p1'),
    ]);
    expect(await ledger.runs.list({ status: ['running'], limit: 100 })).toHaveLength(3);
  });

  test('have one that continues when the other was presumed dead', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    const run = await start(ledger, graph, { items: range(150) });
    await ledger.processes.heartbeat(beat('p1'));
    const token = makeToken();
    const [branchId = ''] = (await ledger.runs.claimBranches({ processId: 'p1', token, limit: 1 }))
      .branchIds;
    await barrier.hold('select 1 from run_branches where id = $1 for update', [run.id]);
    const reaping = other.processes.reap({ processId: 'p1', staleMs: 0, closings: [] });
    await barrier.untilWaiting(1);
    const advancing = ledger.runs.advance({ branchId, token });
    await barrier.untilWaiting(2);
    await barrier.lift();
    await reaping;
    expect((await advancing).verdict).toBe('fenced');
    await advanceAll(other, 'p2');
    const jobs = await claimSteps(other, graph, 1000, 'p2');
    expect(jobs).toHaveLength(150);
    await other.jobs.settle(jobs.map((job) => done(job)));
    await advanceAll(other, 'p2');
    expect(await outputOf(ledger, run.id)).toMatchObject({ each: range(150).map(() => ({})) });
  });
});

describe('a run that is cancelled', () => {
  test('while a job of it ends gets no further job', async () => {
    const { ledger, barrier } = await openMeeting();
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    const now = await ledger.now();
    const cancelRun = `update pipeline_runs set status = 'cancelled', completed_at = $2 where id = $1`;
    const cancelRoot = `update run_branches set status = 'cancelled', completed_at = $2 where id = $1`;
    await barrier.hold(cancelRun, [run.id, now]);
    await barrier.hold(cancelRoot, [run.id, now]);
    const settling = ledger.jobs.settle([done(a)]);
    await barrier.untilWaiting(1);
    await barrier.lift('commit');
    expect((await settling).verdicts.get(a.id)).toBe('settled');
    expect(await ledger.jobs.list({ status: ['queued'], limit: 10 })).toEqual([]);
  });
});
