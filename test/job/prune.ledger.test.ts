import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import { prunableKinds, type PrunableKind } from '../../src/job/types.ts';
import { due, dueAgain, entry, firing, NOW } from '../support/ledger/schedules.ts';
import { databases, openBench, range, type Bench } from '../support/ledger/bench.ts';
import {
  claimAs,
  draft,
  release,
  retryLater,
  settleOne,
  signalOf,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

const HOUR_MS = 60 * 60 * 1000;
const LONG_AGO = '2000-01-01T00:00:00.000Z';

function pruneAll({ ledger }: Bench, what: PrunableKind, limit = 1000): Promise<number> {
  return ledger.history.prune({ what, olderThanMs: HOUR_MS, limit });
}

describe.each(databases)('pruning on %s', (kind) => {
  test('takes nothing that is young', async () => {
    const bench = await openBench(kind);
    const { ledger, dump } = bench;
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, succeed(job, { signals: [signalOf(job)] }));
    const before = await dump();
    for (const what of ['jobs', 'attempts', 'signals', 'facts', 'contexts', 'dedupe'] as const) {
      expect(await pruneAll(bench, what)).toBe(0);
    }
    expect(await dump()).toEqual(before);
  });

  test('rows within the longest retention that can be configured are kept', async () => {
    const bench = await openBench(kind);
    const { ledger, dump } = bench;
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    await settleOne(ledger, succeed(job, { signals: [signalOf(job)] }));
    const before = await dump();
    for (const what of prunableKinds) {
      expect(
        await ledger.history.prune({ what, olderThanMs: limits.durationMsMax, limit: 10 }),
      ).toBe(0);
    }
    expect(await dump()).toEqual(before);
  });

  test('jobs: takes old ended ones, and no open one however old', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const [ended, running, delayed] = [
      await startOne(ledger, 'p1'),
      await startOne(ledger, 'p1'),
      await startOne(ledger, 'p1'),
    ];
    await settleOne(ledger, succeed(ended));
    await settleOne(ledger, retryLater(delayed));
    const young = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(young));
    const waiting = draft();
    await ledger.jobs.enqueue({ jobs: [waiting] });
    await sql('update job_queue set created_at = ?, ready_at = ?', [LONG_AGO, LONG_AGO]);
    await sql('update job_queue set completed_at = ? where id = ?', [LONG_AGO, ended.id]);
    expect(await pruneAll(bench, 'jobs')).toBe(1);
    const left = await ledger.jobs.list({ limit: 10, order: 'oldest' });
    expect(left.map(({ id }) => id)).toEqual([running.id, delayed.id, young.id, waiting.id]);
  });

  test('attempts: keeps the history of a job that is still open', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const open = await startOne(ledger, 'p1');
    await settleOne(ledger, release(open));
    const [again] = await claimAs(ledger, 'p1');
    const ended = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(ended));
    await sql('update job_log set completed_at = ?', [LONG_AGO]);
    await sql('update job_queue set completed_at = ? where id = ?', [LONG_AGO, ended.id]);
    expect(await pruneAll(bench, 'attempts')).toBe(1);
    expect(await ledger.attempts.listByJob([ended.id])).toEqual([]);
    expect(await ledger.attempts.listByJob([open.id])).toHaveLength(1);
    // The check doesn't miss pruned rows, even if the open job ends.
    expect(await ledger.check()).toEqual([]);
    if (again !== undefined) await settleOne(ledger, succeed(again));
    expect(await ledger.check()).toEqual([]);
    expect(await pruneAll(bench, 'attempts')).toBe(1);
    expect(await ledger.check()).toEqual([]);
  });

  test('attempts: one that is missing without having been pruned is noticed', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const job = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(job));
    const rows = await sql('select * from job_log');
    await sql('delete from job_log');
    expect(await ledger.check()).toEqual(['1 succeeded jobs without their attempt']);
    const columns = Object.keys(rows[0] ?? {});
    await sql(
      `insert into job_log (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
      Object.values(rows[0] ?? {}),
    );
  });

  test('signals: keeps those that caused a job that is still open', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const job = await startOne(ledger, 'p1');
    const signals = range(3).map((index) => signalOf(job, index));
    const jobs = signals.slice(0, 2).map(({ id }) => draft({ sourceEventId: id }));
    await settleOne(ledger, succeed(job, { signals, jobs }));
    const [first] = await claimAs(ledger, 'p1', { slots: 1 });
    if (first !== undefined) await settleOne(ledger, succeed(first));
    await sql('update signals set occurred_at = ?, inserted_at = ?', [LONG_AGO, LONG_AGO]);
    expect(await pruneAll(bench, 'signals')).toBe(2);
    expect((await ledger.signals.list({ limit: 10 })).map(({ id }) => id)).toEqual([
      signals[1]?.id,
    ]);
  });

  test.each(['occurred_at', 'inserted_at'])(
    'signals: %s alone does not make one old',
    async (one) => {
      const bench = await openBench(kind);
      const { ledger, sql } = bench;
      const job = await startOne(ledger, 'p1');
      await settleOne(ledger, succeed(job, { signals: [signalOf(job)] }));
      await sql(`update signals set ${one} = ?`, [LONG_AGO]);
      expect(await pruneAll(bench, 'signals')).toBe(0);
      await sql('update signals set occurred_at = ?, inserted_at = ?', ['2000-01-02', LONG_AGO]);
      expect(await pruneAll(bench, 'signals')).toBe(1);
    },
  );

  test('facts: keeps the latest of each plugin, which is its memory', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    for (const [index, plugin] of ['a', 'a', 'b', 'a', 'b'].entries()) {
      const job = await startOne(ledger, 'p1', { plugin });
      const value = JSON.stringify({ index });
      const state = { kind: 'snapshot', factType: 'seen', mirror: true, value } as const;
      await settleOne(ledger, succeed(job, { state }));
    }
    await sql('update plugin_facts set created_at = ?', [LONG_AGO]);
    expect(await pruneAll(bench, 'facts')).toBe(3);
    expect(await ledger.plugins.listFacts('a', 10)).toMatchObject([{ fact: '{"index":3}' }]);
    expect(await ledger.plugins.listFacts('b', 10)).toMatchObject([{ fact: '{"index":4}' }]);
    expect(await ledger.plugins.readState('a')).toBe('{"index":3}');
  });

  test('contexts: keeps those that a job still refers to', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const [used, unused] = [makeId(), makeId()];
    const contexts = [used, unused].map((id) => ({ id, accumulated: '{"bag":1}' }));
    await ledger.jobs.enqueue({ jobs: [draft({ eventContextId: used })], contexts });
    await sql('update event_context set created_at = ?', [LONG_AGO]);
    expect(await pruneAll(bench, 'contexts')).toBe(1);
    const [job] = await claimAs(ledger, 'p1');
    expect(job?.context).toBe('{"bag":1}');
    if (job !== undefined) await settleOne(ledger, succeed(job));
    expect(await pruneAll(bench, 'contexts')).toBe(0);
    await sql('update job_queue set completed_at = ?', [LONG_AGO]);
    await pruneAll(bench, 'jobs');
    expect(await pruneAll(bench, 'contexts')).toBe(1);
  });

  test('dedupe: takes keys whose time is over, and none that is held', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const job = await startOne(ledger, 'p1', { dedupe: strict('over') });
    await settleOne(ledger, succeed(job));
    const other = await startOne(ledger, 'p1', { dedupe: strict('lasting') });
    await settleOne(ledger, succeed(other));
    await ledger.jobs.enqueue({ jobs: [draft({ dedupe: strict('held') })] });
    await sql(`update job_dedupe set blocks_until = ? where dedupe_key = 'over'`, [LONG_AGO]);
    expect(await ledger.history.prune({ what: 'dedupe', olderThanMs: 0, limit: 10 })).toBe(1);
    const left = await sql('select dedupe_key from job_dedupe order by dedupe_key');
    expect(left.map((row) => row['dedupe_key'])).toEqual(['held', 'lasting']);
  });

  test('jobs: the last one of an interval stays, because the next counts from it', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const modes = ['every', 'cron'] as const;
    await ledger.schedules.sync(modes.map((mode) => entry({ mode, scheduleId: mode })));
    const firings = (await due(ledger)).map((one) => firing(one));
    await ledger.schedules.fire({ now: NOW, firings });
    for (const job of await claimAs(ledger, 'p1', { slots: 2 })) {
      await settleOne(ledger, succeed(job));
    }
    await sql('update job_queue set completed_at = ?', [LONG_AGO]);
    await dueAgain(sql);
    expect(await pruneAll(bench, 'jobs')).toBe(1);
    const found = (await due(ledger)).map(({ scheduleId, lastCompletedAt }) => [
      scheduleId,
      lastCompletedAt,
    ]);
    expect(found).toEqual([
      ['cron', null],
      ['every', LONG_AGO],
    ]);
    await ledger.schedules.retire([{ plugin: 'echo', scheduleId: 'every' }]);
    expect(await pruneAll(bench, 'jobs')).toBe(1);
  });

  test('schedules: takes those that are retired for long and have no job', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const ids = ['active', 'retired', 'worked', 'young'];
    await ledger.schedules.sync(ids.map((scheduleId) => entry({ scheduleId })));
    const firings = (await due(ledger)).filter(({ scheduleId }) => scheduleId === 'worked');
    await ledger.schedules.fire({ now: NOW, firings: firings.map((one) => firing(one)) });
    await ledger.schedules.retire(
      ids.slice(1).map((scheduleId) => ({ plugin: 'echo', scheduleId })),
    );
    await sql(`update schedules set updated_at = ? where schedule_id <> 'young'`, [LONG_AGO]);
    expect(await pruneAll(bench, 'schedules')).toBe(1);
    const left = await ledger.schedules.list({ limit: 9 });
    expect(left.map(({ scheduleId }) => scheduleId)).toEqual(['active', 'worked', 'young']);
  });

  test('works in bounded steps, the oldest first', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    await ledger.jobs.enqueue({ jobs: range(25).map(() => draft()) });
    const claimed = await claimAs(ledger, 'p1', { slots: 25 });
    await ledger.jobs.settle(
      claimed.map((job) => {
        const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{}' } as const;
        return succeed(job, { signals: [signalOf(job)], state });
      }),
    );
    for (const [index, { id }] of claimed.toReversed().entries()) {
      const at = `2000-01-01T00:00:00.${String(index).padStart(3, '0')}Z`;
      await sql('update job_queue set completed_at = ? where id = ?', [at, id]);
      await sql('update job_log set completed_at = ? where job_id = ?', [at, id]);
    }
    await sql('update signals set occurred_at = ?, inserted_at = ?', [LONG_AGO, LONG_AGO]);
    await sql('update plugin_facts set created_at = ?', [LONG_AGO]);
    const steps = async (what: PrunableKind): Promise<number[]> => {
      const counts: number[] = [];
      do counts.push(await pruneAll(bench, what, 10));
      while (counts.at(-1) !== 0);
      return counts;
    };
    expect(await pruneAll(bench, 'attempts', 10)).toBe(10);
    const recent = claimed.slice(0, 15).map(({ id }) => id);
    expect((await ledger.attempts.list({ limit: 100 })).map(({ jobId }) => jobId)).toEqual(recent);
    expect(await steps('attempts')).toEqual([10, 5, 0]);
    expect(await steps('jobs')).toEqual([10, 10, 5, 0]);
    expect(await steps('signals')).toEqual([10, 10, 5, 0]);
    expect(await steps('facts')).toEqual([10, 10, 4, 0]);
  });
});
