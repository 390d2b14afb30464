/** Opening and sleeping tenants under many callers, with scripted ledgers and engines. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { Log } from '../../src/base/log.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import { makeTenantPool } from '../../src/tenant/pool.service.ts';
import type { Ledger, LedgerOverlay } from '../../src/ledger/ledger.ts';
import type { Workload } from '../../src/tenant/workload.sql.ts';
import type { TenantRow } from '../../src/tenant/tenants.ts';
import { eventually } from '../support/instance.ts';
import type { Visit, TenantPool } from '../../src/tenant/tenants.ts';

const OPEN_MAX = limits.tenantsAwakeMax.postgres;
const quiet: Workload = {
  isReady: false,
  isRunning: false,
  hasQueuedRuns: false,
  nextInMs: undefined,
  prunedMs: 0,
};
const busy: Workload = { ...quiet, isRunning: true };

interface Setup {
  readonly pool: TenantPool<LedgerEngine>;
  /** How often the ledger of each was opened and closed. */
  readonly opened: Map<string, number>;
  readonly closed: Map<string, number>;
  /** The work of each tenant (default: none). */
  readonly workloads: Map<string, () => Promise<Workload>>;
  /** The tenants whose ledger does not open. */
  readonly broken: Set<string>;
  readonly logged: string[];
}

async function makeSetup(idleMs: number): Promise<Setup> {
  const setup = {
    opened: new Map<string, number>(),
    closed: new Map<string, number>(),
    workloads: new Map<string, () => Promise<Workload>>(),
    broken: new Set<string>(),
    logged: [] as string[],
  };
  const count = (counts: Map<string, number>, slug: string): void =>
    void counts.set(slug, (counts.get(slug) ?? 0) + 1);
  const readWorkload = (slug: string): Promise<Workload> =>
    (setup.workloads.get(slug) ?? (() => Promise.resolve(quiet)))();
  const logMessage = (message: string): void => void setup.logged.push(message);
  const log: Partial<Log> = { error: logMessage, warn: logMessage };
  const pool = makeTenantPool({
    root: makeRoot(),
    pollMs: () => 60_000,
    schedules: () => '',
    log: log as Log,
    openLedger({ slug }) {
      count(setup.opened, slug);
      if (setup.broken.has(slug)) return Promise.reject(new Error('it does not open'));
      const ledger: LedgerOverlay = {
        workload: { readDue: () => readWorkload(slug) },
        meta: { write: () => Promise.resolve() },
        close: () => Promise.resolve(count(setup.closed, slug)),
      };
      return Promise.resolve(ledger as Ledger);
    },
    makeEngine(row) {
      const { slug } = row();
      const engine: Partial<LedgerEngine> = {
        config: { tenants: { trust: 'shared', idleMs } } as LedgerEngine['config'],
        start: () => Promise.resolve(),
        stop: () => Promise.resolve(),
        readWorkload: () => readWorkload(slug),
        lookForWork: () => undefined,
      };
      return Promise.resolve(engine as LedgerEngine);
    },
  });
  await pool.start();
  onTestFinished(() => pool.stop());
  return { ...setup, pool };
}

/** Every name is a tenant without due work. */
function makeRoot(): Ledger {
  const root: LedgerOverlay = {
    kind: 'postgres',
    tenants: {
      find: (slug) => Promise.resolve(rowOf(slug)),
      listDue: () => Promise.resolve({ slugs: [], nextInMs: undefined }),
      recordDue: () => Promise.resolve(),
      recordSchema: () => Promise.resolve(),
    },
    meta: { read: () => Promise.resolve('') },
    now: () => Promise.resolve('2026-11-16T00:00:00.000Z'),
  };
  return root as Ledger;
}

function rowOf(slug: string): TenantRow {
  const at = '2026-11-16T00:00:00.000Z';
  return {
    slug,
    title: slug,
    status: 'active',
    createdBy: 'test',
    limits: { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null },
    dueAt: at,
    schemaVersion: null,
    schemaError: null,
    schemaAt: null,
    createdAt: at,
    updatedAt: at,
  };
}

const slugs = Array.from({ length: OPEN_MAX }, (_, index) => `t${index}`);

async function fillUp({ pool }: Setup): Promise<Visit[]> {
  const visits: Visit[] = [];
  for (const slug of slugs) visits.push(await pool.visit(slug));
  return visits;
}

function total(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, n) => sum + n, 0);
}

test('a tenant is closed for each waiting caller, and each is closed once', async () => {
  const setup = await makeSetup(60_000);
  for (const visit of await fillUp(setup)) visit.end();
  // A slow idle check lets both callers look at the same tenants.
  setup.workloads.set('t0', async () => {
    await turn();
    return quiet;
  });
  await Promise.all(['late', 'later', 'latest'].map((slug) => setup.pool.visit(slug)));
  expect([...setup.closed.values()].every((n) => n === 1)).toBe(true);
  expect(setup.pool.open.length).toBeLessThanOrEqual(OPEN_MAX);
  expect(total(setup.opened) - total(setup.closed)).toBe(setup.pool.open.length);
});

test('a tenant with work is not closed for another one', async () => {
  const setup = await makeSetup(1);
  for (const slug of slugs) setup.workloads.set(slug, () => Promise.resolve(busy));
  for (const visit of await fillUp(setup)) visit.end();
  const late = setup.pool.visit('late');
  for (let turns = 0; turns < 50; turns += 1) await turn();
  expect(total(setup.closed)).toBe(0);
  setup.workloads.delete('t3');
  await late;
  expect([...setup.closed.keys()]).toEqual(['t3']);
});

test('stopping does not wait for a slot that is never freed', async () => {
  const setup = await makeSetup(60_000);
  await fillUp(setup);
  const late = setup.pool.visit('late');
  const refused = expect(late).rejects.toMatchObject({ code: 'STOPPING' });
  for (let turns = 0; turns < 10; turns += 1) await turn();
  await setup.pool.stop();
  await refused;
  expect(total(setup.closed)).toBe(OPEN_MAX);
  expect(setup.opened.has('late')).toBe(false);
});

test('a tenant that is blocked while it waits for a slot is not waited for', async () => {
  const setup = await makeSetup(60_000);
  await fillUp(setup);
  const late = setup.pool.visit('late');
  const refused = expect(late).rejects.toMatchObject({ code: 'TENANT_UNAVAILABLE' });
  for (let turns = 0; turns < 10; turns += 1) await turn();
  await setup.pool.block('late');
  await refused;
  expect(setup.opened.has('late')).toBe(false);
});

test("a tenant that can't be read keeps no other open and delays no other", async () => {
  const setup = await makeSetup(1);
  for (const visit of await fillUp(setup)) visit.end();
  setup.workloads.set('t0', () => Promise.reject(new Error('the ledger does not answer')));
  await setup.pool.visit('late');
  await eventually('the others are closed', () => setup.pool.open.length === 2);
  expect([...setup.pool.open].sort()).toEqual(['late', 't0']);
});

test('a caller that arrives during the check finds the tenant open', async () => {
  const setup = await makeSetup(limits.tenantSleepCheckMs / 2);
  const first = await setup.pool.visit('acme');
  first.end();
  const looks: (() => void)[] = [];
  setup.workloads.set('acme', async () => {
    await new Promise<void>((resolve) => looks.push(resolve));
    return quiet;
  });
  // The first look is long enough after the first visit to have it sleep.
  await eventually('it was looked at', () => looks.length > 0);
  const second = await setup.pool.visit('acme');
  second.end();
  looks[0]?.();
  for (let turns = 0; turns < 10; turns += 1) await turn();
  expect(setup.closed.size).toBe(0);
  setup.workloads.delete('acme');
  for (const answer of looks) answer();
});

test('a tenant that fails to open is not opened again by every caller', async () => {
  const setup = await makeSetup(60_000);
  setup.broken.add('acme');
  const comes = (): Promise<void> =>
    expect(setup.pool.visit('acme')).rejects.toMatchObject({ code: 'TENANT_UNAVAILABLE' });
  await comes();
  await comes();
  await comes();
  expect(setup.opened.get('acme')).toBe(1);
});
