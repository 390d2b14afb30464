/** The consequences of a halt, whichever transaction it happens in, and of failed consequences. */
import { switchPause } from '../../src/job/plugin-state.sql.ts';
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeId, makeToken } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { RunHalt } from '../../src/pipeline/run/types.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { approve, foreach, task, wait } from './graphs.ts';
import {
  advanceAll,
  carryOn,
  claimSteps,
  define,
  done,
  findRun,
  runOf,
  start,
} from '../support/ledger/runs.ts';
import { decide, revive } from '../support/ledger/run-directives.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import { beat, draft, fail, pausing } from '../support/ledger/drafts.ts';

const LONG_AGO = '2020-01-01T00:00:00.000Z';

/** A halt causes one job and one run. */
function follow(ledger: Ledger, alarm: Graph): RunHalt[] {
  const halts: RunHalt[] = [];
  ledger.provideRules({
    followHalt: (halt) => {
      halts.push(halt);
      const cause = { sourceEventId: halt.signal.id, rootJobId: halt.run.rootJobId };
      return {
        jobs: [draft({ plugin: 'siren', ...cause })],
        runs: [runOf(alarm, { of: halt.run.id }, cause)],
      };
    },
  });
  return halts;
}

function awaited(type: string) {
  return { type, from: undefined, when: undefined };
}

async function claimBranch(ledger: Ledger): Promise<{ branchId: string; token: string }> {
  await ledger.processes.heartbeat(beat('p1'));
  const token = makeToken();
  const { branchIds } = await ledger.runs.claimBranches({ processId: 'p1', token, limit: 1 });
  return { branchId: only(branchIds), token };
}

describe.each(databases)('a halt on %s', (kind) => {
  const ways: Readonly<
    Record<string, (ledger: Ledger, graph: Graph, runId: string) => Promise<unknown>>
  > = {
    'when its job is settled': async (ledger, graph) =>
      ledger.jobs.settle([fail(only(await claimSteps(ledger, graph)))]),
    'when it is advanced': async (ledger, graph, runId) => {
      await ledger.jobs.settle([done(only(await claimSteps(ledger, graph)))]);
      await decide(ledger, runId, 'ok', false);
      return ledger.runs.advance(await claimBranch(ledger));
    },
    'when its advancements are used up': async (ledger, graph, runId) => {
      await ledger.jobs.settle([done(only(await claimSteps(ledger, graph)))]);
      await decide(ledger, runId, 'ok', true);
      const held = await claimBranch(ledger);
      return ledger.runs.releaseBranch({ ...held, error: 'no', triesMax: 1 });
    },
    'when its queued job is cancelled': async (ledger) => {
      const [job] = await ledger.jobs.list({ limit: 1 });
      return ledger.jobs.cancel(job?.id ?? '');
    },
  };

  test.each(Object.keys(ways))('starts jobs and runs in the same transaction %s', async (way) => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'ok' }), approve('ok')]);
    const alarm = await define(ledger, [task('bell')]);
    const halts = follow(ledger, alarm);
    const run = await start(ledger, graph, {}, { hops: 2 });
    await ways[way]?.(ledger, graph, run.id);
    expect((await findRun(ledger, run.id)).status).toBe('halted');
    const { signal } = only(halts);
    expect(signal).toMatchObject({ type: 'run.halted', subjectId: run.id, hops: 3 });
    expect(only(await ledger.signals.list({ type: 'run.halted', limit: 5 })).id).toBe(signal.id);
    const siren = only(await ledger.jobs.list({ plugin: 'siren', limit: 5 }));
    expect(siren).toMatchObject({ status: 'queued', sourceEventId: signal.id });
    expect(await carryOn(ledger, alarm)).toBe(1);
    const [alarmed] = await ledger.runs.list({ limit: 1 });
    expect(alarmed).toMatchObject({ status: 'succeeded', sourceEventId: signal.id });
    expect(JSON.parse(alarmed?.payload ?? '')).toEqual({ of: run.id });
  });

  test('keeps to the concurrency of the runs that it causes', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const alarm = await define(ledger, [task('bell')]);
    const concurrency = { key: 'one at a time', limit: 1 };
    ledger.provideRules({
      followHalt: () => ({ jobs: [], runs: [runOf(alarm, {}, { concurrency })] }),
    });
    await start(ledger, graph);
    await start(ledger, graph);
    await carryOn(ledger, graph, (job) => fail(job));
    const underWay = await ledger.runs.list({ status: ['queued', 'running'], limit: 9 });
    expect(underWay.map(({ status }) => status).toSorted()).toEqual(['queued', 'running']);
    expect(await carryOn(ledger, alarm)).toBe(2);
  });

  test('wakes every waiting caller at once', async () => {
    const { ledger } = await openBench(kind);
    const waiting = await define(ledger, [wait('w', { signal: awaited('run.halted') })]);
    const { id } = await start(ledger, waiting);
    const graph = await define(ledger, [task('a')]);
    await start(ledger, graph);
    const { runEvents } = await ledger.jobs.settle([fail(only(await claimSteps(ledger, graph)))]);
    expect(runEvents.advancing).toBe(true);
    await advanceAll(ledger);
    expect((await findRun(ledger, id)).status).toBe('succeeded');
  });
});

describe.each(databases)('an event for a halted run on %s', (kind) => {
  test('reports that a branch waited for its signal', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [wait('w', { signal: awaited('go') })]);
    const { id } = await start(ledger, graph);
    const signal = { source: 'api', data: '{}', hops: 0, correlationId: 'c' };
    const of = (type: string) => ({ jobs: [], signals: [{ id: makeId(), type, ...signal }] });
    expect((await ledger.runs.start(of('other'))).advancing).toBe(false);
    expect((await ledger.runs.start(of('go'))).advancing).toBe(true);
    await advanceAll(ledger);
    expect((await findRun(ledger, id)).status).toBe('succeeded');
  });

  test('with a directive starts the runs that wait for it', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = runOf(graph);
    // A resume comes first: claims find nothing in a paused ledger.
    const request = pausing({}, (tx) => switchPause(tx, false));
    const completed = { ...request.ends.completed, runs: [run] };
    await ledger.directives.create({ ...request, ends: { ...request.ends, completed } });
    expect((await findRun(ledger, run.id)).status).toBe('running');
    expect(await carryOn(ledger, graph)).toBe(1);
  });
});

describe.each(databases)('a settle that cannot advance its run, on %s', (kind) => {
  test('keeps the error, reports it and leaves the branch to others', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    await sql("update run_branches set node = 'gone'");
    const { runEvents, verdicts } = await ledger.jobs.settle([done(a)]);
    expect(verdicts.get(a.id)).toBe('settled');
    const failure = only(runEvents.failures ?? []);
    expect(failure).toMatchObject({ branchId: run.id, error: expect.stringContaining('gone') });
    expect(only(await ledger.runs.listAdvancements(run.id, 9))).toMatchObject({
      branchId: run.id,
      node: 'a',
      processId: 'p1',
      error: failure.error,
      crashed: false,
    });
    await sql("update run_branches set node = 'a', due_at = ?", [LONG_AGO]);
    expect(await carryOn(ledger, graph)).toBe(1);
    expect((await findRun(ledger, run.id)).status).toBe('succeeded');
  });
});

describe('a conflict on postgres', () => {
  test.each(['40P01', '40001'])('%s makes the whole settle try again', async (code) => {
    const { ledger, sql } = await openBench('postgres');
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    // A sequence isn't rolled back with its transaction.
    await sql('create sequence tries');
    await sql(`create function once() returns trigger language plpgsql as $$ begin
      if nextval(tg_table_schema || '.tries') = 1 then
        raise exception 'met another' using errcode = '${code}';
      end if;
      return new; end $$`);
    await sql(
      'create trigger once before insert on run_steps for each row execute function once()',
    );
    const { runEvents } = await ledger.jobs.settle([done(a)]);
    expect(runEvents).toMatchObject({ advancing: false, queued: true });
    expect(runEvents.failures ?? []).toEqual([]);
    expect(await ledger.runs.listAdvancements(run.id, 9)).toEqual([]);
    expect(await carryOn(ledger, graph)).toBe(1);
  });
});

describe.each(databases)("a block whose branches can't all start, on %s", (kind) => {
  test('lets started branches finish, and then halts its run', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    const width = 2 * limits.advanceBatchMax;
    const run = await start(ledger, graph, { items: range(width) });
    const held = await claimBranch(ledger);
    expect((await ledger.runs.advance(held)).verdict).toBe('more');
    await ledger.runs.releaseBranch({ ...held, error: 'no', triesMax: 1 });
    expect((await findRun(ledger, run.id)).status).toBe('running');
    expect(await ledger.check()).toEqual([]);
    expect(await carryOn(ledger, graph)).toBe(limits.advanceBatchMax);
    expect(await findRun(ledger, run.id)).toMatchObject({
      status: 'halted',
      haltReason: 'advancement_retries_exhausted',
    });
    expect(await ledger.check()).toEqual([]);
    const revived = await revive(ledger, run.id);
    expect(await carryOn(ledger, graph)).toBe(width - limits.advanceBatchMax);
    expect((await findRun(ledger, revived)).status).toBe('succeeded');
  });
});
