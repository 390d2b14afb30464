/** Creates tenants of a measured instance without directives, which aren't measured. */
import { noRules } from '../../src/ledger/rules.ts';
import { copyFileSync } from 'node:fs';
import { toTimestamp } from '../../src/base/clock.ts';
import type { Config } from '../../src/config/config.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Visit } from '../../src/tenant/tenants.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';

const tomorrow = toTimestamp(Date.now() + 86_400_000);
const limits = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };

/** Creates tenants with empty ledgers: copies of one. */
export async function makeTenants(
  root: Ledger,
  { state }: Config,
  count: number,
): Promise<string[]> {
  const slugs = Array.from({ length: count }, (_, index) => `t${index}`);
  const paths = slugs.map((slug) => pathOf(state, slug));
  const [first = '', ...others] = paths;
  await (await openLedger({ kind: 'sqlite', path: first }, noRules)).close();
  for (const path of others) copyFileSync(first, path);
  await Promise.all(
    slugs.map(async (slug) => {
      await root.tenants.insert({ slug, title: slug, limits, createdBy: 'bench' });
      await root.tenants.updateStatus(slug, ['creating'], 'active');
      // Nothing is due in an empty ledger.
      await root.tenants.recordDue(slug, { at: tomorrow });
    }),
  );
  return slugs;
}

export async function enter(
  { tenants }: Pick<Engine, 'tenants'>,
  slug: string,
): Promise<Visit<Engine>> {
  if (tenants === undefined) throw new Error('the engine has no tenants');
  return await tenants.visit(slug);
}

function pathOf(state: Config['state'], slug: string): string {
  const place = locateTenantLedger(state, slug);
  if (place.kind !== 'sqlite') throw new Error('tenants are measured on SQLite');
  return place.path;
}
