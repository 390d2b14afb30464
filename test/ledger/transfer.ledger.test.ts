/** All ledgers from one database into another, and what is found when something is not right. */
import { noRules } from '../../src/ledger/rules.ts';
import { createHash } from 'node:crypto';
import { appendFile, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger, type LedgerLocation } from '../../src/ledger/open.ts';
import {
  removeLedger,
  locateTenantLedger,
  type RootLocation,
} from '../../src/ledger/tenant-location.ts';
import { restoreLedger } from '../../src/ledger/restore.ts';
import { exportLedgers, importLedgers, planImport } from '../../src/ledger/transfer.ts';
import { makeDirectory } from '../support/directory.ts';
import {
  databases,
  makeOlderLedger,
  makePlace,
  range,
  type Kind,
} from '../support/ledger/bench.ts';
import { claimAs, draft, signalOf, succeed } from '../support/ledger/drafts.ts';

const limits = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };
const ways = databases.flatMap((source) => databases.map((target) => [source, target] as const));

/** Unique names of tenants, because their schemas are in the same database as those of other tests. */
function makeSlug(): string {
  return `t${makeToken()
    .replaceAll(/[^a-z0-9]/g, '')
    .slice(0, 20)}`;
}

async function makeRoot(kind: Kind): Promise<RootLocation> {
  const place = await makePlace(kind);
  const dir = place.kind === 'sqlite' ? dirname(place.path) : await makeDirectory();
  return { ...place, dir };
}

async function open(place: LedgerLocation): Promise<Ledger> {
  const ledger = await openLedger(place, noRules);
  onTestFinished(() => ledger.close());
  return ledger;
}

async function fill(ledger: Ledger, jobs: number): Promise<void> {
  const keyed = draft({ dependencyKey: 'k' });
  await ledger.jobs.enqueue({ jobs: [...range(jobs - 1).map(() => draft()), keyed] });
  const claimed = await claimAs(ledger, 'p1', { slots: 5 });
  await ledger.jobs.settle(claimed.map((job) => succeed(job, { signals: [signalOf(job)] })));
}

/** A root ledger with two tenants, written to a directory. */
async function exported(
  kind: Kind,
): Promise<{ directory: string; slugs: string[]; jobs: number[] }> {
  const place = await makeRoot(kind);
  const root = await open(place);
  const slugs = [makeSlug(), makeSlug()].toSorted();
  const jobs = [12, 7];
  for (const [index, slug] of slugs.entries()) {
    await root.tenants.insert({ slug, title: slug, limits, createdBy: 'test' });
    const own = await openLedger(locateTenantLedger(place, slug), noRules);
    await fill(own, jobs[index] ?? 0);
    await own.close();
    await root.tenants.updateStatus(slug, ['creating'], 'active');
  }
  await fill(root, 20);
  const directory = join(await makeDirectory(), 'moved');
  const { ledgers } = await exportLedgers(root, place, directory);
  expect(ledgers.map(({ tenant }) => tenant)).toEqual([...slugs, null]);
  // The schemas are in one database: the target must find room for its own.
  for (const slug of slugs) await removeLedger(locateTenantLedger(place, slug));
  return { directory, slugs, jobs };
}

describe.each(ways)('from %s to %s', (source, target) => {
  test('all ledgers arrive with all that they hold', async () => {
    const { directory, slugs, jobs } = await exported(source);
    const place = await makeRoot(target);
    for (const slug of slugs) onTestFinished(() => removeLedger(locateTenantLedger(place, slug)));
    const plan = await planImport(directory, place);
    expect(plan).toHaveLength(3);
    const { ledgers } = await importLedgers(directory, place);
    expect(ledgers.map(({ tenant }) => tenant)).toEqual([...slugs, null]);
    const root = await open(place);
    expect((await root.tenants.list()).map(({ slug, status }) => [slug, status])).toEqual(
      slugs.map((slug) => [slug, 'active']),
    );
    const moved = await root.jobs.list({ limit: 100 });
    expect(moved).toHaveLength(20);
    expect(moved.map(({ dependencyKey }) => dependencyKey)).toContain('k');
    for (const [index, slug] of slugs.entries()) {
      const own = await openLedger(locateTenantLedger(place, slug), noRules);
      expect(await own.check()).toEqual([]);
      expect((await own.jobs.list({ limit: 100 })).length).toBe(jobs[index]);
      expect(await own.meta.read('paused')).toBe('1');
      // New rows come after those that were brought.
      await own.jobs.enqueue({ jobs: [draft()] });
      await own.close();
    }
    await expect(importLedgers(directory, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
  });
});

test.each(databases)('an export of an earlier version is read, too (%s)', async (kind) => {
  const { directory, slugs } = await exported('sqlite');
  const path = join(directory, 'manifest.json');
  const manifest = JSON.parse(await readFile(path, 'utf8')) as {
    schema_version: number;
    ledgers: { file: string; sha256: string; tables: Record<string, { hash: string }> }[];
  };
  manifest.schema_version = 11;
  for (const ledger of manifest.ledgers) {
    const file = join(directory, ledger.file);
    await makeOlderLedger(file);
    ledger.sha256 = createHash('sha256')
      .update(await readFile(file))
      .digest('hex');
    const { signals } = ledger.tables;
    if (signals !== undefined) signals.hash = 'of fewer columns';
  }
  await writeFile(path, JSON.stringify(manifest));
  const place = await makeRoot(kind);
  for (const slug of slugs) onTestFinished(() => removeLedger(locateTenantLedger(place, slug)));
  await importLedgers(directory, place);
  const root = await open(place);
  expect(await root.jobs.list({ limit: 100 })).toHaveLength(20);
  expect(await root.signals.list({ limit: 100 })).toHaveLength(5);
});

test.each(databases)('an import that was killed midway can be repeated (%s)', async (kind) => {
  const { directory, slugs, jobs } = await exported('sqlite');
  const place = await makeRoot(kind);
  const places = slugs.map((slug) => locateTenantLedger(place, slug));
  for (const own of places) onTestFinished(() => removeLedger(own));
  const [first = place, second = place] = places;
  // The first one had arrived, the second one in part.
  await restoreLedger(join(directory, `org_${slugs[0]}.db`), first);
  if (kind === 'postgres') {
    const half = await openLedger(second, noRules);
    await fill(half, 3);
    await half.meta.write('restoring', join(directory, `org_${slugs[1]}.db`));
    await half.close();
    await expect(openLedger(second, noRules)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
  }
  expect(await planImport(directory, place)).toHaveLength(3);
  await importLedgers(directory, place);
  for (const [index, own] of places.entries()) {
    const ledger = await open(own);
    expect((await ledger.jobs.list({ limit: 100 })).length).toBe(jobs[index]);
    expect(await ledger.meta.read('restoring')).toBeUndefined();
  }
  // The import is complete now, so the ledgers are in use.
  await expect(importLedgers(directory, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
});

test.each(databases)('a ledger that holds anything is not replaced (%s)', async (kind) => {
  const { directory, slugs } = await exported('sqlite');
  const place = await makeRoot(kind);
  const own = locateTenantLedger(place, slugs[0] ?? '');
  onTestFinished(() => removeLedger(own));
  const root = await openLedger(place, noRules);
  await root.tenants.insert({ slug: 'other', title: 'other', limits, createdBy: 'test' });
  await root.close();
  await expect(importLedgers(directory, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
});

test('a file that changed on the way, or is missing, is refused before anything is written', async () => {
  const { directory, slugs } = await exported('sqlite');
  const place = await makeRoot('sqlite');
  await appendFile(join(directory, `org_${slugs[0]}.db`), 'x');
  await expect(importLedgers(directory, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
  await rm(join(directory, 'manifest.json'));
  await expect(importLedgers(directory, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
  const root = await open(place);
  expect(await root.tenants.list()).toEqual([]);
});

test.each(databases)(
  'rows that are not those of the manifest undo the import (%s)',
  async (kind) => {
    const { directory, slugs } = await exported('sqlite');
    const path = join(directory, 'manifest.json');
    const manifest = JSON.parse(await readFile(path, 'utf8')) as {
      ledgers: { tables: { job_queue: { hash: string } } }[];
    };
    for (const { tables } of manifest.ledgers) tables.job_queue.hash = '0'.repeat(32);
    await writeFile(path, JSON.stringify(manifest));
    const place = await makeRoot(kind);
    await expect(importLedgers(directory, place)).rejects.toThrow(/job_queue/);
    const own = await openLedger(locateTenantLedger(place, slugs[0] ?? ''), noRules);
    expect(await own.jobs.list({ limit: 1 })).toEqual([]);
    await own.close();
    await removeLedger(locateTenantLedger(place, slugs[0] ?? ''));
  },
);

test('a directory with something in it is not written to', async () => {
  const directory = await makeDirectory();
  await writeFile(join(directory, 'mine'), '');
  const place = await makeRoot('sqlite');
  const exporting = exportLedgers(await open(place), place, directory);
  await expect(exporting).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
});
