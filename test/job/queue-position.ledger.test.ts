/** The queue position of a job, and the attempts of a whole chain, on both databases. */
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import {
  claimAs,
  claimable,
  draft,
  settleOne,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';

describe.each(databases)('on %s', (kind) => {
  test('the queue position names the running jobs, and counts the jobs ahead', async () => {
    const { ledger } = await openBench(kind);
    const dependent = { plugin: 'other', dependencyKey: 'db' };
    const holder = await startOne(ledger, 'p1', dependent);
    const waiting = [draft(), draft(), draft()];
    await ledger.jobs.enqueue({ jobs: waiting });
    const jobs = await ledger.jobs.list({ plugin: draft().plugin, order: 'oldest', limit: 9 });
    const line = await ledger.jobs.readQueuePosition(jobs[2] ?? { plugin: '', seq: 0 });
    expect(line.ahead).toBe(2);
    expect(line.running).toEqual([
      {
        id: holder.id,
        plugin: 'other',
        command: holder.command,
        startedAt: holder.startedAt,
        claimExpiresAt: holder.claimExpiresAt,
        claimedBy: 'p1',
        dedupeKey: null,
        dependencyKey: 'db',
        suspect: false,
      },
    ]);
  });

  test('the attempts of a chain are those of its first job and of all that follow', async () => {
    const { ledger } = await openBench(kind);
    const first = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(first));
    const child = await startOne(ledger, 'p1', { rootJobId: first.id, parentJobId: first.id });
    await settleOne(ledger, succeed(child));
    const signal = { id: makeId(), type: 'a.b', source: 's', data: '{}', hops: 1 };
    const caused = draft({ sourceEventId: signal.id });
    await ledger.signals.emit([
      { signal: { ...signal, correlationId: 'order-7' }, jobs: [caused], runs: [] },
    ]);
    const [claimed] = await claimAs(ledger, 'p1', {
      plugins: [claimable(caused.plugin)],
      slots: 1,
    });
    if (claimed !== undefined) await settleOne(ledger, succeed(claimed));
    const ofChain = async (correlationId: string) => {
      const found = await ledger.attempts.list({ correlationId, limit: 9 });
      return new Set(found.map(({ jobId }) => jobId));
    };
    expect(await ofChain(first.id)).toEqual(new Set([first.id, child.id]));
    expect(await ofChain('order-7')).toEqual(new Set([caused.id]));
    expect(await ofChain(makeId())).toEqual(new Set());
  });
});
