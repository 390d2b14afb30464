/** Jobs with the same dependency key run one at a time, in the order of arrival. */
import { describe, expect, test } from 'vitest';
import type { JobDraft } from '../../src/job/job.ts';
import { ref, task } from '../pipeline/graphs.ts';
import { openMeeting, runTogether } from '../support/ledger/barrier.ts';
import { claimSteps, define, done, start } from '../support/ledger/runs.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import {
  beat,
  closeUnrunnable,
  claimable,
  claimAs,
  crash,
  draft,
  endAsCancelled,
  fail,
  lenient,
  release,
  request,
  retryLater,
  settleOne,
  succeed,
} from '../support/ledger/drafts.ts';

const plugins = ['a', 'b', 'c'].map((name) => claimable(name));

function waitingFor(key: string, given: Partial<JobDraft> = {}): JobDraft {
  return draft({ plugin: 'a', dependencyKey: key, ...given });
}

function idsOf(jobs: readonly { readonly id: string }[]): string[] {
  return jobs.map(({ id }) => id);
}

describe.each(databases)('jobs with a dependency key on %s', (kind) => {
  test('run one at a time, whatever their plugins, as they came', async () => {
    const { ledger, open } = await openBench(kind);
    const other = await open();
    const jobs = ['a', 'b', 'a', 'c'].map((plugin) => waitingFor('k', { plugin }));
    await ledger.jobs.enqueue({ jobs });
    const order: string[] = [];
    for (const [index, on] of [ledger, other, ledger, other].entries()) {
      const job = only(await claimAs(on, `p${index % 2}`, { plugins }));
      expect(job.dependencyKey).toBe('k');
      expect(await claimAs(other, 'p1', { plugins })).toEqual([]);
      expect(await claimAs(ledger, 'p0', { plugins })).toEqual([]);
      order.push(job.id);
      await settleOne(on, succeed(job));
    }
    expect(order).toEqual(idsOf(jobs));
  });

  test('may be steps of runs, beside jobs that are none', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [
      task('a', { dependency: ref('payload.repo'), next: 'b' }),
      task('b'),
    ]);
    for (const repo of ['k', 'k', 'l']) await start(ledger, graph, { repo });
    const single = waitingFor('k', { plugin: 'b' });
    await ledger.jobs.enqueue({ jobs: [single] });
    const [first, other, ...more] = await claimSteps(ledger, graph);
    expect([first?.dependencyKey, other?.dependencyKey, more]).toEqual(['k', 'l', []]);
    if (first === undefined) throw new Error('nothing was claimed');
    await ledger.jobs.settle([done(first)]);
    const [second, step] = await claimSteps(ledger, graph);
    expect(second).toMatchObject({ plugin: 'a', dependencyKey: 'k' });
    expect(step).toMatchObject({ plugin: 'b', dependencyKey: null, runId: first.runId });
    if (second === undefined) throw new Error('nothing was claimed');
    await ledger.jobs.settle([retryLater(second)]);
    expect(idsOf(await claimSteps(ledger, graph))).toEqual([single.id]);
  });

  test('leave those of other keys and those without one alone', async () => {
    const { ledger } = await openBench(kind);
    const [first, second, third] = [waitingFor('k'), waitingFor('k'), waitingFor('l')];
    const [plain, keyless] = [draft({ plugin: 'a' }), draft({ plugin: 'b' })];
    await ledger.jobs.enqueue({ jobs: [first, second, third, plain, keyless] });
    const claimed = await claimAs(ledger, 'p1', { plugins });
    expect(idsOf(claimed)).toEqual(idsOf([first, third, plain, keyless]));
  });

  test('stand among the others of their plugin as they came', async () => {
    const { ledger } = await openBench(kind);
    const jobs = range(9).map((index) =>
      index % 3 === 0 ? draft({ plugin: 'a' }) : waitingFor(`k${index}`),
    );
    await ledger.jobs.enqueue({ jobs });
    const few = [claimable('a', { parallelism: 4 })];
    expect(idsOf(await claimAs(ledger, 'p1', { plugins: few }))).toEqual(idsOf(jobs.slice(0, 4)));
  });

  test('pass the key on in the commit that settles its holder', async () => {
    const { ledger } = await openBench(kind);
    const jobs = range(2).map(() => waitingFor('k'));
    await ledger.jobs.enqueue({ jobs });
    const first = only(await claimAs(ledger, 'p1', { plugins }));
    const { claimed } = await ledger.jobs.settle([succeed(first)], request('p1', { plugins }));
    expect(idsOf(claimed)).toEqual([jobs[1]?.id]);
  });

  test('in a plugin with one slot take it when it is free, and wait while it is not', async () => {
    const { ledger } = await openBench(kind);
    const narrow = { plugins: [claimable('a', { parallelism: 1 })] };
    const jobs = ['k', 'l'].map((key) => waitingFor(key));
    await ledger.jobs.enqueue({ jobs });
    const first = only(await claimAs(ledger, 'p1', narrow));
    expect(first.id).toBe(jobs[0]?.id);
    expect(await claimAs(ledger, 'p1', narrow)).toEqual([]);
    const { claimed } = await ledger.jobs.settle([succeed(first)], request('p1', narrow));
    expect(only(claimed).id).toBe(jobs[1]?.id);
  });

  test.each([
    ['fails', fail],
    ['waits for its retry', retryLater],
    ['is given back', release],
    ['was lost with its process', crash],
    ['is cancelled', endAsCancelled],
  ] as const)('free the key when the holder %s', async (_, end) => {
    const { ledger, sql } = await openBench(kind);
    const [first, second] = [waitingFor('k'), waitingFor('k')];
    await ledger.jobs.enqueue({ jobs: [first] });
    const held = only(await claimAs(ledger, 'p1', { plugins }));
    await ledger.jobs.enqueue({ jobs: [second] });
    // All of this may happen within one millisecond, and then neither has waited for longer.
    await sql(
      `update job_queue set ready_at = '2000-01-01T00:00:00.000Z' where id = '${second.id}'`,
    );
    if (end === endAsCancelled) expect(await ledger.jobs.cancel(first.id)).toBe('requested');
    expect(await claimAs(ledger, 'p1', { plugins })).toEqual([]);
    await settleOne(ledger, end(held));
    expect(idsOf(await claimAs(ledger, 'p1', { plugins }))).toEqual([second.id]);
  });

  test('take their turn by when they are due, not by when they were asked for', async () => {
    const { ledger, sql } = await openBench(kind);
    const later = waitingFor('k', { due: { inMs: 60_000 } });
    const sooner = waitingFor('k', { due: { inMs: 30_000 } });
    await ledger.jobs.enqueue({ jobs: [later, sooner] });
    await sql(`update job_queue set next_retry_at = '2000-01-01T00:00:00.000Z'`);
    await ledger.jobs.promote();
    const first = only(await claimAs(ledger, 'p1', { plugins }));
    expect(first.id).toBe(sooner.id);
    const { claimed } = await ledger.jobs.settle([succeed(first)], request('p1', { plugins }));
    expect(idsOf(claimed)).toEqual([later.id]);
  });

  test('are free of those that are cancelled while they wait', async () => {
    const { ledger } = await openBench(kind);
    const jobs = range(3).map(() => waitingFor('k'));
    await ledger.jobs.enqueue({ jobs });
    const [first, second, third] = jobs.map(({ id }) => id);
    expect(await ledger.jobs.cancel(first ?? '')).toBe('cancelled');
    const held = only(await claimAs(ledger, 'p1', { plugins }));
    expect(held.id).toBe(second);
    expect(await ledger.jobs.cancel(third ?? '')).toBe('cancelled');
    await settleOne(ledger, succeed(held));
    expect(await claimAs(ledger, 'p1', { plugins })).toEqual([]);
  });

  test('keep their places while they cannot start', async () => {
    const { ledger } = await openBench(kind);
    const [full, first, second] = [
      draft({ plugin: 'a' }),
      waitingFor('k'),
      waitingFor('k', { plugin: 'b' }),
    ];
    await ledger.jobs.enqueue({ jobs: [full, first, second] });
    const few = [claimable('a', { parallelism: 1 }), claimable('b')];
    const held = only(await claimAs(ledger, 'p1', { plugins: few }));
    expect(held.id).toBe(full.id);
    await settleOne(ledger, succeed(held));
    expect(idsOf(await claimAs(ledger, 'p1', { plugins: few }))).toEqual([first.id]);
  });

  test('wait with their plugin until it is well', async () => {
    const { ledger } = await openBench(kind);
    const held = claimable('a', { init: { fingerprint: 'f', isHeld: true } });
    const [check, keyed] = [draft({ plugin: 'a', command: 'health' }), waitingFor('k')];
    await ledger.jobs.enqueue({ jobs: [keyed, check] });
    expect(idsOf(await claimAs(ledger, 'p1', { plugins: [held] }))).toEqual([check.id]);
    const well = claimable('a', { init: { fingerprint: 'f', isHeld: false } });
    expect(idsOf(await claimAs(ledger, 'p1', { plugins: [well] }))).toEqual([keyed.id]);
  });

  test('do not wait for one whose plugin is switched off, and let it go first later', async () => {
    const { ledger, sql } = await openBench(kind);
    const jobs = ['b', 'a', 'a'].map((plugin) => waitingFor('k', { plugin }));
    await ledger.jobs.enqueue({ jobs });
    const [off, first, second] = idsOf(jobs);
    await sql(`insert into plugin_switches values ('b', 0, 'ann', '2026-01-01T00:00:00.000Z')`);
    const on = [claimable('a')];
    expect(await ledger.jobs.findDependencyHolder('k')).toEqual({ id: first, isRunning: false });
    const held = only(await claimAs(ledger, 'p1', { plugins: on }));
    expect(held.id).toBe(first);
    await sql(`update plugin_switches set enabled = 1`);
    const { claimed } = await ledger.jobs.settle([succeed(held)], request('p1', { plugins }));
    expect(idsOf(claimed)).toEqual([off]);
    await settleOne(ledger, succeed(only(claimed)));
    expect(idsOf(await claimAs(ledger, 'p1', { plugins }))).toEqual([second]);
  });

  test('do not wait for one whose plugin could not be set up', async () => {
    const { ledger, sql } = await openBench(kind);
    const [ill, next] = [waitingFor('k', { plugin: 'b' }), waitingFor('k')];
    await ledger.jobs.enqueue({ jobs: [ill, next] });
    await sql(`insert into plugin_health
      (plugin_name, kind, fingerprint, status, job_id, updated_at, seen_at)
      values ('b', 'init', 'f', 'pending', 'job', '2026-01-01', '2026-01-01')`);
    const b = claimable('b', { init: { fingerprint: 'f', isHeld: true } });
    const known = [claimable('a'), b];
    expect(await claimAs(ledger, 'p1', { plugins: known })).toEqual([]);
    await sql(`update plugin_health set status = 'unhealthy'`);
    const held = only(await claimAs(ledger, 'p1', { plugins: known }));
    expect(held.id).toBe(next.id);
    await sql(`insert into plugin_health
      (plugin_name, kind, fingerprint, status, job_id, updated_at, seen_at)
      values ('b', 'init', 'g', 'healthy', 'job', '2026-01-02', '2026-01-02')`);
    const { claimed } = await ledger.jobs.settle([succeed(held)], request('p1', { plugins }));
    expect(idsOf(claimed)).toEqual([ill.id]);
  });

  test('may have a dedupe key as well', async () => {
    const { ledger } = await openBench(kind);
    const [first, second] = range(2).map((index) =>
      waitingFor(`k${index}`, { dedupe: lenient('once') }),
    );
    await ledger.jobs.enqueue({ jobs: [first, second].flatMap((job) => job ?? []) });
    expect(idsOf(await claimAs(ledger, 'p1', { plugins }))).toEqual([first?.id]);
    expect(await claimAs(ledger, 'p1', { plugins })).toEqual([]);
  });

  test('end with their plugin, and are counted like any other', async () => {
    const { ledger, sql } = await openBench(kind);
    const [lost, next] = [waitingFor('k', { plugin: 'gone' }), waitingFor('k')];
    await ledger.jobs.enqueue({ jobs: [lost, next] });
    await sql(`update job_queue set ready_at = '2000-01-01T00:00:00.000Z' where id = ?`, [lost.id]);
    expect(await ledger.jobs.countQueue()).toMatchObject({
      ready: 2,
      oldestReadyAt: '2000-01-01T00:00:00.000Z',
    });
    await ledger.processes.heartbeat(beat('p1', { plugins: ['a'] }));
    const [unrunnable] = await ledger.jobs.listUnrunnable({
      graceMs: 0,
      staleMs: 60_000,
      limit: 5,
    });
    expect(unrunnable?.id).toBe(lost.id);
    expect(await claimAs(ledger, 'p1', { plugins })).toEqual([]);
    if (unrunnable !== undefined) await settleOne(ledger, closeUnrunnable(unrunnable));
    expect(idsOf(await claimAs(ledger, 'p1', { plugins }))).toEqual([next.id]);
  });

  test('report the current or next holder of the key', async () => {
    const { ledger } = await openBench(kind);
    const jobs = range(2).map(() => waitingFor('k'));
    expect(await ledger.jobs.findDependencyHolder('k')).toBeUndefined();
    await ledger.jobs.enqueue({ jobs });
    const [first, second] = idsOf(jobs);
    expect(await ledger.jobs.findDependencyHolder('k')).toEqual({ id: first, isRunning: false });
    const held = only(await claimAs(ledger, 'p1', { plugins }));
    expect(await ledger.jobs.findDependencyHolder('k')).toEqual({ id: first, isRunning: true });
    await settleOne(ledger, retryLater(held));
    expect(await ledger.jobs.findDependencyHolder('k')).toEqual({ id: second, isRunning: false });
  });

  test('never run twice at once, whatever is written past the claim', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(2).map(() => waitingFor('k')) });
    await claimAs(ledger, 'p1', { plugins });
    const force = async () =>
      await sql(
        `update job_queue set status = 'running', claim_token = 't' where status = 'queued'`,
      );
    await expect(force()).rejects.toThrow(/unique/i);
  });
});

describe('two hosts', () => {
  test('that claim at once: one has the key', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const jobs = range(4).map((index) => waitingFor('k', { plugin: index % 2 === 0 ? 'a' : 'b' }));
    await ledger.jobs.enqueue({ jobs });
    await Promise.all([
      ledger.processes.heartbeat(beat('p1')),
      other.processes.heartbeat(beat('p2')),
    ]);
    await barrier.holdClaims();
    const claimed = await runTogether(
      barrier,
      () => ledger.jobs.claim(request('p1', { plugins: plugins.slice(0, 1) })),
      () => other.jobs.claim(request('p2', { plugins })),
    );
    expect(idsOf(claimed.flat())).toEqual([jobs[0]?.id]);
  });

  test('the key is never lost if one settles while the other claims', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const jobs = range(2).map(() => waitingFor('k'));
    await ledger.jobs.enqueue({ jobs });
    const held = only(await claimAs(ledger, 'p1', { plugins }));
    await other.processes.heartbeat(beat('p2'));
    await barrier.holdClaims();
    const [settled, claimed] = await runTogether(
      barrier,
      () => ledger.jobs.settle([succeed(held)], request('p1', { plugins })),
      () => other.jobs.claim(request('p2', { plugins })),
    );
    expect(idsOf([...settled.claimed, ...claimed])).toEqual([jobs[1]?.id]);
  });

  test('the key is never lost if one cancels the first in the queue while the other claims', async () => {
    const { ledger, other, barrier, sql } = await openMeeting();
    const jobs = range(2).map(() => waitingFor('k'));
    await ledger.jobs.enqueue({ jobs });
    await other.processes.heartbeat(beat('p2'));
    await barrier.hold('select 1 from job_queue where id = $1 for update', [jobs[0]?.id]);
    expect(await other.jobs.claim(request('p2', { plugins }))).toEqual([]);
    await barrier.lift();
    expect(idsOf(await other.jobs.claim(request('p2', { plugins })))).toEqual([jobs[0]?.id]);
    expect(await sql(`select id from job_queue where status = 'running'`)).toHaveLength(1);
  });
});
