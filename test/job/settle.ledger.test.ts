import { describe, expect, test } from 'vitest';
import { fromTimestamp } from '../../src/base/clock.ts';
import { makeToken } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import { createBareReport, type AttemptReport } from '../../src/job/attempt.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import { noRunEvents } from '../../src/pipeline/run/changes.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import {
  closeUnrunnable,
  claimAs,
  crash,
  draft,
  endAsCancelled,
  fail,
  release,
  request,
  retryLater,
  settleOne,
  signalOf,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

/** A success with one of everything that a success may cause. */
function succeedFully(job: Closing['job'], key = 'child'): Closing {
  return succeed(job, {
    state: { kind: 'snapshot', factType: 'seen', mirror: true, value: '{"seen":1}' },
    signals: [signalOf(job, 0), signalOf(job, 1)],
    jobs: [draft({ parentJobId: job.id, dedupe: strict(key) }), draft({ parentJobId: job.id })],
  });
}

describe.each(databases)('settling on %s', (kind) => {
  test('writes the end, its log row, state, fact, signals and jobs together', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1', { dedupe: strict('k') });
    const closing = succeedFully(started);
    const { verdicts, enqueued, claimed } = await ledger.jobs.settle([closing]);
    expect([...verdicts]).toEqual([[started.id, 'settled']]);
    expect(enqueued).toEqual(closing.jobs.map(({ id }) => ({ jobId: id })));
    expect(claimed).toEqual([]);
    expect(await job(started.id)).toMatchObject({
      status: 'succeeded',
      attempt: 1,
      claimToken: null,
      claimedBy: null,
      claimExpiresAt: null,
      lastError: null,
      reason: null,
    });
    expect((await job(started.id)).completedAt).not.toBeNull();
    expect(only(await ledger.attempts.listByJob([started.id])).status).toBe('succeeded');
    expect(await ledger.plugins.readState('echo')).toBe('{"seen":1}');
    expect(await ledger.plugins.listFacts('echo', 10)).toMatchObject([
      { factType: 'seen', fact: '{"seen":1}', jobId: started.id, command: 'handle' },
    ]);
    expect(
      (await ledger.signals.list({ jobId: started.id, limit: 10 })).map(({ id }) => id),
    ).toEqual(closing.signals.map(({ id }) => id).toReversed());
    expect(await ledger.jobs.list({ parentJobId: started.id, limit: 10 })).toHaveLength(2);
  });

  test('stores the whole history of the attempt in its log row', async () => {
    const { ledger } = await openBench(kind);
    const started = await startOne(ledger, 'p1', { parentJobId: 'parent', sourceEventId: 'event' });
    const report: AttemptReport = {
      status: 'timed_out',
      cause: 'timeout',
      error: 'took too long',
      result: '{"partial": "日本"}',
      stderr: 'tail of it',
      stderrTruncated: true,
      exitCode: 137,
      signal: 'SIGKILL',
      pid: 4_194_303,
      queueMs: 1,
      spawnMs: 2,
      runMs: 3,
      cpuMs: 5,
      // More than 32 bits hold.
      memoryPeakBytes: 70 * 1024 ** 3,
      settleMs: 4,
    };
    await settleOne(ledger, { ...retryLater(started), report });
    const row = only(await ledger.attempts.listByJob([started.id]));
    expect(row).toMatchObject({
      ...report,
      jobId: started.id,
      plugin: 'echo',
      command: 'handle',
      attempt: 1,
      submittedBy: 'api',
      createdAt: started.createdAt,
      startedAt: started.startedAt,
      processId: 'p1',
      claimToken: started.claimToken,
      parentJobId: 'parent',
      sourceEventId: 'event',
    });
    expect(row.completedAt >= started.startedAt).toBe(true);
    expect(await ledger.attempts.list({ plugin: 'echo', status: 'timed_out', limit: 5 })).toEqual([
      row,
    ]);
    expect(await ledger.attempts.list({ plugin: 'other', limit: 5 })).toEqual([]);
    expect(await ledger.attempts.list({ jobId: started.id, limit: 5 })).toEqual([row]);
  });

  test('charges a failure to the budget and waits by the clock of the database', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    await settleOne(ledger, retryLater(started, 60_000));
    const waiting = await job(started.id);
    expect(waiting).toMatchObject({
      status: 'queued',
      attempt: 2,
      retryCount: 1,
      crashCount: 0,
      lastError: 'not today',
      completedAt: null,
    });
    const waitMs = fromTimestamp(waiting.nextRetryAt ?? '') - fromTimestamp(await ledger.now());
    expect(waitMs).toBeGreaterThan(50_000);
    expect(waitMs).toBeLessThanOrEqual(60_000);
    expect(await claimAs(ledger, 'p1')).toEqual([]);
  });

  test('ends in dead when the budget is used up, with a row for every attempt', async () => {
    const { ledger, job } = await openBench(kind);
    const jobDraft = draft({ maxAttempts: 3 });
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await settleOne(ledger, retryLater(only(await claimAs(ledger, 'p1')), 0));
    }
    expect(await job(jobDraft.id)).toMatchObject({
      status: 'dead',
      retryCount: 3,
      attempt: 3,
      reason: 'retries_exhausted',
    });
    const log = await ledger.attempts.listByJob([jobDraft.id]);
    expect(log.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(await claimAs(ledger, 'p1')).toEqual([]);
  });

  test('counts crashes apart from failures, and releases not at all', async () => {
    const { ledger, job } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const ends = [
      (one: Closing['job']) => crash(one, true),
      release,
      (one: Closing['job']) => retryLater(one, 0),
      (one: Closing['job']) => crash(one, false),
    ];
    for (const end of ends) await settleOne(ledger, end(only(await claimAs(ledger, 'p1'))));
    const last = only(await claimAs(ledger, 'p1'));
    expect(await job(last.id)).toMatchObject({
      attempt: 5,
      retryCount: 1,
      crashCount: 1,
      interruptCount: 1,
    });
  });

  test('closes a job that still waits, without an attempt', async () => {
    const { ledger, job } = await openBench(kind);
    const jobDraft = draft();
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    expect(await settleOne(ledger, closeUnrunnable(await job(jobDraft.id)))).toBe('settled');
    expect(await job(jobDraft.id)).toMatchObject({ status: 'dead', reason: 'no_runner' });
    expect(await ledger.attempts.listByJob([jobDraft.id])).toEqual([]);
  });

  test('closes hundreds at once', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(500).map(() => draft()) });
    const claimed = await claimAs(ledger, 'p1', { slots: 500 });
    expect(claimed).toHaveLength(500);
    const closings = claimed.map((job) =>
      succeed(job, { signals: [signalOf(job)], jobs: [draft()] }),
    );
    const { verdicts, enqueued } = await ledger.jobs.settle(closings);
    expect(new Set(verdicts.values())).toEqual(new Set(['settled']));
    expect(enqueued).toHaveLength(500);
    expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 500, running: 0 });
  });

  test('writes the same when more is claimed in the same commit', async () => {
    const { ledger, job } = await openBench(kind);
    const state = { kind: 'merge', value: '{"at":7}' } as const;
    const first = await startOne(ledger, 'p1');
    const next = draft();
    await ledger.jobs.enqueue({ jobs: [next] });
    const both = await ledger.jobs.settle([succeed(first, { state })], request('p1', { slots: 1 }));
    expect(both.verdicts.get(first.id)).toBe('settled');
    expect(only(both.claimed)).toMatchObject({ id: next.id, state: '{"at":7}' });
    const value = JSON.stringify({ large: 'x'.repeat(limits.stateBytesMax) });
    const second = succeed(only(both.claimed), { state: { ...state, value } });
    const refused = await ledger.jobs.settle([second], request('p1'));
    expect([...refused.verdicts]).toEqual([[next.id, 'oversize']]);
    expect((await job(next.id)).status).toBe('running');
  });

  test('nothing to settle is nothing, and may still claim', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    await claimAs(ledger, 'p1', { slots: 0 });
    const nothing = { verdicts: new Map(), enqueued: [], claimed: [], runEvents: noRunEvents };
    expect(await ledger.jobs.settle([])).toEqual(nothing);
    expect((await ledger.jobs.settle([], request('p1'))).claimed).toHaveLength(1);
  });
});

describe.each(databases)('the fence on %s', (kind) => {
  const others: readonly (readonly [string, (job: Closing['job']) => Closing])[] = [
    ['a success', succeedFully],
    ['a failure', (job) => fail(job)],
    ['a retry', (job) => retryLater(job)],
    ['a release', release],
    ['a crash', (job) => crash(job)],
    ['a cancellation', endAsCancelled],
  ];

  test.each(others)('lets %s with another token write nothing', async (_, end) => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    const before = await dump();
    const verdict = await settleOne(ledger, { ...end(job), claimToken: makeToken() });
    expect(verdict).toBe('fenced');
    expect(await dump()).toEqual(before);
  });

  test.each(others)('lets %s after a success write nothing', async (_, end) => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await settleOne(ledger, { ...succeedFully(job), signals: [], jobs: [], report: cut(job) });
    const before = await dump();
    expect(await settleOne(ledger, end(job))).toBe('fenced');
    expect(await dump()).toEqual(before);
  });

  /** Another story of the same end, so that what follows is no repetition of it. */
  function cut(_job: Closing['job']): AttemptReport {
    return { ...createBareReport('succeeded', 'ok', ''), cause: 'unheld' };
  }

  test('lets the very same closing write nothing twice, and says that it is settled', async () => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await ledger.jobs.enqueue({ jobs: [draft({ dedupe: strict('taken') })] });
    const jobs = [draft({ dedupe: strict('taken') }), ...succeedFully(job).jobs];
    const closing = { ...succeedFully(job), jobs };
    const first = await ledger.jobs.settle([closing]);
    expect(first.enqueued.map(({ duplicateOf }) => duplicateOf !== undefined)).toEqual([
      true,
      false,
      false,
    ]);
    const before = await dump();
    const again = await ledger.jobs.settle([closing]);
    expect([...again.verdicts]).toEqual([[job.id, 'settled']]);
    expect(again.enqueued).toEqual(first.enqueued);
    expect(await dump()).toEqual(before);
  });

  test('keeps out a reaped process, however it ended', async () => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [crash(job)] });
    const before = await dump();
    for (const [, end] of others.filter(([name]) => name !== 'a crash')) {
      expect(await settleOne(ledger, end(job))).toBe('fenced');
    }
    expect(await dump()).toEqual(before);
  });

  test('keeps out the holder of an earlier claim of the same job', async () => {
    const { ledger, dump, job: read } = await openBench(kind);
    const old = await startOne(ledger, 'p1');
    await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [crash(old)] });
    const current = only(await claimAs(ledger, 'p2'));
    const before = await dump();
    expect(await settleOne(ledger, succeedFully(old))).toBe('fenced');
    expect(await dump()).toEqual(before);
    expect(await settleOne(ledger, succeedFully(current))).toBe('settled');
    expect(await read(old.id)).toMatchObject({ status: 'succeeded', attempt: 2 });
  });

  test('keeps out a stale copy of the job under the right token', async () => {
    const { ledger, dump } = await openBench(kind);
    const old = await startOne(ledger, 'p1');
    await settleOne(ledger, release(old));
    const token = old.claimToken;
    const [current] = await claimAs(ledger, 'p1', { token });
    expect(current?.attempt).toBe(2);
    const before = await dump();
    expect(await settleOne(ledger, succeedFully(old))).toBe('fenced');
    expect(await dump()).toEqual(before);
  });

  test('keeps out what would close a waiting job that has run meanwhile', async () => {
    const { ledger, dump, job } = await openBench(kind);
    const jobDraft = draft();
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    const seen = await job(jobDraft.id);
    const running = only(await claimAs(ledger, 'p1'));
    expect(await settleOne(ledger, closeUnrunnable(seen))).toBe('fenced');
    await settleOne(ledger, release(running));
    const before = await dump();
    expect(await settleOne(ledger, closeUnrunnable(seen))).toBe('fenced');
    expect(await dump()).toEqual(before);
  });

  test('is for each closing alone: the others of the batch are settled', async () => {
    const { ledger, job } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    const [a, b, c] = await claimAs(ledger, 'p1');
    if (a === undefined || b === undefined || c === undefined) throw new Error('three are ready');
    const { verdicts } = await ledger.jobs.settle([
      succeedFully(a, 'of a'),
      { ...succeedFully(b, 'of b'), claimToken: makeToken() },
      succeedFully(c, 'of c'),
    ]);
    expect([a, b, c].map(({ id }) => verdicts.get(id))).toEqual(['settled', 'fenced', 'settled']);
    expect((await job(b.id)).status).toBe('running');
    expect(await ledger.plugins.listFacts('echo', 10)).toHaveLength(2);
    expect(await ledger.signals.list({ limit: 10 })).toHaveLength(4);
  });

  test('an unknown job is fenced', async () => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    const before = await dump();
    expect(await settleOne(ledger, succeedFully({ ...job, id: 'nobody', seq: 0 }))).toBe('fenced');
    expect(await dump()).toEqual(before);
  });
});

describe.each(databases)('all or nothing on %s', (kind) => {
  test('a consequence that cannot be written leaves everything as it was', async () => {
    const { ledger, dump } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft({ dedupe: strict('k') }), draft()] });
    const [a, b] = await claimAs(ledger, 'p1');
    if (a === undefined || b === undefined) throw new Error('two are ready');
    const before = await dump();
    const impossible = { ...succeedFully(a), signals: [signalOf(a, 7), signalOf(a, 7)] };
    await expect(
      ledger.jobs.settle([succeedFully(b), impossible], request('p1')),
    ).rejects.toThrow();
    expect(await dump()).toEqual(before);
    expect(await settleOne(ledger, succeedFully(a))).toBe('settled');
  });

  test('a claim that fails takes the settle in the same commit with it', async () => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const before = await dump();
    const broken = {
      ...request('p1'),
      get token(): string {
        throw new Error('no token');
      },
    };
    await expect(ledger.jobs.settle([succeedFully(job)], broken)).rejects.toThrow('no token');
    expect(await dump()).toEqual(before);
  });
});

describe.each(databases)('ends are final on %s', (kind) => {
  test.each([
    ['succeeded', (job: Closing['job']) => succeed(job)],
    ['failed', (job: Closing['job']) => fail(job)],
    ['cancelled', endAsCancelled],
    ['dead', (job: Closing['job']) => retryLater({ ...job, maxAttempts: 1 })],
  ])('%s', async (status, end: (job: Closing['job']) => Closing) => {
    const { ledger, dump, job: read } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await settleOne(ledger, end(job));
    expect((await read(job.id)).status).toBe(status);
    const before = await dump();
    const ended = await read(job.id);
    expect(await ledger.jobs.cancel(job.id)).toBe(
      status === 'cancelled' ? 'cancelled' : 'terminal',
    );
    expect(await settleOne(ledger, closeUnrunnable(ended))).toBe('fenced');
    await ledger.processes.reap({
      processId: 'nobody',
      staleMs: 0,
      closings: [release(job), release(ended)],
    });
    expect((await ledger.jobs.promote()).promoted).toBe(0);
    expect(await ledger.jobs.claim(request('p1'))).toEqual([]);
    await ledger.jobs.enqueue({ jobs: [draft({ id: job.id })] });
    expect(await dump()).toEqual(before);
  });
});
