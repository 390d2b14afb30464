import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { JobDraft } from '../../src/job/job.ts';
import type { DeliveryDraft } from '../../src/webhook/types.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { draft } from '../support/ledger/drafts.ts';

function delivery(webhookId: string, jobs: readonly JobDraft[], skipped?: string): DeliveryDraft {
  const id = makeId();
  const signal = {
    id,
    type: 'webhook.received',
    source: `webhook:${webhookId}`,
    data: '{}',
    hops: 1,
  };
  return {
    id,
    webhookId,
    deliveryId: id,
    replayKey: null,
    source: '127.0.0.1',
    headers: '[]',
    bodyBytes: 2,
    emission: {
      signal: { ...signal, correlationId: id },
      jobs: jobs.map((job) => ({ ...job, sourceEventId: id })),
      runs: [],
    },
    skipped,
  };
}

describe.each(databases)('deliveries on %s', (kind) => {
  test('are accepted as long as the queue has room, and leave nothing if it has none', async () => {
    const { ledger } = await openBench(kind);
    const queueLimit = { most: 1, tenant: 'acme' };
    await ledger.webhooks.accept([delivery('a', [draft()])], queueLimit);
    const refused = ledger.webhooks.accept([delivery('a', [draft()])], queueLimit);
    await expect(refused).rejects.toMatchObject({ code: 'TENANT_LIMIT', place: 'queue_length' });
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(1);
    expect(await ledger.deliveries.list({ limit: 9 })).toHaveLength(1);
  });

  test('the last verified delivery is found, with the jobs that notified an agent', async () => {
    const { ledger, sql } = await openBench(kind);
    for (const id of ['a', 'b', 'never']) {
      await sql(
        `insert into webhooks (id, settings, created_by, created_at, updated_by, updated_at)
          values (?, '{}', 'x', '', 'x', '')`,
        [id],
      );
    }
    const first = delivery('a', [draft({ idempotencyKey: '1:agent:0' })]);
    const agentJobs = [
      draft({ idempotencyKey: '2:agent:0' }),
      draft({ idempotencyKey: '2:agent:1' }),
    ];
    const second = delivery('a', [...agentJobs, draft({ idempotencyKey: '2:0' })]);
    const skipped = delivery('b', [], 'skipped:quiet_hours');
    await ledger.webhooks.accept([first, second, skipped]);
    const { emission: _, replayKey: __, skipped: ___, ...about } = delivery('a', []);
    await ledger.deliveries.recordRejected({
      ...about,
      verdict: 'refused',
      reason: 'signature_wrong',
    });

    const last = await ledger.deliveries.listLast();
    const seen = last.map(({ id, verdict, reason }) => ({ id, verdict, reason }));
    expect(seen).toHaveLength(2);
    expect(seen).toContainEqual({ id: second.id, verdict: 'accepted', reason: null });
    const reason = 'skipped:quiet_hours';
    expect(seen).toContainEqual({ id: skipped.id, verdict: 'skipped', reason });
    expect(await ledger.deliveries.listLast('b')).toMatchObject([{ id: skipped.id }]);
    expect(await ledger.deliveries.listLast('never')).toEqual([]);

    const signals = [first, second, skipped].map(({ emission }) => emission.signal.id);
    const jobs = await ledger.deliveries.listAgentJobs(signals);
    expect(jobs.map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      '1:agent:0',
      '2:agent:0',
      '2:agent:1',
    ]);
    expect(jobs[1]).toMatchObject({ id: agentJobs[0]?.id, signalId: signals[1], status: 'queued' });
    expect(await ledger.deliveries.listAgentJobs([])).toEqual([]);
    expect(await ledger.deliveries.list({ verdict: 'skipped', limit: 9 })).toHaveLength(1);
    expect(await ledger.deliveries.list({ verdict: 'accepted', limit: 9 })).toHaveLength(2);
    // A skipped delivery was accepted: a repetition is a duplicate.
    const again = { ...skipped, id: makeId() };
    const { results: repeated } = await ledger.webhooks.accept([again]);
    expect(repeated).toEqual([{ signalId: signals[2], isNew: false, skipped: reason }]);
  });

  test('the last delivery of each subject is listed last', async () => {
    const { ledger } = await openBench(kind);
    const once = delivery('a', [draft({ idempotencyKey: '1:target' }), draft()]);
    const twice = delivery('a', [draft({ idempotencyKey: '2:target' })]);
    const agents = delivery('a', [draft({ idempotencyKey: '3:agent:0' })]);
    await ledger.webhooks.accept([once, twice, agents]);
    const again = draft({ idempotencyKey: '4:target', sourceEventId: twice.id });
    await ledger.jobs.enqueue({ jobs: [again], signals: [] });
    const targets = await ledger.deliveries.listTargets([once.id, twice.id, agents.id]);
    expect(targets.filter(({ signalId }) => signalId === once.id)).toEqual([
      { id: once.emission.jobs[0]?.id, kind: 'job', signalId: once.id, status: 'queued' },
    ]);
    expect(targets.filter(({ signalId }) => signalId === twice.id).at(-1)?.id).toBe(again.id);
    expect(targets).toHaveLength(3);
    expect(await ledger.deliveries.listTargets([])).toEqual([]);
  });

  test('a strict delivery is a replay under another id, and a duplicate under its own', async () => {
    const { ledger } = await openBench(kind);
    const strict = { replayKey: 'digest', isStrict: true };
    const first = { ...delivery('a', [draft()]), ...strict };
    const copy = { ...delivery('a', [draft()]), ...strict };
    const same = { ...delivery('a', [draft()]), ...strict, deliveryId: first.deliveryId };
    const normal = { ...delivery('a', [draft()]), replayKey: 'digest' };
    const { results } = await ledger.webhooks.accept([first, copy, same, normal]);
    expect(results).toEqual([
      { signalId: first.id, isNew: true },
      { signalId: first.id, isNew: false, isReplay: true },
      { signalId: first.id, isNew: false },
      { signalId: first.id, isNew: false },
    ]);
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(1);
    expect(await ledger.deliveries.list({ limit: 9 })).toMatchObject([{ duplicates: 2 }]);
  });

  test('each delivery of a batch gets its own result, even if some are duplicates', async () => {
    const { ledger } = await openBench(kind);
    const known = [delivery('a', [draft()]), delivery('a', [draft()])];
    await ledger.webhooks.accept(known);
    const fresh = [delivery('a', [draft()]), delivery('a', [draft()]), delivery('a', [draft()])];
    const repeat = (index: number): DeliveryDraft => ({
      ...delivery('a', [draft()]),
      deliveryId: known[index]?.id ?? '',
    });
    const [one, two, three] = fresh as [DeliveryDraft, DeliveryDraft, DeliveryDraft];
    const { results } = await ledger.webhooks.accept([one, repeat(1), two, repeat(0), three]);
    expect(results).toEqual([
      { signalId: one.id, isNew: true },
      { signalId: known[1]?.id, isNew: false },
      { signalId: two.id, isNew: true },
      { signalId: known[0]?.id, isNew: false },
      { signalId: three.id, isNew: true },
    ]);
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(5);
    const duplicates = (await ledger.deliveries.list({ limit: 9 })).map(({ id, duplicates: n }) => [
      id,
      n,
    ]);
    expect(duplicates).toContainEqual([known[0]?.id, 1]);
    expect(duplicates).toContainEqual([one.id, 0]);
  });
});
