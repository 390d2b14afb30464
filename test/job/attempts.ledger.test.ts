import { describe, expect, test } from 'vitest';
import { fromTimestamp } from '../../src/base/clock.ts';
import { limits } from '../../src/base/limits.ts';
import type { AttemptPageFilter } from '../../src/job/attempt.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import {
  claimAs,
  release,
  retryLater,
  settleOne,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';

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
    let page = await ledger.attempts.list({ since: at(0), limit: 1 });
    while (page.length > 0) {
      walked.push(...page.map(({ jobId }) => jobId));
      const { completedAt, id } = page.at(-1) ?? { completedAt: '', id: '' };
      page = await ledger.attempts.list({ after: { completedAt, logId: id }, limit: 1 });
    }
    expect(walked).toEqual(ids);
    const late = await ledger.attempts.list({ since: at(1), limit: 10 });
    expect(late.map(({ jobId }) => jobId)).toEqual(ids.slice(2));
    const newest = await ledger.attempts.list({ limit: 2 });
    expect(newest.map(({ jobId }) => jobId)).toEqual(ids.slice(4).toReversed());
    const back: string[] = [];
    page = await ledger.attempts.list({ limit: 1 });
    while (page.length > 0) {
      back.push(...page.map(({ jobId }) => jobId));
      const { completedAt, id } = page.at(-1) ?? { completedAt: '', id: '' };
      page = await ledger.attempts.list({ before: { completedAt, logId: id }, limit: 1 });
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

  test('are narrowed by command, submitter, moment and what they said', async () => {
    const { ledger, sql } = await openBench(kind);
    const rows = [
      ['poll', 'api', 'connection Refused', null, '{"a":1}'],
      ['handle', 'api', null, 'a warning of 100%', '{"b":"found"}'],
      ['handle', 'scheduler', null, null, '{"status":"ok"}'],
    ] as const;
    const ids: string[] = [];
    for (const [index, [command, by, error, stderr, result]] of rows.entries()) {
      const job = await startOne(ledger, 'p1');
      await settleOne(ledger, succeed(job));
      await sql(
        `update job_log set command = ?, submitted_by = ?, last_error = ?, stderr = ?, result = ?,
          completed_at = ? where job_id = ?`,
        [command, by, error, stderr, result, at(index), job.id],
      );
      ids.push(job.id);
    }
    const [refused, warned, plain] = ids;
    const list = async (filter: Partial<AttemptPageFilter>): Promise<unknown[]> => {
      const { attempts, cut } = await ledger.attempts.page({ limit: 9, ...filter });
      expect(cut).toBeUndefined();
      return attempts.map(({ jobId }) => jobId);
    };
    expect(await list({})).toEqual([plain, warned, refused]);
    expect(await list({ command: 'handle' })).toEqual([plain, warned]);
    expect(await list({ submittedBy: 'api' })).toEqual([warned, refused]);
    expect(await list({ submittedBy: 'api', since: at(0) })).toEqual([refused, warned]);
    expect(await list({ query: 'rEFUSED' })).toEqual([refused]);
    expect(await list({ query: '100%' })).toEqual([warned]);
    expect(await list({ query: '1%0' })).toEqual([]);
    expect(await list({ query: 'found', command: 'handle' })).toEqual([warned]);
    expect(await list({ from: at(1) })).toEqual([plain, warned]);
    expect(await list({ to: at(1) })).toEqual([refused]);
    expect(await list({ from: at(1), to: at(2), command: 'handle' })).toEqual([warned]);
    expect(await list({ correlationId: warned ?? '', command: 'handle' })).toEqual([warned]);
    expect(await list({ correlationId: warned ?? '', query: 'refused' })).toEqual([]);
    expect(await list({ jobId: plain ?? '', query: 'status' })).toEqual([plain]);
  });

  test('in a search are visited up to a limit, and the next page continues there', async () => {
    const { ledger, sql } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(job));
    const more = limits.searchVisitMax + 5;
    const names = ['plugin', 'command', 'submitted_by', 'created_at', 'status', 'cause'];
    const numbers =
      kind === 'sqlite'
        ? `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${more})`
        : `with n(i) as (select generate_series(1, ${more}))`;
    await sql(`insert into job_log (id, job_id, attempt, completed_at, ${names.join(', ')})
      ${numbers} select 'later-' || (100000 + i), 'later-' || i, 1, '2100-01-01T00:00:00.000Z', ${names.join(', ')}
        from n, job_log where true`);
    await sql('update job_log set last_error = ? where job_id = ?', ['needle', job.id]);
    const first = await ledger.attempts.page({ query: 'needle', limit: 9 });
    expect(first.attempts).toEqual([]);
    expect(first.cut).toMatchObject({ logId: `later-${100_000 + 6}` });
    const second = await ledger.attempts.page({
      query: 'needle',
      limit: 9,
      ...(first.cut && { before: first.cut }),
    });
    expect(second).toMatchObject({ attempts: [{ jobId: job.id }], cut: undefined });
  });
});
