import { noRules } from '../../src/ledger/rules.ts';
import { chown, mkdir, open, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { IncidentChanges } from '../../src/insight/types.ts';
import { openLedger, type LedgerLocation } from '../../src/ledger/open.ts';
import { restoreLedger } from '../../src/ledger/restore.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { makeDirectory } from '../support/directory.ts';
import { task } from '../pipeline/graphs.ts';
import { define, start } from '../support/ledger/runs.ts';
import {
  databases,
  makeOlderLedger,
  makePlace,
  openBench,
  openRaw,
  range,
  type Kind,
} from '../support/ledger/bench.ts';
import {
  beat,
  claimAs,
  crash,
  draft,
  pausing,
  signalOf,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

async function makeBackup(kind: Kind): Promise<{ from: string; ledger: Ledger }> {
  const { ledger } = await openBench(kind);
  await ledger.jobs.enqueue({
    jobs: range(30).map((index) => draft({ dedupe: strict(`k ${index}`) })),
  });
  const claimed = await claimAs(ledger, 'p1', { slots: 10 });
  const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{"s":1}' } as const;
  const ended = claimed.slice(0, 6).map((job) => succeed(job, { state, signals: [signalOf(job)] }));
  await ledger.jobs.settle(ended);
  const from = join(await makeDirectory(), 'backup.db');
  await ledger.backup(from);
  return { from, ledger };
}

function incident(): IncidentChanges['opened'][number] {
  const id = makeId();
  const signal = { id: makeId(), type: 'incident.opened', source: 'ductile', data: '{}', hops: 1 };
  return {
    id,
    kind: 'breaker_open',
    key: id,
    count: 1,
    detail: '{}',
    emission: { signal: { ...signal, correlationId: id }, jobs: [], runs: [] },
  };
}

async function openRestored(place: LedgerLocation): Promise<Ledger> {
  const ledger = await openLedger(place, noRules);
  onTestFinished(() => ledger.close());
  return ledger;
}

const ways = databases.flatMap((source) => databases.map((target) => [source, target] as const));

describe.each(ways)('a backup of %s restored on %s', (source, target) => {
  test('is the same record, restarted and paused', async () => {
    const { from, ledger } = await makeBackup(source);
    const place = await makePlace(target);
    expect(await restoreLedger(from, place)).toEqual({ previous: undefined });
    const restored = await openRestored(place);
    expect(await restored.check()).toEqual([]);
    const all = { limit: 1000, order: 'oldest' } as const;
    expect(await restored.jobs.list(all)).toEqual(await ledger.jobs.list(all));
    expect(await restored.signals.list({ limit: 100 })).toEqual(
      await ledger.signals.list({ limit: 100 }),
    );
    expect(await restored.plugins.listFacts('echo', 100)).toEqual(
      await ledger.plugins.listFacts('echo', 100),
    );
    expect(await restored.plugins.readState('echo')).toBe('{"s":1}');
    expect(await restored.meta.read('paused')).toBe('1');
    expect(await restored.meta.read('restored_from')).toBe(from);
    expect(await restored.meta.read('epoch')).not.toBe(await ledger.meta.read('epoch'));
    expect(await restored.processes.list()).toEqual([]);
  });

  test('continues where it stopped: numbers, keys, and running work', async () => {
    const { from } = await makeBackup(source);
    const place = await makePlace(target);
    await restoreLedger(from, place);
    const restored = await openRestored(place);
    await restored.processes.heartbeat(beat('p2'));
    const orphans = await restored.processes.listOrphans({ self: 'p2', staleMs: 30_000 });
    expect(orphans.map(({ processId, jobs }) => [processId, jobs.length])).toEqual([['p1', 4]]);
    for (const { processId, jobs } of orphans) {
      const closings = jobs.map((job) => crash(job));
      await restored.processes.reap({ processId, staleMs: 30_000, closings });
    }
    const [duplicate, fresh] = [draft({ dedupe: strict('k 3') }), draft()];
    const [answer] = await restored.jobs.enqueue({ jobs: [duplicate, fresh] });
    expect(answer?.duplicateOf).toBeDefined();
    expect(await claimAs(restored, 'p2', { slots: 100 })).toEqual([]);
    await restored.meta.write('paused', '0');
    const claimed = await claimAs(restored, 'p2', { slots: 100 });
    expect(claimed).toHaveLength(25);
    expect(claimed.at(-1)?.id).toBe(fresh.id);
    const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{}' } as const;
    const closings = claimed.map((job) => succeed(job, { state, signals: [signalOf(job)] }));
    const { verdicts } = await restored.jobs.settle(closings);
    expect(new Set(verdicts.values())).toEqual(new Set(['settled']));
    expect((await restored.plugins.listFacts('echo', 1))[0]?.seq).toBe(31);
    expect(await restored.check()).toEqual([]);
  });
});

test('every number on PostgreSQL continues after the last one that was copied', async () => {
  const { ledger } = await openBench('sqlite');
  await start(ledger, await define(ledger, [task('only')]));
  await ledger.incidents.update({ opened: [incident()], renewed: [], closed: [] });
  await ledger.directives.create(pausing());
  const from = join(await makeDirectory(), 'backup.db');
  await ledger.backup(from);
  const place = await makePlace('postgres');
  await restoreLedger(from, place);
  const restored = await openRestored(place);
  await start(restored, await define(restored, [task('other')]));
  const { opened } = await restored.incidents.update({
    opened: [incident()],
    renewed: [],
    closed: [],
  });
  expect(opened).toHaveLength(1);
  const raw = openRaw(place);
  onTestFinished(() => raw.close());
  const numbered = await raw.run(
    `select table_name, column_name from information_schema.columns
      where table_schema = current_schema() and is_identity = 'YES' order by table_name`,
  );
  expect(numbered.length).toBeGreaterThan(5);
  for (const { table_name: table, column_name: column } of numbered) {
    const [row] = await raw.run(
      `select nextval(pg_get_serial_sequence('${table}', '${column}')) as next,
        coalesce(max(${column}), 0) as last from ${table}`,
    );
    expect([table, Number(row?.['next'])]).toEqual([table, Number(row?.['last']) + 1]);
  }
});

test.each(databases)('a backup of an earlier program can be restored on %s', async (kind) => {
  const { from, ledger } = await makeBackup('sqlite');
  const [{ id: jobId } = { id: '' }] = await ledger.jobs.list({ limit: 1 });
  await makeOlderLedger(from);
  const place = await makePlace(kind);
  await restoreLedger(from, place);
  const restored = await openRestored(place);
  expect((await restored.jobs.find(jobId))?.id).toBe(jobId);
  expect(await restored.check()).toEqual([]);
  const raw = openRaw(place);
  onTestFinished(() => raw.close());
  const [signal] = await raw.run('select inserted_at, updated_at from signals limit 1');
  expect(signal?.['updated_at']).toBe(signal?.['inserted_at']);
});

describe("a backup that can't be restored", () => {
  test.each(databases)('leaves a %s ledger that is there as it is', async (kind) => {
    const { ledger, place, dump } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const before = await dump();
    const directory = await makeDirectory();
    const text = join(directory, 'text');
    await writeFile(text, 'no database, and longer than the header of one would be'.repeat(30));
    for (const from of [join(directory, 'missing'), text]) {
      await expect(restoreLedger(from, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
    }
    expect(await dump()).toEqual(before);
  });

  test('is a used schema of PostgreSQL, which is not overwritten', async () => {
    const { from } = await makeBackup('sqlite');
    const { ledger, place, dump } = await openBench('postgres');
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const before = await dump();
    await expect(restoreLedger(from, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
    expect(await dump()).toEqual(before);
  });

  test('a used file of SQLite is moved aside', async () => {
    const { from } = await makeBackup('sqlite');
    const place = await makePlace('sqlite');
    const old = await openLedger(place, noRules);
    const jobDraft = draft();
    await old.jobs.enqueue({ jobs: [jobDraft] });
    await old.close();
    const { previous } = await restoreLedger(from, place);
    const aside = await openRestored({ kind: 'sqlite', path: previous ?? '' });
    expect((await aside.jobs.find(jobDraft.id))?.status).toBe('queued');
    const restored = await openRestored(place);
    expect(await restored.jobs.find(jobDraft.id)).toBeUndefined();
  });

  test('is a schema of PostgreSQL that holds anything else than a start leaves there', async () => {
    const { from } = await makeBackup('sqlite');
    const { place, dump, sql } = await openBench('postgres');
    await sql(`insert into plugin_state (plugin_name, state, updated_at) values ('p', '{}', '')`);
    const before = await dump();
    await expect(restoreLedger(from, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
    expect(await dump()).toEqual(before);
  });

  test('is what would take the place of a database of another program', async () => {
    const { from } = await makeBackup('sqlite');
    const { path, place } = await makeFile();
    const foreign = openRaw(place);
    await foreign.run('create table other (one)');
    await foreign.close();
    const before = await readFile(path);
    await expect(restoreLedger(from, place)).rejects.toMatchObject({ code: 'LEDGER_FOREIGN' });
    expect(await readFile(path)).toEqual(before);
  });

  test('leaves the ledger in its place when there is no room for the copy', async () => {
    const { from } = await makeBackup('sqlite');
    const { path, place } = await makeFile();
    const expected = await fillOne(place);
    await mkdir(`${path}.partial/in-the-way`, { recursive: true });
    await expect(restoreLedger(from, place)).rejects.toThrow();
    const kept = await openRestored(place);
    expect((await kept.jobs.find(expected))?.status).toBe('queued');
  });
});

describe('a file of SQLite that cannot be used', () => {
  const damages = {
    'has lost pages': async (path: string) => {
      const file = await open(path, 'r+');
      const { size } = await file.stat();
      for (let at = 4096; at < size; at += 8192) await file.write(Buffer.alloc(4096), 0, 4096, at);
      await file.close();
    },
    'is no database': (path: string) => writeFile(path, 'nothing that SQLite knows '.repeat(99)),
    'is of a newer program': async (path: string) => {
      const raw = openRaw({ kind: 'sqlite', path });
      await raw.run('pragma user_version = 999');
      await raw.close();
    },
  };

  test.each(Object.entries(damages))('because it %s gives way to a backup', async (_, damage) => {
    const { from, ledger } = await makeBackup('sqlite');
    const { path, place } = await makeFile();
    await fillOne(place);
    await damage(path);
    const before = await readFile(path);
    const { previous } = await restoreLedger(from, place);
    expect(await readFile(previous ?? '')).toEqual(before);
    const restored = await openRestored(place);
    expect(await restored.check()).toEqual([]);
    expect(await restored.jobs.list({ limit: 99 })).toEqual(await ledger.jobs.list({ limit: 99 }));
  });

  test('keeps the schema that it has', async () => {
    const { from } = await makeBackup('sqlite');
    const { path, place } = await makeFile();
    await fillOne(place);
    await makeOlderLedger(path);
    const { previous } = await restoreLedger(from, place);
    const raw = openRaw({ kind: 'sqlite', path: previous ?? '' });
    expect(await raw.run('pragma user_version')).toEqual([{ user_version: 11 }]);
    await raw.close();
  });
});

test('files that a killed restore left beside the ledger are ignored', async () => {
  const { from, ledger } = await makeBackup('sqlite');
  const { path, place } = await makeFile();
  await fillOne(place);
  // A journal that belongs to another file, and would be folded into this one.
  const other = openRaw({ kind: 'sqlite', path: `${path}.partial` });
  await other.run('pragma journal_mode = wal');
  await other.run('create table stray (one)');
  const journal = await readFile(`${path}.partial-wal`);
  await other.close();
  await writeFile(`${path}.partial-wal`, journal);
  await restoreLedger(from, place);
  const restored = await openRestored(place);
  expect(await restored.check()).toEqual([]);
  expect(await restored.jobs.list({ limit: 99 })).toEqual(await ledger.jobs.list({ limit: 99 }));
  expect((await readdir(join(path, '..'))).filter((name) => name.includes('partial'))).toEqual([]);
});

test.runIf(process.getuid?.() === 0)('root leaves the file to whom the place belongs', async () => {
  const { from } = await makeBackup('sqlite');
  const { path, place } = await makeFile();
  await chown(join(path, '..'), 1, 1);
  await restoreLedger(from, place);
  expect(await stat(path)).toMatchObject({ uid: 1, gid: 1 });
  await chown(path, 2, 2);
  await restoreLedger(from, place);
  expect(await stat(path)).toMatchObject({ uid: 2, gid: 2 });
});

test('a file restored from itself is the same record, paused', async () => {
  const { path, place } = await makeFile();
  const expected = await fillOne(place);
  await restoreLedger(path, place);
  const restored = await openRestored(place);
  expect((await restored.jobs.find(expected))?.status).toBe('queued');
  expect(await restored.meta.read('paused')).toBe('1');
});

test('a schema in which a service was only started gives way to a backup', async () => {
  const { ledger, sql } = await openBench('sqlite');
  await start(ledger, await define(ledger, [task('only')]));
  const from = join(await makeDirectory(), 'backup.db');
  await ledger.backup(from);
  const { place, sql: ask } = await openBench('postgres');
  const [{ tx: _, ...known } = {}] = await sql('select * from pipeline_definitions');
  const columns = Object.keys(known);
  await ask(
    `insert into pipeline_definitions (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
    Object.values(known),
  );
  await restoreLedger(from, place);
  const restored = await openRestored(place);
  expect(await restored.jobs.list({ limit: 9 })).toEqual(await ledger.jobs.list({ limit: 9 }));
});

async function makeFile(): Promise<{ path: string; place: LedgerLocation }> {
  const directory = await makeDirectory();
  const path = join(directory, 'ledger.db');
  return { path, place: { kind: 'sqlite', path } };
}

async function fillOne(place: LedgerLocation): Promise<string> {
  const ledger = await openLedger(place, noRules);
  const job = draft();
  await ledger.jobs.enqueue({ jobs: [job] });
  await ledger.close();
  return job.id;
}
