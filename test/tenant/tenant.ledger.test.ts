/** What the root ledger knows of tenants, and what any ledger tells of itself. */
import { describe, expect, test } from 'vitest';
import { fromTimestamp, toTimestamp } from '../../src/base/clock.ts';
import { makeId } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import { beat, claimAs, draft, request, settleOne, succeed } from '../support/ledger/drafts.ts';

const limits = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };
const HOUR_MS = 3_600_000;

async function add(ledger: Ledger, slug: string): Promise<void> {
  await ledger.addTenant({ slug, title: slug, limits, createdBy: 'test' });
  await ledger.moveTenant(slug, ['creating'], 'active');
  // Which it is as soon as it is active.
  expect((await ledger.dueTenants(9)).slugs).toContain(slug);
  await ledger.noteTenantDue(slug, null);
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
    expect(await ledger.addTenant(acme)).toBe(true);
    expect(await ledger.addTenant(acme)).toBe(false);
    expect(await ledger.moveTenant('acme', ['active'], 'suspended')).toBe(false);
    expect(await ledger.moveTenant('acme', ['creating'], 'active')).toBe(true);
    expect(await ledger.setTenantLimits('acme', { ...limits, queueLength: 7 })).toBe(true);
    await ledger.noteTenantSchema('acme', { version: 8, error: 'broken' });
    expect(await ledger.tenant('acme')).toMatchObject({
      ...acme,
      status: 'active',
      limits: { ...limits, queueLength: 7 },
      dueAt: expect.any(String) as string,
      schemaVersion: 8,
      schemaError: 'broken',
    });
    expect(await ledger.tenant('other')).toBeUndefined();
  });

  test('that is awake has no claim in progress once they were waited for', async () => {
    const { ledger } = await openBench(kind);
    await ledger.awaitTenantClaims();
    await add(ledger, 'acme');
    await ledger.noteTenantDue('acme', await after(ledger, -HOUR_MS));
    await expect(ledger.awaitTenantClaims()).resolves.toBeUndefined();
  });

  test('is due when it was marked, and its earliest due time is kept', async () => {
    const { ledger } = await openBench(kind);
    await add(ledger, 'one');
    await add(ledger, 'two');
    expect(await ledger.dueTenants(9)).toEqual({ slugs: [], nextInMs: undefined });
    await ledger.noteTenantDue('one', 'now');
    expect((await ledger.dueTenants(9)).slugs).toEqual(['one']);
    // Whoever puts it to sleep replaces what is past.
    await ledger.noteTenantDue('one', await after(ledger, HOUR_MS));
    await ledger.noteTenantDue('one', await after(ledger, 2 * HOUR_MS));
    await ledger.noteTenantDue('one', null);
    const { slugs, nextInMs } = await ledger.dueTenants(9);
    expect(slugs).toEqual([]);
    expect(nextInMs).toBeGreaterThan(HOUR_MS / 2);
    expect(nextInMs).toBeLessThanOrEqual(HOUR_MS);
    await ledger.noteAllTenantsDue();
    expect((await ledger.dueTenants(9)).slugs.toSorted()).toEqual(['one', 'two']);
    expect((await ledger.dueTenants(1)).slugs).toHaveLength(1);
    await ledger.moveTenant('two', ['active'], 'deleting');
    expect((await ledger.dueTenants(9)).slugs).toEqual(['one']);
  });

  test('is found by its keys, each of which leads to one', async () => {
    const { ledger } = await openBench(kind);
    await add(ledger, 'one');
    expect(await ledger.addTenantKey('token', 'digest', 'one')).toBe(true);
    expect(await ledger.addTenantKey('token', 'digest', 'one')).toBe(true);
    expect(await ledger.addTenantKey('token', 'digest', 'two')).toBe(false);
    expect(await ledger.tenantOfKey('token', 'digest')).toBe('one');
    expect(await ledger.tenantOfKey('hook', 'digest')).toBeUndefined();
    await ledger.forgetTenant('one');
    expect(await ledger.tenantOfKey('token', 'digest')).toBeUndefined();
    expect(await ledger.tenants()).toEqual([]);
  });
});

describe.each(databases)('the outlook on %s', (kind) => {
  test('reports ready, running and coming work', async () => {
    const { ledger, sql } = await openBench(kind);
    expect(await ledger.outlook()).toEqual({
      isReady: false,
      isRunning: false,
      isInLine: false,
      nextInMs: undefined,
      prunedMs: undefined,
    });
    await ledger.enqueue({ jobs: [draft({ due: { inMs: HOUR_MS } })] });
    const later = await ledger.outlook();
    expect(later.isReady).toBe(false);
    expect(later.nextInMs).toBeGreaterThan(HOUR_MS / 2);
    await ledger.enqueue({ jobs: [draft()] });
    expect((await ledger.outlook()).isReady).toBe(true);
    await ledger.setMeta('paused', '1');
    expect((await ledger.outlook()).isReady).toBe(false);
    await ledger.setMeta('paused', '0');
    const job = only(await claimAs(ledger, 'p1'));
    expect(await ledger.outlook()).toMatchObject({ isReady: false, isRunning: true });
    await settleOne(ledger, succeed(job));
    expect(await ledger.outlook()).toMatchObject({ isReady: false, isRunning: false });
    await ledger.notePruned();
    expect((await ledger.outlook()).prunedMs).toBeLessThan(HOUR_MS);
    await sql(`update job_queue set next_retry_at = '2020-01-01T00:00:00.000Z'
      where status = 'queued'`);
    expect((await ledger.outlook()).nextInMs).toBeLessThan(0);
  });

  test("a tenant's queue and use are counted up to the requested limit", async () => {
    const { ledger } = await openBench(kind);
    await ledger.enqueue({ jobs: [draft(), draft(), draft({ due: { inMs: HOUR_MS } })] });
    const used = await ledger.usage({ queued: 100, signals: 100 });
    expect(used).toMatchObject({ queued: 3, signals: 0 });
    expect(used.bytes).toBeGreaterThan(1000);
    expect((await ledger.usage({ queued: 1, signals: 1 })).queued).toBe(2);
  });

  test("signals of the runtime don't count towards the limit of signals", async () => {
    const { ledger } = await openBench(kind);
    const emission = (source: string) => {
      const id = makeId();
      const signal = { id, type: 'a.b', source, data: '{}', hops: 1, correlationId: id };
      return { signal, jobs: [], runs: [] };
    };
    await ledger.emit([emission('ductile'), emission('shop'), emission('plugin:mail')]);
    expect((await ledger.usage({ queued: 9, signals: 9 })).signals).toBe(2);
  });
});

describe.each(databases)('a claim on %s', (kind) => {
  test('takes no more than the whole ledger may run at once', async () => {
    const { ledger, open } = await openBench(kind);
    const other = await open();
    await ledger.enqueue({ jobs: Array.from({ length: 9 }, () => draft()) });
    await ledger.heartbeat(beat('p1'));
    await ledger.heartbeat(beat('p2'));
    const here = () => ledger.claim(request('p1', { slots: 4, workersMax: 3 }));
    const there = () => other.claim(request('p2', { slots: 4, workersMax: 3 }));
    const claimed = (await Promise.all([here(), there()])).flat();
    expect(claimed).toHaveLength(3);
    expect(await here()).toEqual([]);
    for (const job of claimed.slice(0, 1)) await settleOne(ledger, succeed(job));
    expect(await there()).toHaveLength(1);
  });
});
