/** Ended jobs that are done again, jobs that are due later, and what jobs can be found by. */
import { retryOneJob } from '../../src/job/bulk.sql.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { draftRetry, type Retry } from '../../src/job/bulk.ts';
import type { Job } from '../../src/job/job.ts';
import { openExplainer } from '../support/ledger/explain.ts';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import {
  claimAs,
  draft,
  fail,
  pausing,
  settleOne,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

function retryOf(job: Job): Retry {
  return { of: job.id, job: draftRetry(job, { id: makeId(), actor: 'ann', maxAttempts: 2 }) };
}

describe.each(databases)('retrying on %s', (kind) => {
  test('makes a new job of the same lineage and under the same key', async () => {
    const { ledger, job } = await openBench(kind);
    const old = await startOne(ledger, 'p1', {
      payload: '{"a":1}',
      rootJobId: 'root',
      parentJobId: 'parent',
      idempotencyKey: 'same',
      hops: 3,
    });
    await settleOne(ledger, fail(old));
    const retry = retryOf(await job(old.id));
    expect((await ledger.jobs.retryMany([retry])).results).toEqual([
      { kind: 'queued', jobId: retry.job.id },
    ]);
    expect(await job(retry.job.id)).toMatchObject({
      status: 'queued',
      payload: '{"a":1}',
      retryOf: old.id,
      rootJobId: 'root',
      parentJobId: 'parent',
      idempotencyKey: 'same',
      hops: 3,
      attempt: 1,
      retryCount: 0,
      maxAttempts: 2,
      submittedBy: 'directive',
      actor: 'ann',
    });
    expect((await job(old.id)).status).toBe('failed');
  });

  test('takes up only what has ended, and only once at a time', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    expect((await ledger.jobs.retryMany([retryOf(started)])).results).toEqual([{ kind: 'open' }]);
    const nobody = { ...retryOf(started), of: 'nobody' };
    expect((await ledger.jobs.retryMany([nobody])).results).toEqual([{ kind: 'unknown' }]);
    await settleOne(ledger, fail(started));
    const first = retryOf(await job(started.id));
    await ledger.jobs.retryMany([first]);
    const second = retryOf(await job(started.id));
    const underWay = [{ kind: 'under_way', jobId: first.job.id }];
    expect((await ledger.jobs.retryMany([second])).results).toEqual(underWay);
    // A repeated request after a lost response gets the same job.
    expect((await ledger.jobs.retryMany([first])).results).toEqual([
      { kind: 'queued', jobId: first.job.id },
    ]);
    await settleOne(ledger, succeed(only(await claimAs(ledger, 'p1'))));
    expect((await ledger.jobs.retryMany([second])).results).toMatchObject([{ kind: 'queued' }]);
  });

  test('that only the first may do is refused after one that has ended, too', async () => {
    const { ledger, job } = await openBench(kind);
    const old = await startOne(ledger, 'p1');
    await settleOne(ledger, fail(old));
    const first = { ...retryOf(await job(old.id)), isFirst: true };
    expect((await ledger.jobs.retryMany([first])).results).toMatchObject([{ kind: 'queued' }]);
    await settleOne(ledger, fail(only(await claimAs(ledger, 'p1'))));
    const second = { ...retryOf(await job(old.id)), isFirst: true };
    expect((await ledger.jobs.retryMany([second])).results).toEqual([
      { kind: 'under_way', jobId: first.job.id },
    ]);
    expect((await ledger.jobs.retryMany([first])).results).toEqual([
      { kind: 'queued', jobId: first.job.id },
    ]);
  });

  test('is not stopped by its own success, but by that of another', async () => {
    const { ledger, job } = await openBench(kind);
    const old = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, succeed(old));
    const retry = retryOf(await job(old.id));
    expect((await ledger.jobs.retryMany([retry])).results).toMatchObject([{ kind: 'queued' }]);
    await settleOne(ledger, fail(only(await claimAs(ledger, 'p1'))));
    const other = draft({ dedupe: strict('k') });
    await ledger.jobs.enqueue({ jobs: [other] });
    expect((await ledger.jobs.retryMany([retryOf(await job(old.id))])).results).toEqual([
      { kind: 'under_way', jobId: other.id },
    ]);
  });

  test('is a directive that names the new job', async () => {
    const { ledger, job } = await openBench(kind);
    const old = await startOne(ledger, 'p1');
    await settleOne(ledger, fail(old));
    const retry = retryOf(await job(old.id));
    const request = pausing(
      { type: 'job.retry', target: `job:${old.id}`, sameness: 'each' },
      (tx) => retryOneJob(tx, retry),
    );
    const { directive } = await ledger.directives.create(request);
    expect(JSON.parse(directive.result ?? '')).toEqual({
      job_id: retry.job.id,
      retry_of: old.id,
      outcome: 'queued',
    });
  });

  test('in bulk leaves out jobs that were retried before', async () => {
    const { ledger, job } = await openBench(kind);
    const old = await startOne(ledger, 'p1');
    await settleOne(ledger, fail(old));
    const filter = { status: ['failed'], notRetried: true, limit: 9 } as const;
    expect(await ledger.jobs.count(filter)).toBe(1);
    await ledger.jobs.retryMany([retryOf(await job(old.id))]);
    expect(await ledger.jobs.count(filter)).toBe(0);
  });
});

describe.each(databases)('cancelling many on %s', (kind) => {
  test('returns a result for each job', async () => {
    const { ledger } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    const waiting = draft();
    await ledger.jobs.enqueue({ jobs: [waiting] });
    const ids = [waiting.id, started.id, 'nobody'].toSorted();
    const { results } = await ledger.jobs.cancelMany(ids);
    const byId = Object.fromEntries(ids.map((id, index) => [id, results[index]]));
    expect(byId).toEqual({
      [waiting.id]: 'cancelled',
      [started.id]: 'requested',
      nobody: 'unknown',
    });
  });
});

describe.each(databases)('a job that is due later on %s', (kind) => {
  test('waits by the clock of the database, and is then ready', async () => {
    const { ledger, job, sql } = await openBench(kind);
    const [delayed, timed] = [
      draft({ due: { inMs: 3_600_000 } }),
      draft({ due: { at: '2999-01-01T00:00:00.000Z' } }),
    ];
    await ledger.jobs.enqueue({ jobs: [delayed, timed] });
    expect((await job(timed.id)).nextRetryAt).toBe('2999-01-01T00:00:00.000Z');
    expect((await job(timed.id)).readyAt).toBe('2999-01-01T00:00:00.000Z');
    expect(await claimAs(ledger, 'p1')).toEqual([]);
    const { promoted, nextInMs = 0 } = await ledger.jobs.promote();
    expect(promoted).toBe(0);
    expect(Math.abs(nextInMs - 3_600_000)).toBeLessThan(60_000);
    await sql(`update job_queue set next_retry_at = '2000-01-01T00:00:00.000Z' where id = ?`, [
      delayed.id,
    ]);
    expect(await ledger.jobs.promote()).toMatchObject({ promoted: 1 });
    expect(only(await claimAs(ledger, 'p1')).id).toBe(delayed.id);
  });

  test('is ready at once when its time is over, and no older than its acceptance', async () => {
    const { ledger, job } = await openBench(kind);
    const jobs = [draft({ due: { at: '2000-01-01T00:00:00.000Z' } }), draft({ due: { inMs: 0 } })];
    await ledger.jobs.enqueue({ jobs });
    for (const { id } of jobs) {
      const { nextRetryAt, readyAt, createdAt } = await job(id);
      expect([nextRetryAt, readyAt >= createdAt]).toEqual([null, true]);
    }
    expect(await claimAs(ledger, 'p1')).toHaveLength(2);
  });
});

describe.each(databases)('jobs on %s', (kind) => {
  test('are found by submitter, time and error', async () => {
    const { ledger, sql } = await openBench(kind);
    const old = draft({ submittedBy: 'cli' });
    await ledger.jobs.enqueue({ jobs: [old] });
    await sql(`update job_queue set created_at = '2020-05-05T00:00:00.000Z',
      last_error = 'Connection REFUSED by 100%_host!'`);
    const young = draft();
    await ledger.jobs.enqueue({ jobs: [young] });
    const find = async (filter: object): Promise<string[]> =>
      (await ledger.jobs.list({ limit: 9, ...filter })).map(({ id }) => id);
    expect(await find({ submittedBy: 'cli' })).toEqual([old.id]);
    expect(await find({ from: '2021-01-01T00:00:00.000Z' })).toEqual([young.id]);
    expect(await find({ to: '2021-01-01T00:00:00.000Z' })).toEqual([old.id]);
    expect(await find({ olderThanMs: 60_000 })).toEqual([old.id]);
    expect(await find({ query: 'connection refused' })).toEqual([old.id]);
    expect(await find({ query: '100%_HOST!' })).toEqual([old.id]);
    expect(await find({ query: '1_0' })).toEqual([]);
    expect(await find({ upToSeq: 0 })).toEqual([]);
    expect(await ledger.jobs.count({ limit: 1 })).toBe(1);
    expect(await ledger.jobs.count({ limit: 9 })).toBe(2);
  });
});

test('many jobs are cancelled and retried with as many statements as a few', async () => {
  const bench = await openBench('postgres');
  const { ledger, explain } = await openExplainer(bench);
  const count = async (jobs: number): Promise<[cancel: number, retry: number]> => {
    const drafts = Array.from({ length: jobs }, () => draft({ dedupe: strict(makeId()) }));
    await ledger.jobs.enqueue({ jobs: drafts });
    const ids = drafts.map(({ id }) => id);
    const cancelling = await explain(() => ledger.jobs.cancelMany(ids));
    const ended = await Promise.all(ids.map((id) => bench.job(id)));
    const retrying = await explain(() => ledger.jobs.retryMany(ended.map(retryOf)));
    return [cancelling.length, retrying.length];
  };
  const few = await count(3);
  expect(await count(60)).toEqual(few);
  expect(Math.max(...few)).toBeLessThan(12);
});
