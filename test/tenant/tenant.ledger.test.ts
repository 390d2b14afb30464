/** The root ledger's rows about tenants, and each ledger's view of itself. */
import { describe, expect, test } from 'vitest';
import { fromTimestamp, toTimestamp } from '../../src/base/clock.ts';
import { makeId } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { eventually } from '../support/instance.ts';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import { beat, claimAs, draft, request, settleOne, succeed } from '../support/ledger/drafts.ts';

const limits = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };
const HOUR_MS = 3_600_000;

async function add(ledger: Ledger, slug: string): Promise<void> {
  await ledger.tenants.insert({ slug, title: slug, limits, createdBy: 'test' });
  await ledger.tenants.updateStatus(slug, ['creating'], 'active');
  // Which it is as soon as it is active.
  expect((await ledger.tenants.listDue(9)).slugs).toContain(slug);
  await ledger.tenants.recordDue(slug, null);
}

async function after(ledger: Ledger, ms: number): Promise<{ at: string }> {
  return { at: toTimestamp(fromTimestamp(await ledger.now()) + ms) };
}

describe.each(databases)('a tenant on %s', (kind) => {
  test('is made once, and moves only from where it may', async () => {
    const { ledger } = await openBench(kind);
    const acme = {
      slug: 'acme',
      title: 'Acme',
      limits: { ...limits, workers: 2 },
      createdBy: 'me',
    };
    expect(await ledger.tenants.insert(acme)).toBe(true);
    expect(await ledger.tenants.insert(acme)).toBe(false);
    expect(await ledger.tenants.updateStatus('acme', ['active'], 'suspended')).toBe(false);
    expect(await ledger.tenants.updateStatus('acme', ['creating'], 'active')).toBe(true);
    expect(await ledger.tenants.updateLimits('acme', { ...limits, queueLength: 7 })).toBe(true);
    await ledger.tenants.recordSchema('acme', { version: 8, error: 'broken' });
    expect(await ledger.tenants.find('acme')).toMatchObject({
      ...acme,
      status: 'active',
      limits: { ...limits, queueLength: 7 },
      dueAt: expect.any(String) as string,
      schemaVersion: 8,
      schemaError: 'broken',
    });
    expect(await ledger.tenants.find('other')).toBeUndefined();
  });

  test('that is awake has no claim in progress once they were waited for', async () => {
    const { ledger } = await openBench(kind);
    await ledger.tenants.awaitClaims();
    await add(ledger, 'acme');
    await ledger.tenants.recordDue('acme', await after(ledger, -HOUR_MS));
    await expect(ledger.tenants.awaitClaims()).resolves.toBeUndefined();
  });

  test('stays due after it was resumed, whatever was concluded from its suspension', async () => {
    const { ledger } = await openBench(kind);
    await add(ledger, 'one');
    await ledger.tenants.updateStatus('one', ['active'], 'suspended');
    const suspended = await ledger.tenants.find('one');
    await eventually(
      'the clock of the database moves',
      async () => (await ledger.now()) !== suspended?.updatedAt,
    );
    await ledger.tenants.updateStatus('one', ['suspended'], 'active');
    await ledger.tenants.recordDue('one', 'now');
    const { at } = await after(ledger, HOUR_MS);
    await ledger.tenants.recordDue('one', {
      at,
      row: only([suspended].flatMap((row) => row ?? [])),
    });
    expect((await ledger.tenants.listDue(9)).slugs).toEqual(['one']);
    const resumed = await ledger.tenants.find('one');
    await ledger.tenants.recordDue('one', { at, row: only([resumed].flatMap((row) => row ?? [])) });
    expect((await ledger.tenants.listDue(9)).slugs).toEqual([]);
  });

  test('is due when it was marked, and its earliest due time is kept', async () => {
    const { ledger } = await openBench(kind);
    await add(ledger, 'one');
    await add(ledger, 'two');
    expect(await ledger.tenants.listDue(9)).toEqual({ slugs: [], nextInMs: undefined });
    await ledger.tenants.recordDue('one', 'now');
    expect((await ledger.tenants.listDue(9)).slugs).toEqual(['one']);
    // Putting it to sleep replaces a due time in the past.
    await ledger.tenants.recordDue('one', await after(ledger, HOUR_MS));
    await ledger.tenants.recordDue('one', await after(ledger, 2 * HOUR_MS));
    await ledger.tenants.recordDue('one', null);
    const { slugs, nextInMs } = await ledger.tenants.listDue(9);
    expect(slugs).toEqual([]);
    expect(nextInMs).toBeGreaterThan(HOUR_MS / 2);
    expect(nextInMs).toBeLessThanOrEqual(HOUR_MS);
    await ledger.tenants.recordAllDue();
    expect((await ledger.tenants.listDue(9)).slugs.toSorted()).toEqual(['one', 'two']);
    expect((await ledger.tenants.listDue(1)).slugs).toHaveLength(1);
    await ledger.tenants.updateStatus('two', ['active'], 'deleting');
    expect((await ledger.tenants.listDue(9)).slugs).toEqual(['one']);
  });

  test('is found by its keys, each of which leads to one', async () => {
    const { ledger } = await openBench(kind);
    await add(ledger, 'one');
    expect(await ledger.tenants.insertKey('token', 'digest', 'one')).toBe(true);
    expect(await ledger.tenants.insertKey('token', 'digest', 'one')).toBe(true);
    expect(await ledger.tenants.insertKey('token', 'digest', 'two')).toBe(false);
    expect(await ledger.tenants.findByKey('token', 'digest')).toBe('one');
    expect(await ledger.tenants.findByKey('hook', 'digest')).toBeUndefined();
    await ledger.tenants.delete('one');
    expect(await ledger.tenants.findByKey('token', 'digest')).toBeUndefined();
    expect(await ledger.tenants.list()).toEqual([]);
  });
});

describe.each(databases)('the workload on %s', (kind) => {
  test('reports ready, running and coming work', async () => {
    const { ledger, sql } = await openBench(kind);
    expect(await ledger.workload.readDue()).toEqual({
      isReady: false,
      isRunning: false,
      hasQueuedRuns: false,
      nextInMs: undefined,
      prunedMs: undefined,
    });
    await ledger.jobs.enqueue({ jobs: [draft({ due: { inMs: HOUR_MS } })] });
    const later = await ledger.workload.readDue();
    expect(later.isReady).toBe(false);
    expect(later.nextInMs).toBeGreaterThan(HOUR_MS / 2);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    expect((await ledger.workload.readDue()).isReady).toBe(true);
    await ledger.meta.write('paused', '1');
    expect((await ledger.workload.readDue()).isReady).toBe(false);
    await ledger.meta.write('paused', '0');
    const job = only(await claimAs(ledger, 'p1'));
    expect(await ledger.workload.readDue()).toMatchObject({ isReady: false, isRunning: true });
    await settleOne(ledger, succeed(job));
    expect(await ledger.workload.readDue()).toMatchObject({ isReady: false, isRunning: false });
    await ledger.history.recordPruned();
    expect((await ledger.workload.readDue()).prunedMs).toBeLessThan(HOUR_MS);
    await sql(`update job_queue set next_retry_at = '2020-01-01T00:00:00.000Z'
      where status = 'queued'`);
    expect((await ledger.workload.readDue()).nextInMs).toBeLessThan(0);
  });

  test("a tenant's queue and use are counted up to the requested limit", async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft(), draft(), draft({ due: { inMs: HOUR_MS } })] });
    const used = await ledger.workload.readUsage({ queued: 100, signals: 100 });
    expect(used).toMatchObject({ queued: 3, signals: 0 });
    expect(used.bytes).toBeGreaterThan(1000);
    expect((await ledger.workload.readUsage({ queued: 1, signals: 1 })).queued).toBe(2);
  });

  test("signals of the runtime don't count towards the limit of signals", async () => {
    const { ledger } = await openBench(kind);
    const emission = (source: string) => {
      const id = makeId();
      const signal = { id, type: 'a.b', source, data: '{}', hops: 1, correlationId: id };
      return { signal, jobs: [], runs: [] };
    };
    await ledger.signals.emit([emission('ductile'), emission('shop'), emission('plugin:mail')]);
    expect((await ledger.workload.readUsage({ queued: 9, signals: 9 })).signals).toBe(2);
  });
});

describe.each(databases)('a claim on %s', (kind) => {
  test('takes no more than the whole ledger may run at once', async () => {
    const { ledger, open } = await openBench(kind);
    const other = await open();
    await ledger.jobs.enqueue({ jobs: Array.from({ length: 9 }, () => draft()) });
    await ledger.processes.heartbeat(beat('p1'));
    await ledger.processes.heartbeat(beat('p2'));
    const here = () => ledger.jobs.claim(request('p1', { slots: 4, workersMax: 3 }));
    const there = () => other.jobs.claim(request('p2', { slots: 4, workersMax: 3 }));
    const claimed = (await Promise.all([here(), there()])).flat();
    expect(claimed).toHaveLength(3);
    expect(await here()).toEqual([]);
    for (const job of claimed.slice(0, 1)) await settleOne(ledger, succeed(job));
    expect(await there()).toHaveLength(1);
  });
});
