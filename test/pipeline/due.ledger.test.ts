/** Delayed runs: they start once when they are due, or never if they are cancelled. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { RunDraft } from '../../src/pipeline/run/types.ts';
import { task } from './graphs.ts';
import { openMeeting } from '../support/ledger/barrier.ts';
import { direct } from '../support/ledger/run-directives.ts';
import {
  advanceAll,
  carryOn,
  claimSteps,
  define,
  findRun,
  runOf,
  start,
} from '../support/ledger/runs.ts';
import { databases, only, openBench, range, type Bench } from '../support/ledger/bench.ts';
import { beat } from '../support/ledger/drafts.ts';

const HOUR_MS = 60 * 60 * 1000;
const LONG_AGO = '2000-01-01T00:00:00.000Z';
const inAnHour: Partial<RunDraft> = { due: { inMs: HOUR_MS } };

afterEach(() => void vi.useRealTimers());

/** Makes all delayed runs due. */
async function passTime({ sql }: Pick<Bench, 'sql'>): Promise<void> {
  await sql('update pipeline_runs set due_at = ? where due_at is not null', [LONG_AGO]);
}

async function cancel(ledger: Ledger, runId: string): Promise<void> {
  const { status } = await direct(ledger, runId, (tx) => cancelRun(tx, runId));
  expect(status).toBe('completed');
}

describe.each(databases)('a run for later on %s', (kind) => {
  test('is queued with its time, and no step starts before', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = runOf(graph, {}, inAnHour);
    const { runs, advancing, queued, dueInMs } = await ledger.runs.start({ jobs: [], runs: [run] });
    expect(runs).toEqual([{ runId: run.id, status: 'queued' }]);
    expect({ advancing, queued, dueInMs }).toEqual({
      advancing: false,
      queued: false,
      dueInMs: HOUR_MS,
    });
    const { status, dueAt, createdAt, startedAt } = await findRun(ledger, run.id);
    expect({ status, startedAt }).toEqual({ status: 'queued', startedAt: null });
    expect(Date.parse(dueAt ?? '') - Date.parse(createdAt)).toBeLessThanOrEqual(HOUR_MS);
    expect(Date.parse(dueAt ?? '') - Date.parse(createdAt)).toBeGreaterThan(HOUR_MS - 60_000);
    expect(await carryOn(ledger, graph)).toBe(0);
    expect(await ledger.check()).toEqual([]);
  });

  test('is due by the clock of the database, and the advancer learns when', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const at = new Date(Date.now() + HOUR_MS).toISOString();
    await start(ledger, graph, {}, { due: { at } });
    await ledger.processes.heartbeat(beat('p1'));
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 24 * HOUR_MS });
    const claim = { processId: 'p1', token: makeToken(), limit: 5 };
    const { branchIds, nextInMs } = await ledger.runs.claimBranches(claim);
    expect(branchIds).toEqual([]);
    expect(nextInMs).toBeGreaterThan(HOUR_MS - 60_000);
    expect(nextInMs).toBeLessThanOrEqual(HOUR_MS);
  });

  test('starts when it is due, on whichever process claims it', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph, { n: 1 }, inAnHour);
    await passTime(bench);
    await advanceAll(ledger, 'p2');
    const job = only(await claimSteps(ledger, graph));
    expect(job).toMatchObject({ id: run.firstJobId, payload: '{"n":1}' });
    const begun = await findRun(ledger, run.id);
    expect(begun).toMatchObject({ status: 'running', dueAt: null });
    expect(begun.startedAt).not.toBeNull();
    expect(await ledger.check()).toEqual([]);
  });

  test('whose time is in the past starts at once', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const late = runOf(graph, {}, { due: { at: LONG_AGO } });
    const now = runOf(graph, {}, { due: { inMs: 0 } });
    const { runs, queued } = await ledger.runs.start({ jobs: [], runs: [late, now] });
    expect(queued).toBe(true);
    expect(runs.map(({ status }) => status)).toEqual(['running', 'running']);
    expect(await claimSteps(ledger, graph)).toHaveLength(2);
  });

  test('requested again with the same id exists once, with its first time', async () => {
    const { ledger, dump } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph, {}, inAnHour);
    const before = await dump();
    const again = { ...run, due: { inMs: 2 * HOUR_MS } };
    const { runs } = await ledger.runs.start({ jobs: [], runs: [again] });
    expect(runs).toEqual([{ runId: run.id, status: 'queued' }]);
    expect(await dump()).toEqual(before);
  });

  test('can be cancelled before its time, and then never starts', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph, {}, inAnHour);
    await cancel(ledger, run.id);
    await passTime(bench);
    expect(await carryOn(ledger, graph)).toBe(0);
    expect(await findRun(ledger, run.id)).toMatchObject({ status: 'cancelled', startedAt: null });
    expect(await ledger.check()).toEqual([]);
  });

  test('joins the queue of its concurrency key only when it is due', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const graph = await define(ledger, [task('a')]);
    const concurrency = { key: 'k', limit: 1 };
    const later = await start(ledger, graph, { n: 'later' }, { ...inAnHour, concurrency });
    const first = await start(ledger, graph, { n: 'first' }, { concurrency });
    await advanceAll(ledger);
    expect((await findRun(ledger, first.id)).status).toBe('running');
    await passTime(bench);
    await advanceAll(ledger);
    expect(await findRun(ledger, later.id)).toMatchObject({ status: 'queued', dueAt: null });
    expect(await carryOn(ledger, graph)).toBe(2);
    expect((await findRun(ledger, later.id)).status).toBe('succeeded');
  });

  test('starts in batches, the longest due first', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const graph = await define(ledger, [task('a')]);
    const runs = range(25).map((n) => runOf(graph, { n }, inAnHour));
    await ledger.runs.start({ jobs: [], runs });
    await passTime(bench);
    await ledger.processes.heartbeat(beat('p1'));
    const claim = { processId: 'p1', token: makeToken(), limit: 10 };
    expect((await ledger.runs.claimBranches(claim)).branchIds).toHaveLength(10);
    expect(await ledger.runs.list({ status: ['running'], limit: 100 })).toHaveLength(10);
  });
});

describe('runs for later on two hosts', () => {
  test('start exactly once each when both hosts claim at the same moment', async () => {
    const bench = await openMeeting();
    const { ledger, other } = bench;
    const graph = await define(ledger, [task('a')]);
    const runs = range(40).map((n) => runOf(graph, { n }, inAnHour));
    await ledger.runs.start({ jobs: [], runs });
    await passTime(bench);
    await Promise.all([advanceAll(ledger, 'p1'), advanceAll(other, 'p2'), advanceAll(other, 'p2')]);
    const jobs = await claimSteps(ledger, graph);
    expect(new Set(jobs.map(({ id }) => id))).toEqual(
      new Set(runs.map(({ firstJobId }) => firstJobId)),
    );
    expect(jobs).toHaveLength(40);
    expect(await ledger.check()).toEqual([]);
  });

  test('are either started or cancelled when both happen at once', async () => {
    const bench = await openMeeting();
    const { ledger, other, barrier } = bench;
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph, {}, inAnHour);
    await passTime(bench);
    await barrier.hold('select 1 from pipeline_runs where id = $1 for update', [run.id]);
    const cancelling = direct(other, run.id, (tx) => cancelRun(tx, run.id));
    await barrier.untilWaiting(1);
    // A concurrent reader skips rows that others have locked.
    await advanceAll(ledger);
    await barrier.lift();
    await cancelling;
    expect(await carryOn(ledger, graph)).toBe(0);
    expect((await findRun(ledger, run.id)).status).toBe('cancelled');
    expect(await ledger.check()).toEqual([]);
  });
});
