import { describe, expect, test } from 'vitest';
import type { Dedupe } from '../../src/job/job.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { databases, openBench, type Bench } from '../support/ledger/bench.ts';
import {
  closeUnrunnable,
  claimAs,
  claimable,
  crash,
  draft,
  fail,
  lenient,
  release,
  retryLater,
  settleOne,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

/** Adds one job with the key, and says whose duplicate it is. */
async function ask(ledger: Ledger, dedupe: Dedupe, plugin = 'echo', command = 'handle') {
  const jobDraft = draft({ dedupe, plugin, command });
  const [answer] = await ledger.jobs.enqueue({ jobs: [jobDraft] });
  return { id: jobDraft.id, duplicateOf: answer?.duplicateOf };
}

async function expire({ sql }: Bench): Promise<void> {
  await sql(`update job_dedupe set blocks_until = '2000-01-01T00:00:00.000Z'
    where blocks_until is not null`);
}

describe.each(databases)('a strict key on %s', (kind) => {
  test('is blocked by a job that waits, and nothing is added', async () => {
    const { ledger, dump } = await openBench(kind);
    const first = await ask(ledger, strict('k'));
    const before = await dump();
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(first.id);
    expect(await dump()).toEqual(before);
  });

  test('is blocked by a job that runs, or waits for its next try', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(job.id);
    await settleOne(ledger, retryLater(job));
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(job.id);
  });

  test('is blocked by a success until its time is over', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, succeed(job));
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(job.id);
    await expire(bench);
    expect((await ask(ledger, strict('k'))).duplicateOf).toBeUndefined();
  });

  test('is free as soon as its job succeeded, if its duration is 0', async () => {
    const { ledger } = await openBench(kind);
    await settleOne(ledger, succeed(await startOne(ledger, 'p1', { dedupe: strict('k', 0) })));
    expect((await ask(ledger, strict('k'))).duplicateOf).toBeUndefined();
  });

  test('is released by a final failure', async () => {
    const { ledger } = await openBench(kind);
    await settleOne(ledger, fail(await startOne(ledger, 'p1', { dedupe: strict('k') })));
    expect((await ask(ledger, strict('k'))).duplicateOf).toBeUndefined();
  });

  test('is released by a cancelled job and by one without a runner', async () => {
    const { ledger, job } = await openBench(kind);
    const first = await ask(ledger, strict('k'));
    await ledger.jobs.cancel(first.id);
    const second = await ask(ledger, strict('k'));
    expect(second.duplicateOf).toBeUndefined();
    await settleOne(ledger, closeUnrunnable(await job(second.id)));
    expect((await ask(ledger, strict('k'))).duplicateOf).toBeUndefined();
  });

  test.each([
    ['released', release],
    ['crashed', crash],
  ])('stays taken by a job that was %s', async (_, end: (job: Closing['job']) => Closing) => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, end(job));
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(job.id);
  });

  test('does not meet that of another plugin, command or key', async () => {
    const { ledger } = await openBench(kind);
    await ask(ledger, strict('k'));
    expect((await ask(ledger, strict('k'), 'other')).duplicateOf).toBeUndefined();
    expect((await ask(ledger, strict('k'), 'echo', 'poll')).duplicateOf).toBeUndefined();
    expect((await ask(ledger, strict('K'))).duplicateOf).toBeUndefined();
  });

  test('keeps apart what would look the same when put together', async () => {
    const { ledger } = await openBench(kind);
    await ask(ledger, strict('a"b'), 'c', 'd');
    expect((await ask(ledger, strict('a'), '"b","c', 'd')).duplicateOf).toBeUndefined();
    expect((await ask(ledger, strict('a"b'), 'c', 'd')).duplicateOf).toBeDefined();
  });
});

describe.each(databases)('a lenient key on %s', (kind) => {
  test('ignores running work, which still never runs at the same time', async () => {
    const { ledger } = await openBench(kind);
    const first = await ask(ledger, lenient('k'));
    const second = await ask(ledger, lenient('k'));
    expect(second.duplicateOf).toBeUndefined();
    const claimed = await claimAs(ledger, 'p1');
    expect(claimed.map(({ id }) => id)).toEqual([first.id]);
    await ledger.jobs.settle(claimed.map((job) => fail(job)));
    expect((await claimAs(ledger, 'p1')).map(({ id }) => id)).toEqual([second.id]);
  });

  test('is blocked by a success until its time is over', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const job = await startOne(ledger, 'p1', { dedupe: lenient('k') });
    await settleOne(ledger, succeed(job));
    expect((await ask(ledger, lenient('k'))).duplicateOf).toBe(job.id);
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(job.id);
    await expire(bench);
    expect((await ask(ledger, lenient('k'))).duplicateOf).toBeUndefined();
  });

  test('holds against a strict one', async () => {
    const { ledger } = await openBench(kind);
    const first = await ask(ledger, lenient('k'));
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(first.id);
  });

  test('the success of any of them blocks, whichever asked last', async () => {
    const { ledger } = await openBench(kind);
    const first = await startOne(ledger, 'p1', { dedupe: lenient('k') });
    const second = await ask(ledger, lenient('k'));
    await settleOne(ledger, succeed(first));
    expect((await ask(ledger, lenient('k'))).duplicateOf).toBe(first.id);
    const [running] = await claimAs(ledger, 'p1');
    expect(running?.id).toBe(second.id);
    if (running !== undefined) await settleOne(ledger, fail(running));
    expect((await ask(ledger, lenient('k'))).duplicateOf).toBe(first.id);
  });
});

describe.each(databases)('several of one key in one batch on %s', (kind) => {
  async function askAll(ledger: Ledger, keys: readonly Dedupe[]): Promise<(number | string)[]> {
    const jobs = keys.map((dedupe) => draft({ dedupe }));
    const answers = await ledger.jobs.enqueue({ jobs });
    // Each result as the index, within the batch, of the job that does the work.
    return answers.map(({ jobId, duplicateOf }) => {
      const place = jobs.findIndex(({ id }) => id === (duplicateOf ?? jobId));
      return place < 0 ? 'earlier' : place;
    });
  }

  test('strict ones are duplicates of the first', async () => {
    const { ledger } = await openBench(kind);
    expect(await askAll(ledger, [strict('k'), strict('k'), strict('other'), strict('k')])).toEqual([
      0, 0, 2, 0,
    ]);
    expect((await ledger.jobs.countQueue()).ready).toBe(2);
  });

  test('lenient ones all pass', async () => {
    const { ledger } = await openBench(kind);
    expect(await askAll(ledger, [lenient('k'), lenient('k'), lenient('k')])).toEqual([0, 1, 2]);
  });

  test('an earlier success blocks every one of them', async () => {
    const { ledger } = await openBench(kind);
    await settleOne(ledger, succeed(await startOne(ledger, 'p1', { dedupe: strict('k') })));
    const keys = [lenient('k'), strict('k'), lenient('k')];
    expect(await askAll(ledger, keys)).toEqual(['earlier', 'earlier', 'earlier']);
    expect((await ledger.jobs.countQueue()).ready).toBe(0);
  });

  test('running work blocks the strict ones only', async () => {
    const { ledger } = await openBench(kind);
    await ask(ledger, strict('k'));
    const keys = [strict('k'), lenient('k'), strict('k'), lenient('k')];
    expect(await askAll(ledger, keys)).toEqual(['earlier', 1, 'earlier', 3]);
  });

  test('a lenient one that comes first blocks a strict one', async () => {
    const { ledger } = await openBench(kind);
    expect(await askAll(ledger, [lenient('k'), strict('k'), lenient('k')])).toEqual([0, 0, 2]);
  });

  test('the same batch asked for again has the same answers', async () => {
    const { ledger, dump } = await openBench(kind);
    const jobs = [draft({ dedupe: strict('k') }), draft({ dedupe: strict('k') }), draft()];
    const first = await ledger.jobs.enqueue({ jobs });
    const before = await dump();
    expect(await ledger.jobs.enqueue({ jobs })).toEqual(first);
    expect(await dump()).toEqual(before);
  });

  test('the same job twice in a batch is not its own duplicate', async () => {
    const { ledger } = await openBench(kind);
    const jobDraft = draft({ dedupe: strict('k') });
    expect(await ledger.jobs.enqueue({ jobs: [jobDraft, jobDraft] })).toEqual([
      { jobId: jobDraft.id },
      { jobId: jobDraft.id },
    ]);
    expect((await ledger.jobs.countQueue()).ready).toBe(1);
  });
});

describe.each(databases)('a keyed job asked for again on %s', (kind) => {
  test('while it is running changes nothing', async () => {
    const { ledger, dump } = await openBench(kind);
    const jobDraft = draft({ dedupe: strict('k') });
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    await claimAs(ledger, 'p1');
    const before = await dump();
    expect(await ledger.jobs.enqueue({ jobs: [jobDraft] })).toEqual([{ jobId: jobDraft.id }]);
    expect(await dump()).toEqual(before);
  });

  test('after it succeeded does not take its key for ever', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, succeed(job));
    const again = draft({ id: job.id, dedupe: strict('k') });
    expect(await ledger.jobs.enqueue({ jobs: [again] })).toEqual([{ jobId: job.id }]);
    await expire(bench);
    expect((await ask(ledger, strict('k'))).duplicateOf).toBeUndefined();
  });

  test('after it failed does not take its key', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, fail(job));
    const again = draft({ id: job.id, dedupe: strict('k') });
    expect(await ledger.jobs.enqueue({ jobs: [again] })).toEqual([{ jobId: job.id }]);
    expect((await ask(ledger, strict('k'))).duplicateOf).toBeUndefined();
  });

  test('is itself, even if another has its key meanwhile', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, fail(job));
    const heir = await ask(ledger, strict('k'));
    const again = draft({ id: job.id, dedupe: strict('k') });
    expect(await ledger.jobs.enqueue({ jobs: [again] })).toEqual([{ jobId: job.id }]);
    expect((await ask(ledger, strict('k'))).duplicateOf).toBe(heir.id);
  });
});

describe.each(databases)('keys of jobs that a settle causes on %s', (kind) => {
  test('are judged like those of any other', async () => {
    const { ledger } = await openBench(kind);
    const cause = await startOne(ledger, 'p1', { dedupe: strict('cause') });
    const waiting = await ask(ledger, strict('k'));
    const jobs = [draft({ dedupe: strict('k') }), draft({ dedupe: strict('new') }), draft()];
    const { enqueued } = await ledger.jobs.settle([succeed(cause, { jobs })]);
    expect(enqueued.map(({ duplicateOf }) => duplicateOf)).toEqual([
      waiting.id,
      undefined,
      undefined,
    ]);
  });

  test('a job may cause the next one of its own key when that is free at once', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1', { dedupe: strict('tick', 0) });
    const next = draft({ dedupe: strict('tick', 0) });
    const { enqueued } = await ledger.jobs.settle([succeed(job, { jobs: [next] })]);
    expect(enqueued).toEqual([{ jobId: next.id }]);
  });

  test('two that close at once with one key leave one success to be found', async () => {
    const { ledger, sql } = await openBench(kind);
    const keys = ['a', 'b', 'c'].map((key) => lenient(key));
    await ledger.jobs.enqueue({ jobs: keys.map((dedupe) => draft({ dedupe })) });
    const claimed = await claimAs(ledger, 'p1', { plugins: [claimable()] });
    expect(claimed).toHaveLength(3);
    await ledger.jobs.settle(claimed.map((job) => succeed(job)));
    const rows = await sql('select count(*) as n from job_dedupe where blocks_until is not null');
    expect(rows).toMatchObject([{ n: 3 }]);
  });
});
