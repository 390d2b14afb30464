/** Runs that fail to start: they are recorded and halt, instead of only being logged. */
import { describe, expect, test } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import { task } from './graphs.ts';
import { define, findRun, runOf, start } from '../support/ledger/runs.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { beat } from '../support/ledger/drafts.ts';

const triesMax = 2;

describe.each(databases)("a run whose first step can't be computed, on %s", (kind) => {
  /** A run of a definition that is gone. */
  async function startLost() {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, { ...graph, hash: makeToken() });
    await ledger.processes.heartbeat(beat('p1'));
    /** Runs an advancer once; it fails. */
    const tryOnce = async () => {
      await bench.sql('update run_branches set due_at = ?', ['2000-01-01T00:00:00.000Z']);
      const token = makeToken();
      const { branchIds } = await ledger.runs.claimBranches({ processId: 'p1', token, limit: 1 });
      expect(branchIds).toEqual([run.id]);
      const held = { branchId: run.id, token };
      const error = await ledger.runs.advance(held).then(
        () => 'no error',
        (thrown: unknown) => String(thrown),
      );
      return await ledger.runs.releaseBranch({ ...held, error, triesMax });
    };
    return { ...bench, run, graph, tryOnce };
  }

  test('reports the error from the start', async () => {
    const { ledger, run } = await startLost();
    expect((await findRun(ledger, run.id)).status).toBe('running');
    const tries = await ledger.runs.listAdvancements(run.id, 10);
    expect(tries).toMatchObject([{ error: expect.stringContaining('definition') }]);
  });

  test('halts with the reason when its attempts are used up, and is reported', async () => {
    const { ledger, run, tryOnce } = await startLost();
    const ended: string[] = [];
    ledger.onEnds((ids) => ended.push(...(ids ?? [])));
    await tryOnce();
    expect((await findRun(ledger, run.id)).status).toBe('running');
    await tryOnce();
    expect(await findRun(ledger, run.id)).toMatchObject({
      status: 'halted',
      haltReason: 'advancement_retries_exhausted',
      haltMessage: expect.stringContaining('definition'),
      haltedAtStep: null,
    });
    expect(ended).toEqual([run.id]);
    const [signal] = await ledger.signals.list({ type: 'run.halted', limit: 1 });
    expect(JSON.parse(signal?.data ?? '')).toMatchObject({ run_id: run.id, halted_at_step: null });
    expect(await ledger.runs.listAdvancements(run.id, 10)).toHaveLength(3);
  });

  test('does not stop other runs of the same batch from starting', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const [lost, sound] = [runOf({ ...graph, hash: makeToken() }), runOf(graph)];
    await ledger.runs.start({ jobs: [], runs: [lost, sound] });
    expect((await ledger.jobs.find(sound.firstJobId))?.status).toBe('queued');
    expect(await ledger.runs.listAdvancements(sound.id, 10)).toEqual([]);
  });
});
