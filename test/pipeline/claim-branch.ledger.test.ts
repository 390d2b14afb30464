/** The claim of a branch: its holder, its deadline, and its record. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import { describe, expect, test } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { RunDraft } from '../../src/pipeline/run/types.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { foreach, task, wait } from './graphs.ts';
import { direct } from '../support/ledger/run-directives.ts';
import { advanceAll, claimSteps, define, findRun, start, stepsOf } from '../support/ledger/runs.ts';
import { databases, only, openBench, range, type Bench } from '../support/ledger/bench.ts';
import { beat, signalOf, startOne, succeed } from '../support/ledger/drafts.ts';

const LONG_AGO = '2020-01-01T00:00:00.000Z';

/** A block for an advancer, which needs two batches. */
async function startBlock(ledger: Ledger): Promise<{ graph: Graph; run: RunDraft }> {
  const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
  return { graph, run: await start(ledger, graph, { items: range(limits.advanceBatchMax + 1) }) };
}

/** Runs `look` while the run is marked as ended, whatever the state of its branches. */
async function whileOver({ sql }: Bench, runId: string, look: () => Promise<void>): Promise<void> {
  const change = 'update pipeline_runs set status = ?, completed_at = ? where id = ?';
  await sql(change, ['succeeded', LONG_AGO, runId]);
  await look();
  await sql(change, ['running', null, runId]);
}

async function claim(ledger: Ledger, processId = 'p1', limit = 1) {
  await ledger.processes.heartbeat(beat(processId));
  const token = makeToken();
  return { token, ...(await ledger.runs.claimBranches({ processId, token, limit })) };
}

/** The row of a branch, with its internal columns. */
async function rootOf({ sql }: Bench, runId: string) {
  return only(await sql('select * from run_branches where id = ?', [runId]));
}

describe.each(databases)('the claim of a branch on %s', (kind) => {
  test('needs a known process and a free slot', async () => {
    const { ledger } = await openBench(kind);
    await startBlock(ledger);
    await ledger.processes.heartbeat(beat('p1'));
    const nothing = { branchIds: [], nextInMs: undefined };
    const stranger = { processId: 'p2', token: makeToken(), limit: 1 };
    expect(await ledger.runs.claimBranches(stranger)).toEqual(nothing);
    expect(await ledger.runs.claimBranches({ ...stranger, processId: 'p1', limit: 0 })).toEqual(
      nothing,
    );
  });

  test('leaves branches above the limit, which are due now', async () => {
    const { ledger } = await openBench(kind);
    const { run } = await startBlock(ledger);
    await startBlock(ledger);
    expect(await claim(ledger)).toMatchObject({ branchIds: [run.id], nextInMs: 0 });
  });

  test('includes only branches of running runs', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const { run } = await startBlock(ledger);
    await whileOver(bench, run.id, async () => {
      expect(await claim(ledger)).toMatchObject({ branchIds: [], nextInMs: undefined });
    });
  });

  test('ends with the advancement, and leaves nothing in the row', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const { run } = await startBlock(ledger);
    await bench.sql('update run_branches set tries = 3, crashes = 2');
    const { branchIds, token } = await claim(ledger);
    const held = { branchId: only(branchIds), token };
    expect(await ledger.runs.advance(held)).toMatchObject({ verdict: 'more', queued: true });
    expect(await ledger.runs.advance(held)).toMatchObject({ verdict: 'done', queued: true });
    expect(await rootOf(bench, run.id)).toMatchObject({
      status: 'waiting',
      claim_token: null,
      claimed_by: null,
      due_at: null,
      tries: 0,
      crashes: 0,
    });
    const [move] = await ledger.runs.listAdvancements(run.id, 10);
    expect(move).toMatchObject({ error: null, crashed: false });
    expect(move?.completedAt).not.toBeNull();
  });

  test('is released without an advancement if the run has ended meanwhile', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const [{ graph, run }, other] = [await startBlock(ledger), await startBlock(ledger)];
    const { branchIds, token } = await claim(ledger, 'p1', 2);
    expect(branchIds).toHaveLength(2);
    await whileOver(bench, run.id, async () => {
      const answer = await ledger.runs.advance({ branchId: run.id, token });
      expect(answer).toMatchObject({ verdict: 'done', queued: false });
    });
    expect(await rootOf(bench, run.id)).toMatchObject({ claim_token: null, claimed_by: null });
    expect(await rootOf(bench, other.run.id)).toMatchObject({ claim_token: token });
    expect(await claimSteps(ledger, graph)).toEqual([]);
  });

  test('is due again after a release, later each time', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const { run } = await startBlock(ledger);
    const delays: unknown[] = [];
    for (const tries of [1, 2, 3, 20, 30]) {
      await bench.sql('update run_branches set due_at = ?, tries = ?', [LONG_AGO, tries - 1]);
      const { branchIds, token } = await claim(ledger);
      const failure = { branchId: only(branchIds), token, error: 'no luck', triesMax: 99 };
      delays.push((await ledger.runs.releaseBranch(failure)).dueInMs);
      expect(await rootOf(bench, run.id)).toMatchObject({ claim_token: null, claimed_by: null });
    }
    const longest = 2 ** 12;
    const expected = [1, 2, 4, longest, longest];
    expect(delays).toEqual(expected.map((times) => times * limits.advancementBackoffMs));
  });

  test.for(['dies', 'leaves'] as const)(
    'is free again when its process %s, and earlier moves are reported as they were',
    async (how) => {
      const bench = await openBench(kind);
      const { ledger } = bench;
      const { run } = await startBlock(ledger);
      const { branchIds, token } = await claim(ledger, 'p0');
      const failure = { branchId: only(branchIds), token, error: 'no luck', triesMax: 9 };
      await ledger.runs.releaseBranch(failure);
      await bench.sql('update run_advancements set completed_at = ?', [LONG_AGO]);
      await bench.sql('update run_branches set due_at = ?', [LONG_AGO]);
      await claim(ledger, 'p1');
      if (how === 'dies')
        await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [] });
      else await ledger.processes.leave('p1');
      const crashed = how === 'dies';
      expect(await rootOf(bench, run.id)).toMatchObject({
        claim_token: null,
        claimed_by: null,
        crashes: crashed ? 1 : 0,
      });
      expect(await ledger.runs.listAdvancements(run.id, 10)).toMatchObject([
        { processId: 'p1', crashed },
        { processId: 'p0', crashed: false, completedAt: LONG_AGO, error: 'no luck' },
      ]);
    },
  );
});

describe.each(databases)('an advancement on %s', (kind) => {
  test('halts the branch if too many processes died during it', async () => {
    const { ledger, sql } = await openBench(kind);
    const { run } = await startBlock(ledger);
    await sql('update run_branches set crashes = ?', [limits.crashesMax]);
    expect(await advanceAll(ledger)).toMatchObject([{ verdict: 'done' }]);
    expect((await findRun(ledger, run.id)).status).toBe('halted');
    const [move] = await ledger.runs.listAdvancements(run.id, 1);
    expect(move?.completedAt).not.toBeNull();
  });

  test('ends the remaining branches of a cancelled run in batches', async () => {
    const { ledger } = await openBench(kind);
    const width = 2 * limits.cancelBatchMax + 1;
    const each = foreach('each', 'a', { maxFanout: width });
    const graph = await define(ledger, [each, task('a')]);
    const run = await start(ledger, graph, { items: range(width) });
    await advanceAll(ledger);
    await direct(ledger, run.id, (tx) => cancelRun(tx, run.id));
    const answers = await advanceAll(ledger);
    expect(answers).toMatchObject([
      { verdict: 'more', queued: true },
      { verdict: 'done', queued: true },
    ]);
    const moves = await ledger.runs.listAdvancements(run.id, 10);
    expect(moves.filter(({ completedAt }) => completedAt === null)).toEqual([]);
    expect(await claimSteps(ledger, graph)).toEqual([]);
  });
});

describe.each(databases)('a branch that waits for a signal on %s', (kind) => {
  const when = { path: ['signal', 'n'], op: 'eq', value: 2 } as const;
  const signal = { type: 'paid', from: undefined, when };
  const nodes = [wait('w', { signal, timeoutMs: 60_000, next: 'a' }), task('a')];

  async function tell(ledger: Ledger, ...ns: readonly number[]): Promise<void> {
    const job = await startOne(ledger, 'p1');
    const signals = ns.map((n, index) =>
      signalOf(job, index, { type: 'paid', data: JSON.stringify({ n }) }),
    );
    await ledger.jobs.settle([succeed(job, { signals })]);
  }

  test('ignores a signal from before its run', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, nodes);
    await tell(ledger, 2);
    // A signal of the same millisecond as the run counts, because the order is unknown.
    await sql(`update signals set inserted_at = '2026-01-01T00:00:00.000Z'`, []);
    const run = await start(ledger, graph);
    await tell(ledger, 1);
    expect(await advanceAll(ledger)).toMatchObject([{ verdict: 'done', queued: false }]);
    expect(await stepsOf(ledger, run.id)).toEqual(['w waiting']);
  });

  test('searches all signals, however many', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, nodes);
    await start(ledger, graph);
    await tell(ledger, ...range(limits.signalSearchMax).map(() => 1));
    // The first read returns a full batch, and the next one finds that there are no more.
    expect(await advanceAll(ledger)).toMatchObject([{ queued: false }, { queued: false }]);
    await tell(ledger, ...range(limits.signalSearchMax + 1).map(() => 1), 2);
    expect((await advanceAll(ledger)).at(-1)).toMatchObject({ queued: true });
    expect(JSON.parse(only(await claimSteps(ledger, graph)).payload)).toEqual({ w: { n: 2 } });
  });

  test('continues when its time is over, even with another signal at hand', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, nodes);
    const run = await start(ledger, graph);
    await tell(ledger, 1);
    await sql('update run_branches set due_at = ?, deadline_at = ?', [LONG_AGO, LONG_AGO]);
    await advanceAll(ledger);
    expect(await findRun(ledger, run.id)).toMatchObject({ haltReason: 'timeout' });
  });
});
