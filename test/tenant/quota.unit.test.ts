/** The use of a tenant, counted while others submit. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeQuota } from '../../src/tenant/quota.service.ts';
import type { TenantRow } from '../../src/tenant/tenants.ts';

const tenantLimits = { workers: null, queueLength: null, signalsPerMinute: 2, storageBytes: null };
const row = {
  slug: 'acme',
  status: 'active',
  limits: tenantLimits,
} as Partial<TenantRow> as TenantRow;
const signal = { jobs: 0, signals: 1 };

function makeLine() {
  let reportCount = 0;
  let counts = 0;
  const usage = () => {
    counts += 1;
    return Promise.resolve({ queued: 0, signals: reportCount, bytes: 0 });
  };
  const quota = makeQuota(
    { workload: { readUsage: usage } },
    { row: () => row, isHeld: () => false },
  );
  const put = (): Promise<void> => Promise.resolve(void (reportCount += 1));
  return { quota, put, counts: () => counts };
}

test('work that was accepted during the count is not counted twice', async () => {
  const { quota, put } = makeLine();
  let answer: () => void = () => undefined;
  const first = quota.within(signal, async () => {
    await put();
    await new Promise<void>((resolve) => (answer = resolve));
  });
  // The ledger already contains the work when it is counted, but the write has not returned yet.
  await new Promise(setImmediate);
  await quota.review();
  const second = quota.within(signal, put);
  answer();
  await first;
  await second;
  await expect(quota.within(signal, put)).rejects.toMatchObject({ code: 'TENANT_LIMIT' });
});

test('the count is refreshed at intervals, however often it is read', async () => {
  const { quota, counts } = makeLine();
  const beganAt = performance.now();
  const now = vi.spyOn(performance, 'now').mockReturnValue(beganAt);
  onTestFinished(() => now.mockRestore());
  for (let reads = 0; reads < 100; reads += 1) await quota.review();
  expect(counts()).toBe(1);
  now.mockReturnValue(beganAt + limits.tenantCountMs);
  await quota.review();
  expect(counts()).toBe(2);
});

test('work that is accepted during a recount is not forgotten', async () => {
  let reportCount = 0;
  const counted: (() => void)[] = [];
  const usage = () => {
    const seen = { queued: 0, signals: reportCount, bytes: 0 };
    return new Promise<typeof seen>((resolve) => counted.push(() => resolve(seen)));
  };
  const put = (): Promise<void> => Promise.resolve(void (reportCount += 1));
  const quota = makeQuota(
    { workload: { readUsage: usage } },
    { row: () => row, isHeld: () => false },
  );
  const first = quota.review();
  counted.shift()?.();
  await first;
  const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 3_600_000);
  onTestFinished(() => now.mockRestore());
  const second = quota.review();
  await quota.within(signal, put);
  await quota.within(signal, put);
  counted.shift()?.();
  await second;
  const third = quota.within(signal, put);
  // The work may be counted once more before a request is refused.
  const refused = expect(third).rejects.toMatchObject({ code: 'TENANT_LIMIT' });
  await new Promise(setImmediate);
  counted.shift()?.();
  await refused;
});

test('concurrent requests are counted one after the other', async () => {
  const { quota, put } = makeLine();
  const all = await Promise.allSettled([1, 2, 3].map(() => quota.within(signal, put)));
  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
});
