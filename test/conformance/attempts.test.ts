import { describe, expect, test } from 'vitest';
import { databases, openBench, range } from './support.ts';
import { settleOne, startOne, succeed } from './words.ts';

const at = (second: number): string => `2026-01-01T00:00:0${second}.000Z`;

describe.each(databases)('attempts on %s', (kind) => {
  test('are walked oldest first, page by page, also those of one moment', async () => {
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
  });
});
