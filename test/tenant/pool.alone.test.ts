/** The open tenants: each is opened once, and they take turns if there aren't slots for all. */
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, test, vi } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { makeTenant, withTenantLedger } from '../support/tenant-ledgers.ts';

vi.mock('../../src/base/limits.ts', async (load) => {
  const { limits: real } = await load<{ readonly limits: typeof limits }>();
  const few = { tenantsAwakeMax: { sqlite: 2, postgres: 2 }, tenantAwakeTurnMs: 500 };
  return { limits: { ...real, ...few } };
});

const tenants = { trust: 'shared' };
/** Enough jobs to take longer than a tick. */
const JOBS = 8;
const patienceMs = 120_000;
const timeout = 2 * patienceMs;

describe.each(databases)('a tenant on %s', (database) => {
  test('is opened once, even if a second check finds it due meanwhile', async () => {
    const program = python('wait_for("open"); ok()');
    const plugins = { worker: { program, settings: { shared: true } } };
    const place = await makePlace({ database, plugins, tenants });
    const { engine, ledger } = await place.start();
    const readings = holdReadings(ledger);
    const slug = await makeTenant(ledger, place.config);
    await withTenantLedger(place.config, slug, (tenant) => enqueue(tenant, 1));
    engine.tenants?.soon();
    await eventually('it is looked for', () => readings.count > 0);
    engine.tenants?.soon();
    await new Promise((resolve) => setTimeout(resolve, 3 * limits.tenantDueCheckMs));
    const visiting = engine.tenants?.visit(slug);
    readings.letGo();
    const visit = await visiting;
    expect(await visit?.engine.ledger.processes.list()).toHaveLength(1);
    await place.openGate('open');
    visit?.end();
  });

  test(
    'with much work is closed for another one, and no attempt is interrupted',
    { timeout },
    async () => {
      const program = python('note(request["job_id"]); time.sleep(0.2); ok()');
      const plugins = { worker: { program, settings: { shared: true, parallelism: 1 } } };
      const place = await makePlace({ database, plugins, tenants });
      const ledger = await openLedger(place.config.state, noRules);
      const towns = new Map<string, readonly string[]>();
      for (let n = 0; n < 3; n += 1) {
        const slug = await makeTenant(ledger, place.config);
        const put = (tenant: Ledger): Promise<readonly string[]> => enqueue(tenant, JOBS);
        towns.set(slug, await withTenantLedger(place.config, slug, put));
      }
      await ledger.close();
      await place.start();
      const areAll = async (): Promise<boolean> => (await place.notes()).length >= 3 * JOBS;
      await eventually('all have run', areAll, patienceMs);
      const notes = await place.notes();
      const times = [...towns.values()].map((ids) => ids.map((id) => notes.indexOf(id)));
      // Each ran some before any other had run all.
      const lastBegun = Math.max(...times.map((ran) => Math.min(...ran)));
      const firstEnded = Math.min(...times.map((ran) => Math.max(...ran)));
      expect(lastBegun).toBeLessThan(firstEnded);
      // A single attempt each: a tenant that went to sleep let its jobs end.
      expect(notes.toSorted()).toEqual([...towns.values()].flat().toSorted());
    },
  );
});

async function enqueue(ledger: Ledger, count: number): Promise<readonly string[]> {
  const draft = { plugin: 'worker', command: 'poll', payload: '{}', actor: 'test' } as const;
  const ids = Array.from({ length: count }, () => makeId());
  await ledger.jobs.enqueue({
    jobs: ids.map((id) => ({ ...draft, id, submittedBy: 'api', maxAttempts: 1 })),
  });
  return ids;
}

/** Reads of the root ledger about a tenant wait until all are released. */
function holdReadings(ledger: Ledger): { readonly count: number; letGo(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const read = ledger.tenants.find.bind(ledger);
  const spy = vi.spyOn(ledger.tenants, 'find').mockImplementation(async (slug) => {
    await promise;
    return await read(slug);
  });
  return {
    get count() {
      return spy.mock.calls.length;
    },
    letGo: resolve,
  };
}
