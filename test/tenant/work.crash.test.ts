/** Servers are killed while several tenants work and others sleep over what is due: nothing is lost. */
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, test } from 'vitest';
import { fromTimestamp, toTimestamp } from '../../src/base/clock.ts';
import { makeId } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { openReadonlyLedger } from '../../src/ledger/open-readonly.ts';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import {
  databases,
  eventually,
  makePlace,
  type Database,
  type TestPlace,
} from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { makeTenant, withTenantLedger } from '../support/tenant-ledgers.ts';
import { launch } from '../support/crash/server.ts';

const timeout = 240_000;
const patienceMs = 120_000;
const JOBS = 12;
const KILLS = 2;
/** The next kill comes after so many notes more. */
const NOTES = 7;
const LATER_MS = 4000;

/** Long enough that some jobs run whenever the server is killed. */
const program = python('time.sleep(0.02); note(request["job_id"]); ok()');

interface TenantWork {
  readonly place: TestPlace;
  /** Ids of jobs by the tenant that they are of. */
  readonly jobs: ReadonlyMap<string, readonly string[]>;
}

/** Three tenants that have work now, one that has some later, and one that has none. */
async function makeTenantWork(database: Database): Promise<TenantWork> {
  const place = await makePlace({
    database,
    plugins: { worker: { program, settings: { shared: true, parallelism: 4 } } },
    tenants: { trust: 'shared', idle: '200ms' },
    service: {
      heartbeat_interval: '100ms',
      reap_after: database === 'postgres' ? '1500ms' : '400ms',
      max_crashes: 100,
    },
  });
  const jobs = new Map<string, readonly string[]>();
  const root = await openLedger(place.config.state, noRules);
  for (const due of ['now', 'now', 'now', 'later', 'never'] as const) {
    const slug = await makeTenant(root, place.config);
    const ids = Array.from({ length: { now: JOBS, later: 1, never: 0 }[due] }, () => makeId());
    jobs.set(slug, ids);
    await withTenantLedger(place.config, slug, (ledger) => enqueue(ledger, ids, due));
    const at = toTimestamp(fromTimestamp(await root.now()) + LATER_MS);
    if (due !== 'never') await root.tenants.recordDue(slug, due === 'now' ? 'now' : { at });
  }
  await root.close();
  return { place, jobs };
}

async function enqueue(ledger: Ledger, ids: readonly string[], due: string): Promise<void> {
  const draft = { plugin: 'worker', command: 'poll', payload: '{}', actor: 'test' } as const;
  const put = due === 'later' ? { due: { inMs: LATER_MS } } : {};
  await ledger.jobs.enqueue({
    jobs: ids.map((id) => ({ ...draft, ...put, id, submittedBy: 'api', maxAttempts: 4 })),
  });
}

/** A job that ran when its server was killed is done only when its end is recorded. */
async function allDone({ place, jobs }: TenantWork): Promise<void> {
  for (const slug of jobs.keys()) {
    const ledger = await openReadonlyLedger(locateTenantLedger(place.config.state, slug));
    const open = { status: ['queued', 'running'], limit: 1 } as const;
    const isDone = async () => (await ledger.jobs.count(open)) === 0;
    await eventually(`all of ${slug} is done`, isDone, patienceMs);
    await ledger.close();
  }
}

async function someNoted({ place }: TenantWork, count: number): Promise<void> {
  const isEnough = async () => (await place.notes()).length >= count;
  await eventually(`${count} jobs have run`, isEnough, patienceMs);
}

/** Each job has succeeded once, in its own ledger, and no claim of the dead is left. */
async function verify({ place, jobs }: TenantWork): Promise<void> {
  for (const [slug, ids] of jobs) {
    await withTenantLedger(place.config, slug, async (ledger) => {
      expect(await ledger.check()).toEqual([]);
      const found = await ledger.jobs.list({ limit: 100 });
      expect(found.map(({ id }) => id).sort()).toEqual(ids.toSorted());
      expect(new Set(found.map(({ status }) => status))).toEqual(
        new Set(ids.length === 0 ? [] : ['succeeded']),
      );
      const attempts = await ledger.attempts.listByJob(ids);
      const succeeded = attempts.filter(({ status }) => status === 'succeeded');
      expect(succeeded.map(({ jobId }) => jobId).sort()).toEqual(ids.toSorted());
    });
  }
}

describe.each(databases)('on %s', (database) => {
  test('a server is killed again and again', { timeout }, async () => {
    const work = await makeTenantWork(database);
    for (let kill = 1; kill <= KILLS; kill += 1) {
      const victim = launch(work.place.directory);
      await victim.ready;
      await someNoted(work, kill * NOTES);
      await victim.kill();
    }
    const server = launch(work.place.directory);
    await server.ready;
    await allDone(work);
    expect(await server.stop()).toEqual({ code: 0, signal: null });
    await verify(work);
  });

  test(
    'the service is killed while all tenants sleep, before something is due',
    { timeout },
    async () => {
      const work = await makeTenantWork(database);
      const victim = launch(work.place.directory);
      await victim.ready;
      await someNoted(work, 3 * JOBS);
      await victim.kill();
      const server = launch(work.place.directory);
      await server.ready;
      await allDone(work);
      expect(await server.stop()).toEqual({ code: 0, signal: null });
      await verify(work);
    },
  );
});

test('a host is killed, and another host does its work', { timeout }, async () => {
  const work = await makeTenantWork('postgres');
  const victim = launch(work.place.directory);
  const other = launch(work.place.directory);
  await Promise.all([victim.ready, other.ready]);
  await someNoted(work, NOTES);
  await victim.kill();
  await allDone(work);
  const root = await openLedger(work.place.config.state, noRules);
  await eventually(
    'the dead one is forgotten',
    async () => (await root.processes.list()).length === 1,
  );
  await root.close();
  expect(await other.stop()).toEqual({ code: 0, signal: null });
  await verify(work);
});
