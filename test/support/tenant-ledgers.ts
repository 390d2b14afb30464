/** Tenants for tests, created without directives and removed after the test. */
import { noRules } from '../../src/ledger/rules.ts';
import { randomBytes } from 'node:crypto';
import { onTestFinished } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { removeLedger, locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import type { TenantLimits } from '../../src/tenant/tenants.ts';

const noLimits: TenantLimits = {
  workers: null,
  queueLength: null,
  signalsPerMinute: null,
  storageBytes: null,
};

/** Creates an active, closed tenant; returns its unique slug. `prepare` runs before an engine opens it. */
export async function makeTenant(
  root: Ledger,
  { state }: Config,
  limits: Partial<TenantLimits> = {},
  prepare?: (slug: string) => Promise<void>,
): Promise<string> {
  const slug = `org_${randomBytes(6).toString('hex')}`;
  const place = locateTenantLedger(state, slug);
  onTestFinished(() => removeLedger(place));
  const draft = { slug, title: slug, createdBy: 'test', limits: { ...noLimits, ...limits } };
  await root.tenants.insert(draft);
  await (await openLedger(place, noRules)).close();
  await prepare?.(slug);
  await root.tenants.updateStatus(slug, ['creating'], 'active');
  return slug;
}

/** Opens a tenant's ledger, which must not be open elsewhere. */
export async function withTenantLedger<T>(
  { state }: Config,
  slug: string,
  work: (ledger: Ledger) => Promise<T>,
): Promise<T> {
  const ledger = await openLedger(locateTenantLedger(state, slug), noRules);
  try {
    return await work(ledger);
  } finally {
    await ledger.close();
  }
}
