/** The work of advancers: wide blocks, waits, signals, and steps whose settlement failed. */
import { describe, expect, test } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { RunDraft } from '../../src/pipeline/run/types.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { pluginSource } from '../../src/signal/signal.ts';
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
  stepsOf,
} from '../support/ledger/runs.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import {
  beat,
  crash,
  fail,
  settleOne,
  signalOf,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';

const LONG_AGO = '2020-01-01T00:00:00.000Z';
const wide = 2 * limits.advanceBatchMax + 7;

async function startWide(ledger: Ledger): Promise<{ graph: Graph; run: RunDraft }> {
  const each = foreach('each', 'a', { next: 'z', maxFanout: wide });
  const graph = await define(ledger, [each, task('a'), task('z')]);
  const run = await start(ledger, graph, { items: range(wide), much: 'x'.repeat(5000) });
  return { graph, run };
}

async function claimOne(
  ledger: Ledger,
  processId = 'p1',
): Promise<{ branchId: string; token: string }> {
  await ledger.processes.heartbeat(beat(processId));
  const token = makeToken();
  const { branchIds } = await ledger.runs.claimBranches({ processId, token, limit: 1 });
  return { branchId: only(branchIds), token };
}

describe.each(databases)('a wide block on %s', (kind) => {
  test('is begun in batches, and its outputs are joined in order', async () => {
    const { ledger } = await openBench(kind);
    const { graph, run } = await startWide(ledger);
    const answers = await advanceAll(ledger);
    expect(answers.map(({ verdict }) => verdict)).toEqual(['more', 'more', 'done']);
    const jobs = await claimSteps(ledger, graph, 2 * wide);
    expect(jobs).toHaveLength(wide);
    expect(new Set(jobs.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(wide);
    const [first] = jobs;
    expect(JSON.parse(await ledger.runs.readBasePayload(first?.baseKey ?? ''))).toMatchObject({
      much: 'x'.repeat(5000),
    });
    const byEnd = jobs.toReversed();
    await ledger.jobs.settle(byEnd.slice(0, 200).map((job) => done(job)));
    const { runEvents } = await ledger.jobs.settle(byEnd.slice(200).map((job) => done(job)));
    expect(runEvents).toMatchObject({ advancing: true, queued: false });
    await advanceAll(ledger);
    const z = only(await claimSteps(ledger, graph));
    const { each } = JSON.parse(z.payload) as { each: { index: number }[] };
    expect(each.map(({ index }) => index)).toEqual(range(wide));
    await ledger.jobs.settle([done(z)]);
    expect((await findRun(ledger, run.id)).status).toBe('succeeded');
  });

  test('continues where a dead process had stopped', async () => {
    const { ledger } = await openBench(kind);
    const { graph, run } = await startWide(ledger);
    const held = await claimOne(ledger, 'p1');
    expect((await ledger.runs.advance(held)).verdict).toBe('more');
    await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [] });
    expect((await ledger.runs.advance(held)).verdict).toBe('fenced');
    await advanceAll(ledger, 'p2');
    const root = only((await ledger.runs.listBranches({ runId: run.id, limit: 1 })).slice(0, 1));
    expect(root).toMatchObject({ status: 'waiting', cursor: wide, pending: wide });
    expect(await claimSteps(ledger, graph, 2 * wide)).toHaveLength(wide);
    const tries = await ledger.runs.listAdvancements(run.id, 10);
    expect(tries.map(({ processId, crashed }) => [processId, crashed])).toEqual([
      ['p2', false],
      ['p1', true],
    ]);
  });

  test('is released unchanged when its process shuts down', async () => {
    const { ledger } = await openBench(kind);
    const { run } = await startWide(ledger);
    const held = await claimOne(ledger, 'p1');
    await ledger.processes.leave('p1');
    expect((await ledger.runs.advance(held)).verdict).toBe('fenced');
    await ledger.runs.releaseBranch({ ...held, error: 'too late', triesMax: 1 });
    expect((await findRun(ledger, run.id)).status).toBe('running');
    const [attempt] = await ledger.runs.listAdvancements(run.id, 10);
    expect(attempt).toMatchObject({ crashed: false, error: null });
    await advanceAll(ledger, 'p2');
  });

  test.for(['dies', 'leaves', 'gives up'] as const)(
    'is lost with its own process alone, when another one %s',
    async (what) => {
      const { ledger } = await openBench(kind);
      await startWide(ledger);
      const { run: other } = await startWide(ledger);
      const lost = await claimOne(ledger, 'p1');
      const held = await claimOne(ledger, 'p2');
      expect(held.branchId).toBe(other.id);
      if (what === 'dies')
        await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [] });
      if (what === 'leaves') await ledger.processes.leave('p1');
      if (what === 'gives up')
        await ledger.runs.releaseBranch({ ...lost, error: 'no', triesMax: 9 });
      expect(await ledger.runs.listAdvancements(other.id, 10)).toMatchObject([
        { processId: 'p2', completedAt: null, crashed: false },
      ]);
      const [root] = await ledger.runs.listBranches({ runId: other.id, limit: 1 });
      expect(root).toMatchObject({ claimedBy: 'p2', crashes: 0 });
      expect((await ledger.runs.advance(lost)).verdict).toBe('fenced');
      expect((await ledger.runs.advance(held)).verdict).toBe('more');
    },
  );

  test('runs no more branches than its limit', async () => {
    const { ledger } = await openBench(kind);
    const each = foreach('each', 'a', { concurrency: 3 });
    const graph = await define(ledger, [each, task('a')]);
    const run = await start(ledger, graph, { items: range(10) });
    let [done3, most] = [0, 0];
    for (;;) {
      const jobs = await claimSteps(ledger, graph, 1);
      const { running } = await ledger.jobs.countQueue();
      const { ready } = await ledger.jobs.countQueue();
      most = Math.max(most, running + ready);
      const [job] = jobs;
      if (job === undefined) break;
      await ledger.jobs.settle([done3 === 5 ? fail(job) : done(job)]);
      done3 += 1;
    }
    expect({ done3, most }).toEqual({ done3: 10, most: 3 });
    expect((await findRun(ledger, run.id)).status).toBe('halted');
  });

  test('that is wider than its limit starts no branch', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'a', { maxFanout: 2 }), task('a')]);
    const run = await start(ledger, graph, { items: range(3) });
    expect(await findRun(ledger, run.id)).toMatchObject({ haltReason: 'fanout_limit' });
    expect(await branchesOf(ledger, run.id)).toHaveLength(1);
  });
});

describe.each(databases)('an advancement on %s', (kind) => {
  test('is not claimed by a process without a row in the ledger', async () => {
    const { ledger } = await openBench(kind);
    await startWide(ledger);
    const claim = { processId: 'nobody', token: makeToken(), limit: 5 };
    expect(await ledger.runs.claimBranches(claim)).toEqual({ branchIds: [], nextInMs: undefined });
  });

  test('is claimed once', async () => {
    const { ledger } = await openBench(kind);
    await startWide(ledger);
    await claimOne(ledger, 'p1');
    await ledger.processes.heartbeat(beat('p2'));
    const claim = { processId: 'p2', token: makeToken(), limit: 5 };
    expect((await ledger.runs.claimBranches(claim)).branchIds).toEqual([]);
  });

  test('is claimed by another process when its lease has expired', async () => {
    const { ledger, sql } = await openBench(kind);
    const { run } = await startWide(ledger);
    const lost = await claimOne(ledger, 'p1');
    await sql('update run_branches set due_at = ? where id = ?', [LONG_AGO, run.id]);
    const held = await claimOne(ledger, 'p1');
    expect(held.branchId).toBe(lost.branchId);
    expect((await ledger.runs.advance(lost)).verdict).toBe('fenced');
    expect((await ledger.runs.advance(held)).verdict).toBe('more');
    const tries = await ledger.runs.listAdvancements(run.id, 10);
    expect(tries.map(({ crashed }) => crashed)).toEqual([false, true]);
  });

  test('is released even if halting fails, too', async () => {
    const { ledger, sql } = await openBench(kind);
    const { run } = await startWide(ledger);
    const held = await claimOne(ledger);
    await sql("update run_branches set node = 'gone' where id = ?", [run.id]);
    const runEvents = await ledger.runs.releaseBranch({ ...held, error: 'no luck', triesMax: 1 });
    expect(runEvents).toMatchObject({ dueInMs: limits.advancementBackoffMs });
    const [root] = await ledger.runs.listBranches({ runId: run.id, limit: 1 });
    expect(root).toMatchObject({ status: 'advancing' });
  });

  test('that fails is tried again later, and halts its branch in the end', async () => {
    const { ledger, sql } = await openBench(kind);
    const { run } = await startWide(ledger);
    const first = await claimOne(ledger);
    const again = await ledger.runs.releaseBranch({ ...first, error: 'no luck', triesMax: 2 });
    expect(again.dueInMs).toBe(limits.advancementBackoffMs);
    const claim = { processId: 'p1', token: makeToken(), limit: 1 };
    const { branchIds, nextInMs } = await ledger.runs.claimBranches(claim);
    expect(branchIds).toEqual([]);
    expect(nextInMs).toBeGreaterThan(0);
    await sql('update run_branches set due_at = ?', [LONG_AGO]);
    const second = await claimOne(ledger);
    const [freed] = await ledger.runs.listBranches({ runId: run.id, limit: 1 });
    expect(freed).toMatchObject({ claimedBy: 'p1', tries: 1 });
    await ledger.runs.releaseBranch({ ...second, error: 'no luck', triesMax: 2 });
    expect(await findRun(ledger, run.id)).toMatchObject({
      status: 'halted',
      haltReason: 'advancement_retries_exhausted',
    });
    const tries = await ledger.runs.listAdvancements(run.id, 10);
    expect(tries.map(({ error }) => error)).toEqual(['no luck', 'no luck']);
  });

  test('halts its branch after too many process crashes', async () => {
    const { ledger, sql } = await openBench(kind);
    const { run } = await startWide(ledger);
    await sql('update run_branches set crashes = ?', [limits.crashesMax]);
    await advanceAll(ledger);
    expect(await findRun(ledger, run.id)).toMatchObject({
      haltReason: 'advancement_crashes_exhausted',
    });
  });

  test('continues a branch that the settle failed to advance', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    await sql('update run_branches set payload = ?', ['{']);
    const { runEvents, verdicts } = await ledger.jobs.settle([done(a, 'x')]);
    expect([...verdicts.values()]).toEqual(['settled']);
    expect(runEvents.advancing).toBe(true);
    expect(only(await branchesOf(ledger, run.id))).toMatchObject({ status: 'advancing' });
    expect((await ledger.jobs.find(a.id))?.status).toBe('succeeded');
    await sql('update run_branches set payload = ?', ['{}']);
    await advanceAll(ledger);
    expect(only(await claimSteps(ledger, graph)).payload).toBe('{"result":"x"}');
  });
});

describe.each(databases)('a run that waits on %s', (kind) => {
  test('continues when its time has come', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [wait('w', { delayMs: 60_000, next: 'a' }), task('a')]);
    const run = await start(ledger, graph, { n: 1 });
    expect(await stepsOf(ledger, run.id)).toEqual(['w waiting']);
    await ledger.processes.heartbeat(beat('p1'));
    const claim = { processId: 'p1', token: makeToken(), limit: 1 };
    const { branchIds, nextInMs } = await ledger.runs.claimBranches(claim);
    expect(branchIds).toEqual([]);
    expect(nextInMs).toBeGreaterThan(50_000);
    await sql('update run_branches set due_at = ?, deadline_at = ?', [LONG_AGO, LONG_AGO]);
    const answers = await advanceAll(ledger);
    expect(answers).toMatchObject([{ verdict: 'done', queued: true }]);
    expect(await stepsOf(ledger, run.id)).toEqual(['w succeeded']);
    expect(only(await claimSteps(ledger, graph)).payload).toBe('{"n":1}');
  });

  test('continues with the first signal that it waits for', async () => {
    const { ledger } = await openBench(kind);
    const when = { path: ['signal', 'n'], op: 'eq', value: 2 } as const;
    const signal = { type: 'paid', from: undefined, when };
    const graph = await define(ledger, [
      wait('w', { signal, timeoutMs: 60_000, next: 'a' }),
      task('a'),
    ]);
    const run = await start(ledger, graph);
    const tell = async (n: number, type = 'paid'): Promise<boolean> => {
      const job = await startOne(ledger, 'p1');
      const data = JSON.stringify({ n });
      const signals = [signalOf(job, 0, { type, data })];
      return (await ledger.jobs.settle([succeed(job, { signals })])).runEvents.advancing;
    };
    expect(await tell(2, 'other')).toBe(false);
    expect(await tell(1)).toBe(true);
    await advanceAll(ledger);
    const waiting = only(await branchesOf(ledger, run.id));
    expect(waiting).toMatchObject({ status: 'waiting', waitsFor: 'paid' });
    expect(waiting.dueAt).not.toBeNull();
    await tell(1);
    await tell(2);
    await advanceAll(ledger);
    const a = only(await claimSteps(ledger, graph));
    expect(JSON.parse(a.payload)).toEqual({ w: { n: 2 } });
    expect(await stepsOf(ledger, run.id)).toEqual(['w succeeded']);
  });

  test('continues with a signal of the plugin that it names', async () => {
    const { ledger } = await openBench(kind);
    const signal = { type: 'paid', from: 'p1', when: undefined };
    const graph = await define(ledger, [wait('w', { signal, next: 'a' }), task('a')]);
    await start(ledger, graph);
    for (const [n, source] of [pluginSource('p2'), pluginSource('p1')].entries()) {
      const job = await startOne(ledger, 'p1');
      const data = JSON.stringify({ n });
      await ledger.jobs.settle([
        succeed(job, { signals: [{ ...signalOf(job, 0, { type: 'paid', data }), source }] }),
      ]);
    }
    await advanceAll(ledger);
    expect(JSON.parse(only(await claimSteps(ledger, graph)).payload)).toEqual({ w: { n: 1 } });
  });

  test('halts when there is no decision in time', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [approve('ok', { timeoutMs: 60_000 })]);
    const run = await start(ledger, graph);
    await sql('update run_branches set due_at = ?, deadline_at = ?', [LONG_AGO, LONG_AGO]);
    await advanceAll(ledger);
    expect(await findRun(ledger, run.id)).toMatchObject({ haltReason: 'timeout' });
    expect(await stepsOf(ledger, run.id)).toEqual(['ok failed']);
  });

  test('for others of its concurrency key starts in order when the limit allows it', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const concurrency = { key: 'k', limit: 2 };
    const runs: RunDraft[] = [];
    for (const n of range(4)) runs.push(await start(ledger, graph, { n }, { concurrency }));
    const other = await start(ledger, graph, {}, { concurrency: { key: 'other', limit: 1 } });
    const statuses = async (): Promise<string[]> =>
      Promise.all(runs.map(async ({ id }) => (await findRun(ledger, id)).status));
    expect(await statuses()).toEqual(['queued', 'queued', 'queued', 'queued']);
    await advanceAll(ledger);
    expect(await statuses()).toEqual(['running', 'running', 'queued', 'queued']);
    expect((await findRun(ledger, other.id)).status).toBe('running');
    const jobs = await claimSteps(ledger, graph);
    const second = only(jobs.filter(({ runId }) => runId === runs[1]?.id));
    expect((await ledger.jobs.settle([done(second)])).runEvents.advancing).toBe(true);
    await advanceAll(ledger);
    expect(await statuses()).toEqual(['running', 'succeeded', 'running', 'queued']);
  });
});

describe.each(databases)('an ended run on %s', (kind) => {
  test('is pruned whole, with its definition', async () => {
    const { ledger, sql, dump } = await openBench(kind);
    const nodes = [split('both', ['l', 'r']), task('l'), task('r')];
    const graph = await define(ledger, nodes);
    const [old, young, open] = [
      await start(ledger, graph),
      await start(ledger, graph),
      await start(ledger, graph),
    ];
    await carryOn(ledger, graph, (job) => (job.runId === open.id ? crash(job, true) : done(job)));
    await sql('update pipeline_runs set completed_at = ? where id = ?', [LONG_AGO, old.id]);
    expect(await ledger.history.prune({ what: 'runs', olderThanMs: 60_000, limit: 2 })).toBe(2);
    expect(await ledger.runs.find(old.id)).toBeDefined();
    await ledger.history.prune({ what: 'runs', olderThanMs: 60_000, limit: 100 });
    expect(await ledger.runs.find(old.id)).toBeUndefined();
    const left = await dump();
    const ofOld = [...left.run_branches, ...left.run_steps].filter(
      (row) => row['run_id'] === old.id,
    );
    expect(ofOld).toEqual([]);
    expect(await branchesOf(ledger, young.id)).toHaveLength(3);
    await sql('update pipeline_definitions set last_used_at = ?', [LONG_AGO]);
    expect(await ledger.history.prune({ what: 'definitions', olderThanMs: 1, limit: 10 })).toBe(0);
    await sql("update job_queue set completed_at = ? where status = 'succeeded'", [LONG_AGO]);
    await ledger.history.prune({ what: 'jobs', olderThanMs: 60_000, limit: 100 });
    // The definitions of runs that still exist.
    expect(await ledger.jobs.list({ limit: 100 })).toHaveLength(4);
  });

  test('is not advanced by a job that ends late', async () => {
    const { ledger, sql, dump } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    const now = await ledger.now();
    await sql("update pipeline_runs set status = 'cancelled', completed_at = ?", [now]);
    await sql("update run_branches set status = 'cancelled', completed_at = ?", [now]);
    const { run_branches: before } = await dump();
    expect(await settleOne(ledger, done(a))).toBe('settled');
    expect((await dump()).run_branches).toEqual(before);
    expect(await claimSteps(ledger, graph)).toEqual([]);
    expect((await findRun(ledger, run.id)).status).toBe('cancelled');
    expect(await outputOf(ledger, run.id)).toBeNull();
  });
});
