import { afterEach, describe, expect, test, vi } from 'vitest';
import { databases, only, openBench, range, type Bench } from '../support/ledger/bench.ts';
import { claimAs, draft, retryLater, settleOne, startOne } from '../support/ledger/drafts.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

afterEach(() => void vi.useRealTimers());

describe.each(databases)('delayed jobs on %s', (kind) => {
  test('are not seen before they are due', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await settleOne(ledger, retryLater(job, 60_000));
    const { promoted, nextInMs } = await ledger.jobs.promote();
    expect(promoted).toBe(0);
    expect(nextInMs).toBeGreaterThan(50_000);
    expect(nextInMs).toBeLessThanOrEqual(60_000);
    expect(await claimAs(ledger, 'p1')).toEqual([]);
    expect(await ledger.jobs.countQueue()).toMatchObject({
      ready: 0,
      delayed: 1,
      oldestReadyAt: null,
    });
  });

  test('wait from the moment in which their last attempt has ended', async () => {
    const { ledger, job, sql } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(100).map(() => draft()) });
    const claimed = await claimAs(ledger, 'p1', { slots: 100 });
    if (kind === 'postgres') await takeTimeToWrite(sql);
    await ledger.jobs.settle(claimed.map((one) => retryLater(one, 60_000)));
    const waits: number[] = [];
    for (const { jobId, completedAt } of await ledger.attempts.listByJob(
      claimed.map(({ id }) => id),
    )) {
      const { nextRetryAt } = await job(jobId);
      waits.push(Date.parse(nextRetryAt ?? '') - Date.parse(completedAt));
    }
    expect(waits).toEqual(range(100).map(() => 60_000));
  });

  test('are due by the clock of the database, whatever this process believes', async () => {
    const { ledger } = await openBench(kind);
    await settleOne(ledger, retryLater(await startOne(ledger, 'p1'), 60_000));
    const now = Date.now();
    for (const wrong of [now + 30 * DAY_MS, now - 30 * DAY_MS]) {
      vi.useFakeTimers({ toFake: ['Date'], now: wrong });
      const { promoted, nextInMs } = await ledger.jobs.promote();
      expect(promoted).toBe(0);
      expect(nextInMs).toBeLessThanOrEqual(60_000);
      const at = Date.parse(await ledger.now());
      expect(Math.abs(at - now)).toBeLessThan(60_000);
    }
  });

  test('are ready once due, and take their old places', async () => {
    const { ledger, sql } = await openBench(kind);
    const jobs = range(4).map(() => draft());
    await ledger.jobs.enqueue({ jobs });
    const claimed = await claimAs(ledger, 'p1');
    await ledger.jobs.settle(claimed.map((job) => retryLater(job)));
    const later = draft();
    await ledger.jobs.enqueue({ jobs: [later] });
    // The younger of them became due first.
    for (const [index, { id }] of jobs.toReversed().entries()) {
      await sql('update job_queue set next_retry_at = ? where id = ?', [
        `2000-01-0${index + 1}T00:00:00.000Z`,
        id,
      ]);
    }
    expect(await ledger.jobs.promote()).toEqual({ promoted: 4, nextInMs: undefined });
    const order = (await claimAs(ledger, 'p1')).map(({ id }) => id);
    expect(order).toEqual([...jobs, later].map(({ id }) => id));
  });

  test('are let in in bounded numbers, the longest due first', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(1200).map(() => draft()) });
    await sql(`update job_queue set next_retry_at = '2000-01-02T00:00:00.000Z'`);
    const oldest = only(await ledger.jobs.list({ limit: 1 }));
    await sql(`update job_queue set next_retry_at = '2000-01-01T00:00:00.000Z' where id = ?`, [
      oldest.id,
    ]);
    expect(await ledger.jobs.promote()).toEqual({ promoted: 1000, nextInMs: 0 });
    expect((await ledger.jobs.find(oldest.id))?.nextRetryAt).toBeNull();
    expect(await ledger.jobs.promote()).toEqual({ promoted: 200, nextInMs: undefined });
  });

  test('say when the next one is due', async () => {
    const { ledger } = await openBench(kind);
    expect(await ledger.jobs.promote()).toEqual({ promoted: 0, nextInMs: undefined });
    for (const delayMs of [300_000, 100_000, 200_000]) {
      await settleOne(ledger, retryLater(await startOne(ledger, 'p1'), delayMs));
    }
    const { nextInMs } = await ledger.jobs.promote();
    expect(nextInMs).toBeGreaterThan(90_000);
    expect(nextInMs).toBeLessThanOrEqual(100_000);
  });
});

/** Delays each update between the change of the row and the response to its writer. */
async function takeTimeToWrite(sql: Bench['sql']): Promise<void> {
  await sql(`create function linger() returns trigger language plpgsql as
    'begin perform pg_sleep(0.003); return new; end'`);
  await sql(`create trigger linger before update on job_queue
    for each row execute function linger()`);
}
