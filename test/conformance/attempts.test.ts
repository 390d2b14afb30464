import { describe, expect, test } from 'vitest';
import { fromTimestamp } from '../../src/base/clock.ts';
import { databases, only, openBench, range } from './support.ts';
import { claimAs, release, retryLater, settleOne, startOne, succeed } from './words.ts';

const at = (second: number): string => `2026-01-01T00:00:0${second}.000Z`;

describe.each(databases)('attempts on %s', (kind) => {
  test('are walked both ways, page by page, also those of one moment', async () => {
    const { ledger, sql } = await openBench(kind);
    const ids: string[] = [];
    for (const number of range(6)) {
      const job = await startOne(ledger, 'p1');
      await settleOne(ledger, succeed(job));
      ids.push(job.id);
      // Two of each moment, so that the end of a page falls between two that are alike.
      const moment = at(Math.floor(number / 2));
      await sql('update job_log set completed_at = ? where job_id = ?', [moment, job.id]);
    }
    const walked: string[] = [];
    let page = await ledger.attemptsOf({ since: at(0), limit: 1 });
    while (page.length > 0) {
      walked.push(...page.map(({ jobId }) => jobId));
      const { completedAt, id } = page.at(-1) ?? { completedAt: '', id: '' };
      page = await ledger.attemptsOf({ after: { completedAt, logId: id }, limit: 1 });
    }
    expect(walked).toEqual(ids);
    const late = await ledger.attemptsOf({ since: at(1), limit: 10 });
    expect(late.map(({ jobId }) => jobId)).toEqual(ids.slice(2));
    const newest = await ledger.attemptsOf({ limit: 2 });
    expect(newest.map(({ jobId }) => jobId)).toEqual(ids.slice(4).toReversed());
    const back: string[] = [];
    page = await ledger.attemptsOf({ limit: 1 });
    while (page.length > 0) {
      back.push(...page.map(({ jobId }) => jobId));
      const { completedAt, id } = page.at(-1) ?? { completedAt: '', id: '' };
      page = await ledger.attemptsOf({ before: { completedAt, logId: id }, limit: 1 });
    }
    expect(back).toEqual(ids.toReversed());
  });

  test('wait from the moment at which they could start', async () => {
    const { ledger, job, sql } = await openBench(kind);
    const age = () => sql('update job_queue set ready_at = ?', [at(0)]);
    const first = await startOne(ledger, 'p1');
    await age();
    await settleOne(ledger, release(first));
    expect((await job(first.id)).readyAt >= first.startedAt).toBe(true);
    const second = only(await claimAs(ledger, 'p1'));
    await settleOne(ledger, retryLater(second, 60_000));
    const { readyAt, nextRetryAt } = await job(first.id);
    const apartMs = fromTimestamp(readyAt) - fromTimestamp(nextRetryAt ?? '');
    expect(Math.abs(apartMs)).toBeLessThan(1000);
    const third = await startOne(ledger, 'p1');
    await age();
    await settleOne(ledger, succeed(third));
    expect((await job(third.id)).readyAt).toBe(at(0));
  });
});
