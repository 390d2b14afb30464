import { describe, expect, test } from 'vitest';
import { databases, openBench } from '../support/ledger/bench.ts';
import { draft, settleOne, signalOf, startOne, succeed } from '../support/ledger/drafts.ts';

describe.each(databases)('signals on %s', (kind) => {
  test('come back as they were sent, newest first', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    const full = signalOf(job, 0, {
      type: 'file.found',
      subjectType: 'file',
      subjectId: '/a',
      data: '{"path":"/ä"}',
      metadata: '{"m":1}',
      hops: 4,
      causationId: 'cause',
      visibility: 'admin_only',
    });
    const bare = signalOf(job, 1, { type: 'file.lost' });
    await settleOne(ledger, succeed(job, { signals: [full, bare] }));
    const found = await ledger.signals.list({ limit: 10 });
    expect(found).toMatchObject([
      {
        ...bare,
        metadata: '{"schema_version":1}',
        visibility: 'internal',
        subjectId: null,
        causationId: null,
      },
      full,
    ]);
    expect(found.every(({ occurredAt, insertedAt }) => occurredAt <= insertedAt)).toBe(true);
    expect(await ledger.signals.list({ type: 'file.lost', limit: 10 })).toHaveLength(1);
    expect(await ledger.signals.list({ jobId: 'other', limit: 10 })).toEqual([]);
    expect(await ledger.signals.list({ limit: 1 })).toMatchObject([{ id: bare.id }]);
  });

  test('that are repeated are the same signals', async () => {
    const { ledger, dump } = await openBench(kind);
    const signals = [
      { id: 's1', type: 'a.b', source: 'api', data: '{}', hops: 0, correlationId: 'c' },
    ];
    const jobs = [draft({ sourceEventId: 's1' })];
    await ledger.jobs.enqueue({ jobs, signals });
    const before = await dump();
    await ledger.jobs.enqueue({ jobs, signals });
    expect(await dump()).toEqual(before);
  });

  test('are stored once for one position in one attempt', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    const signals = [signalOf(job, 3), signalOf(job, 3)];
    await expect(ledger.jobs.settle([succeed(job, { signals })])).rejects.toThrow(/unique/i);
    expect(await ledger.signals.list({ limit: 10 })).toEqual([]);
  });
});
