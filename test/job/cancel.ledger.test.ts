import { describe, expect, test } from 'vitest';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import {
  beat,
  claimAs,
  crash,
  draft,
  endAsCancelled,
  fail,
  release,
  retryLater,
  settleOne,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';

describe.each(databases)('cancelling on %s', (kind) => {
  test('a job that waits ends, and never starts', async () => {
    const { ledger, job } = await openBench(kind);
    const jobDraft = draft();
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    expect(await ledger.jobs.cancel(jobDraft.id)).toBe('cancelled');
    expect(await job(jobDraft.id)).toMatchObject({ status: 'cancelled', reason: 'cancelled' });
    expect(await claimAs(ledger, 'p1')).toEqual([]);
    expect(await ledger.attempts.listByJob([jobDraft.id])).toEqual([]);
    expect(await ledger.jobs.cancel(jobDraft.id)).toBe('cancelled');
  });

  test('a job that waits for its next try ends too', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    await settleOne(ledger, retryLater(started));
    expect(await ledger.jobs.cancel(started.id)).toBe('cancelled');
    expect(await job(started.id)).toMatchObject({ status: 'cancelled', nextRetryAt: null });
    expect(await ledger.jobs.promote()).toEqual({ promoted: 0, nextInMs: undefined });
    expect(await ledger.attempts.listByJob([started.id])).toHaveLength(1);
  });

  test('a job that runs is asked to stop, and its owner learns of it', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    expect(await ledger.jobs.cancel(started.id)).toBe('requested');
    const { cancelRequestedAt } = await job(started.id);
    expect(cancelRequestedAt).not.toBeNull();
    expect(await ledger.jobs.cancel(started.id)).toBe('requested');
    expect((await job(started.id)).cancelRequestedAt).toBe(cancelRequestedAt);
    expect((await ledger.processes.heartbeat(beat('p1'))).running).toEqual([
      { jobId: started.id, claimToken: started.claimToken, cancelRequested: true },
    ]);
  });

  test.each([
    ['fails', fail],
    ['would be tried again', retryLater],
    ['is released', release],
    ['crashes', crash],
  ])('once asked to stop, an attempt that %s gets another verdict first', async (_, end) => {
    const { ledger, dump, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    await ledger.jobs.cancel(started.id);
    const before = await dump();
    expect(await settleOne(ledger, end(started))).toBe('cancelled');
    expect(await dump()).toEqual(before);
    expect(await settleOne(ledger, endAsCancelled(started))).toBe('settled');
    expect((await job(started.id)).status).toBe('cancelled');
    expect(only(await ledger.attempts.listByJob([started.id])).status).toBe('cancelled');
  });

  test('a success that comes first stays a success', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    await ledger.jobs.cancel(started.id);
    expect(await settleOne(ledger, succeed(started, { jobs: [draft()] }))).toBe('settled');
    expect((await job(started.id)).status).toBe('succeeded');
    expect(await ledger.jobs.cancel(started.id)).toBe('terminal');
    expect((await ledger.jobs.countQueue()).ready).toBe(1);
  });

  test('a process that lost the claim is fenced, not asked to stop', async () => {
    const { ledger } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    await ledger.jobs.cancel(started.id);
    expect(await settleOne(ledger, { ...fail(started), claimToken: 'other' })).toBe('fenced');
    const stale = { ...started, attempt: started.attempt + 1 };
    expect(await settleOne(ledger, fail(stale))).toBe('fenced');
  });

  test('a reaped job that was asked to stop is left for its cancellation', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    await ledger.jobs.cancel(started.id);
    const first = await ledger.processes.reap({
      processId: 'p1',
      staleMs: 0,
      closings: [crash(started)],
    });
    expect(first.verdicts.get(started.id)).toBe('cancelled');
    expect(await ledger.processes.list()).toHaveLength(1);
    const closings = [endAsCancelled(started)];
    const second = await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings });
    expect(second.verdicts.get(started.id)).toBe('settled');
    expect((await job(started.id)).status).toBe('cancelled');
    expect(await ledger.processes.list()).toEqual([]);
  });

  test('an unknown job is unknown', async () => {
    const { ledger } = await openBench(kind);
    expect(await ledger.jobs.cancel('nobody')).toBe('unknown');
  });
});
