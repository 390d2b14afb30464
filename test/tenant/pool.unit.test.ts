/** Opening and sleeping tenants under many callers, with scripted ledgers and engines. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { Log } from '../../src/base/log.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import { makeTenants } from '../../src/tenant/pool.service.ts';
import type { Ledger, LedgerOverlay } from '../../src/ledger/ledger.ts';
import type { Outlook } from '../../src/tenant/outlook.ts';
import type { TenantRow } from '../../src/tenant/types.ts';
import { eventually } from '../support/instance.ts';
import type { Visit, TenantKeeper } from '../../src/tenant/tenants.ts';

const AWAKE_MAX = limits.tenantsAwakeMax.postgres;
const quiet: Outlook = {
  isReady: false,
  isRunning: false,
  isInLine: false,
  nextInMs: undefined,
  prunedMs: 0,
};
const busy: Outlook = { ...quiet, isRunning: true };

interface Town {
  readonly keeper: TenantKeeper<LedgerEngine>;
  /** How often the ledger of each was opened and closed. */
  readonly opened: Map<string, number>;
  readonly closed: Map<string, number>;
  /** The work of each tenant (default: none). */
  readonly outlook: Map<string, () => Promise<Outlook>>;
  /** The tenants whose ledger does not open. */
  readonly broken: Set<string>;
  readonly told: string[];
}

async function makeTown(idleMs: number): Promise<Town> {
  const town = {
    opened: new Map<string, number>(),
    closed: new Map<string, number>(),
    outlook: new Map<string, () => Promise<Outlook>>(),
    broken: new Set<string>(),
    told: [] as string[],
  };
  const count = (counts: Map<string, number>, slug: string): void =>
    void counts.set(slug, (counts.get(slug) ?? 0) + 1);
  const lookOf = (slug: string): Promise<Outlook> =>
    (town.outlook.get(slug) ?? (() => Promise.resolve(quiet)))();
  const tell = (message: string): void => void town.told.push(message);
  const log: Partial<Log> = { error: tell, warn: tell };
  const keeper = makeTenants({
    root: makeRoot(),
    pollMs: () => 60_000,
    schedules: () => '',
    log: log as Log,
    openLedger({ slug }) {
      count(town.opened, slug);
      if (town.broken.has(slug)) return Promise.reject(new Error('it does not open'));
      const ledger: LedgerOverlay = {
        workload: { readDue: () => lookOf(slug) },
        meta: { write: () => Promise.resolve() },
        close: () => Promise.resolve(count(town.closed, slug)),
      };
      return Promise.resolve(ledger as Ledger);
    },
    makeEngine(row) {
      const { slug } = row();
      const engine: Partial<LedgerEngine> = {
        config: { tenants: { trust: 'shared', idleMs } } as LedgerEngine['config'],
        start: () => Promise.resolve(),
        stop: () => Promise.resolve(),
        outlook: () => lookOf(slug),
        lookForWork: () => undefined,
      };
      return Promise.resolve(engine as LedgerEngine);
    },
  });
  await keeper.start();
  onTestFinished(() => keeper.stop());
  return { ...town, keeper };
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

const slugs = Array.from({ length: AWAKE_MAX }, (_, index) => `t${index}`);

async function fillUp({ keeper }: Town): Promise<Visit[]> {
  const visits: Visit[] = [];
  for (const slug of slugs) visits.push(await keeper.visit(slug));
  return visits;
}

function total(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, n) => sum + n, 0);
}

test('a tenant goes to sleep for each waiting caller, and each sleeps once', async () => {
  const town = await makeTown(60_000);
  for (const visit of await fillUp(town)) visit.end();
  // A slow idle check lets both callers look at the same tenants.
  town.outlook.set('t0', async () => {
    await turn();
    return quiet;
  });
  await Promise.all(['late', 'later', 'latest'].map((slug) => town.keeper.visit(slug)));
  expect([...town.closed.values()].every((n) => n === 1)).toBe(true);
  expect(town.keeper.awake.length).toBeLessThanOrEqual(AWAKE_MAX);
  expect(total(town.opened) - total(town.closed)).toBe(town.keeper.awake.length);
});

test('a tenant that works does not sleep to make room', async () => {
  const town = await makeTown(1);
  for (const slug of slugs) town.outlook.set(slug, () => Promise.resolve(busy));
  for (const visit of await fillUp(town)) visit.end();
  const late = town.keeper.visit('late');
  for (let turns = 0; turns < 50; turns += 1) await turn();
  expect(total(town.closed)).toBe(0);
  town.outlook.delete('t3');
  await late;
  expect([...town.closed.keys()]).toEqual(['t3']);
});

test('stopping does not wait for a slot that is never freed', async () => {
  const town = await makeTown(60_000);
  await fillUp(town);
  const late = town.keeper.visit('late');
  const refused = expect(late).rejects.toMatchObject({ code: 'STOPPING' });
  for (let turns = 0; turns < 10; turns += 1) await turn();
  await town.keeper.stop();
  await refused;
  expect(total(town.closed)).toBe(AWAKE_MAX);
  expect(town.opened.has('late')).toBe(false);
});

test('a tenant that is secluded while it waits for a slot is not waited for', async () => {
  const town = await makeTown(60_000);
  await fillUp(town);
  const late = town.keeper.visit('late');
  const refused = expect(late).rejects.toMatchObject({ code: 'TENANT_UNAVAILABLE' });
  for (let turns = 0; turns < 10; turns += 1) await turn();
  await town.keeper.seclude('late');
  await refused;
  expect(town.opened.has('late')).toBe(false);
});

test("a tenant that can't be read keeps no other awake and blocks no other", async () => {
  const town = await makeTown(1);
  for (const visit of await fillUp(town)) visit.end();
  town.outlook.set('t0', () => Promise.reject(new Error('the ledger does not answer')));
  await town.keeper.visit('late');
  await eventually('the others sleep', () => town.keeper.awake.length === 2);
  expect([...town.keeper.awake].sort()).toEqual(['late', 't0']);
});

test('a caller that arrives during the check finds the tenant awake', async () => {
  const town = await makeTown(limits.tenantSleepCheckMs / 2);
  const first = await town.keeper.visit('acme');
  first.end();
  const looks: (() => void)[] = [];
  town.outlook.set('acme', async () => {
    await new Promise<void>((resolve) => looks.push(resolve));
    return quiet;
  });
  // The first look is long enough after the first visit to have it sleep.
  await eventually('it was looked at', () => looks.length > 0);
  const second = await town.keeper.visit('acme');
  second.end();
  looks[0]?.();
  for (let turns = 0; turns < 10; turns += 1) await turn();
  expect(town.closed.size).toBe(0);
  town.outlook.delete('acme');
  for (const answer of looks) answer();
});

test('a tenant that fails to open is not opened again by every caller', async () => {
  const town = await makeTown(60_000);
  town.broken.add('acme');
  const comes = (): Promise<void> =>
    expect(town.keeper.visit('acme')).rejects.toMatchObject({ code: 'TENANT_UNAVAILABLE' });
  await comes();
  await comes();
  await comes();
  expect(town.opened.get('acme')).toBe(1);
});
