import { describe, expect, test, vi } from 'vitest';
import { makeCompletion } from '../../src/job/completion.service.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import type { Job } from '../../src/job/job.ts';
import type { JobEnd, KnownEnds } from '../../src/job/types.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

/** A test that depends on this interval would not end. */
const NEVER_MS = 1_000_000_000;
const LONG_MS = 60_000;

/** A ledger with one job. The test ends the job and sends the notifications. */
class FakeLedger {
  readonly listener = 'here';
  readonly jobs = { find: vi.fn(() => Promise.resolve<Job | undefined>(this.current)) };
  readonly runs = { find: vi.fn(() => Promise.resolve(undefined)) };
  readonly attempts = { listByJob: vi.fn(() => Promise.resolve<Attempt[]>([])) };
  readonly awaitEnd = vi.fn(() => Promise.resolve());
  current: Job;
  notify: (ids: readonly string[] | undefined, known?: KnownEnds) => void = () => undefined;

  constructor(awaitedBy: string | null) {
    this.current = { ...makeClaimedJob({ id: 'one' }), awaitedBy };
  }

  onEnds(callback: (ids: readonly string[] | undefined, known?: KnownEnds) => void): void {
    this.notify = callback;
  }

  end(): void {
    this.current = { ...this.current, status: 'succeeded' };
  }
}

describe('a caller that waits for a job', () => {
  test('is notified of its end, and does not poll', async () => {
    const ledger = new FakeLedger('here');
    const waiting = makeCompletion(ledger, NEVER_MS).waitFor('one', LONG_MS);
    await vi.waitFor(() => expect(ledger.jobs.find).toHaveBeenCalledTimes(1));
    ledger.notify(['another']);
    ledger.end();
    ledger.notify(['one']);
    expect(await waiting).toMatchObject({ status: 'succeeded' });
    expect(ledger.jobs.find).toHaveBeenCalledTimes(2);
    expect(ledger.awaitEnd).not.toHaveBeenCalled();
  });

  test('does not miss a notification while it reads', async () => {
    const ledger = new FakeLedger('here');
    const before = ledger.current;
    ledger.jobs.find.mockImplementationOnce(() => {
      ledger.end();
      ledger.notify(['one']);
      return Promise.resolve(before);
    });
    const waiting = makeCompletion(ledger, NEVER_MS).waitFor('one', LONG_MS);
    expect(await waiting).toMatchObject({ status: 'succeeded' });
  });

  test('asks to be notified when the row does not say so, and reads once more', async () => {
    const ledger = new FakeLedger('elsewhere');
    ledger.awaitEnd.mockImplementationOnce(() => {
      // The job ends before the ledger knows that it is awaited here.
      ledger.end();
      return Promise.resolve();
    });
    const waiting = makeCompletion(ledger, NEVER_MS).waitFor('one', LONG_MS);
    expect(await waiting).toMatchObject({ status: 'succeeded' });
    expect(ledger.awaitEnd.mock.calls).toEqual([['job', 'one']]);
  });

  test('reads when a notification may have been missed', async () => {
    const ledger = new FakeLedger('here');
    const waiting = makeCompletion(ledger, NEVER_MS).waitFor('one', LONG_MS);
    await vi.waitFor(() => expect(ledger.jobs.find).toHaveBeenCalledTimes(1));
    ledger.end();
    ledger.notify(undefined);
    expect(await waiting).toMatchObject({ status: 'succeeded' });
  });

  test('reads at intervals without a notification', async () => {
    const ledger = new FakeLedger('here');
    const waiting = makeCompletion(ledger, 5).waitFor('one', LONG_MS);
    await vi.waitFor(() => expect(ledger.jobs.find.mock.calls.length).toBeGreaterThan(2));
    ledger.end();
    expect(await waiting).toMatchObject({ status: 'succeeded' });
  });

  test('gets the current job when the time is over, or the caller is gone', async () => {
    const ledger = new FakeLedger('here');
    const waiters = makeCompletion(ledger, NEVER_MS);
    expect(await waiters.waitFor('one', 5)).toMatchObject({ status: 'running' });
    const gone = new AbortController();
    const waiting = waiters.waitFor('one', LONG_MS, gone.signal);
    gone.abort();
    expect(await waiting).toMatchObject({ status: 'running' });
  });

  test('a caller that only reads neither listens nor asks to be notified', async () => {
    const ledger = new FakeLedger(null);
    const onEnds = vi.spyOn(ledger, 'onEnds');
    await makeCompletion(ledger).waitFor('one', 0);
    expect(onEnds).not.toHaveBeenCalled();
    expect(ledger.awaitEnd).not.toHaveBeenCalled();
  });
});

describe('a caller that expects the end of a job', () => {
  const end: JobEnd = { status: 'succeeded', result: '{"result":1}' };

  test('reads nothing if the result is known, even if it came first', async () => {
    const ledger = new FakeLedger('here');
    const expected = makeCompletion(ledger, NEVER_MS).expectEnd('one');
    ledger.notify(['one'], new Map([['one', end]]));
    expect(await expected.wait(LONG_MS)).toBe(end);
    expect(ledger.jobs.find).not.toHaveBeenCalled();
    expect(ledger.attempts.listByJob).not.toHaveBeenCalled();
  });

  test('reads when it only learns that the job ended', async () => {
    const ledger = new FakeLedger('here');
    const waiting = makeCompletion(ledger, NEVER_MS).expectEnd('one').wait(LONG_MS);
    ledger.end();
    ledger.attempts.listByJob.mockResolvedValueOnce([
      { result: 'first' },
      { result: 'last' },
    ] as Attempt[]);
    ledger.notify(['one'], new Map([['another', end]]));
    expect(await waiting).toEqual({ status: 'succeeded', result: 'last' });
    expect(ledger.attempts.listByJob.mock.calls).toEqual([[['one']]]);
  });

  test('reads at intervals without a notification', async () => {
    const ledger = new FakeLedger('here');
    ledger.end();
    const waiting = makeCompletion(ledger, 5).expectEnd('one').wait(LONG_MS);
    expect(await waiting).toEqual({ status: 'succeeded', result: null });
  });

  test('is not notified of a job that takes longer than the time or the caller', async () => {
    const ledger = new FakeLedger('here');
    const waiters = makeCompletion(ledger, NEVER_MS);
    expect(await waiters.expectEnd('one').wait(5)).toBeUndefined();
    const gone = new AbortController();
    const waiting = waiters.expectEnd('one').wait(LONG_MS, gone.signal);
    gone.abort();
    expect(await waiting).toBeUndefined();
    expect(await waiters.expectEnd('one').wait(LONG_MS, gone.signal)).toBeUndefined();
    expect(ledger.attempts.listByJob).not.toHaveBeenCalled();
  });

  test('is not notified any more after it was dropped', async () => {
    const ledger = new FakeLedger('here');
    const expected = makeCompletion(ledger, NEVER_MS).expectEnd('one');
    expected.drop();
    ledger.notify(['one'], new Map([['one', end]]));
    expect(await expected.wait(5)).toBeUndefined();
  });
});
