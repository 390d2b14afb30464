import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { IncidentMoves } from '../../src/ledger/incidents.ts';
import { openLedger, type LedgerPlace } from '../../src/ledger/open.ts';
import { restoreLedger } from '../../src/ledger/restore.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { makeDirectory } from '../support/directory.ts';
import { task } from '../unit/pipeline/graphs.ts';
import { define, start } from './run-words.ts';
import {
  databases,
  makeOlder,
  makePlace,
  openBench,
  openRaw,
  range,
  type Kind,
} from './support.ts';
import { beat, claimAs, crash, draft, pausing, signalOf, strict, succeed } from './words.ts';

async function makeBackup(kind: Kind): Promise<{ from: string; ledger: Ledger }> {
  const { ledger } = await openBench(kind);
  await ledger.enqueue({ jobs: range(30).map((index) => draft({ dedupe: strict(`k ${index}`) })) });
  const claimed = await claimAs(ledger, 'p1', { slots: 10 });
  const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{"s":1}' } as const;
  const ended = claimed.slice(0, 6).map((job) => succeed(job, { state, signals: [signalOf(job)] }));
  await ledger.settle(ended);
  const from = join(await makeDirectory(), 'backup.db');
  await ledger.backup(from);
  return { from, ledger };
}

function incident(): IncidentMoves['opened'][number] {
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

async function openRestored(place: LedgerPlace): Promise<Ledger> {
  const ledger = await openLedger(place);
  onTestFinished(() => ledger.close());
  return ledger;
}

const ways = databases.flatMap((source) => databases.map((target) => [source, target] as const));

describe.each(ways)('a backup of %s restored on %s', (source, target) => {
  test('is the same record, begun anew and paused', async () => {
    const { from, ledger } = await makeBackup(source);
    const place = await makePlace(target);
    expect(await restoreLedger(from, place)).toEqual({ previous: undefined });
    const restored = await openRestored(place);
    expect(await restored.check()).toEqual([]);
    const all = { limit: 1000, order: 'oldest' } as const;
    expect(await restored.jobs(all)).toEqual(await ledger.jobs(all));
    expect(await restored.signals({ limit: 100 })).toEqual(await ledger.signals({ limit: 100 }));
    expect(await restored.facts('echo', 100)).toEqual(await ledger.facts('echo', 100));
    expect(await restored.state('echo')).toBe('{"s":1}');
    expect(await restored.meta('paused')).toBe('1');
    expect(await restored.meta('restored_from')).toBe(from);
    expect(await restored.meta('epoch')).not.toBe(await ledger.meta('epoch'));
    expect(await restored.processes()).toEqual([]);
  });

  test('goes on where it stopped: numbers, keys, and what was left running', async () => {
    const { from } = await makeBackup(source);
    const place = await makePlace(target);
    await restoreLedger(from, place);
    const restored = await openRestored(place);
    await restored.heartbeat(beat('p2'));
    const orphans = await restored.orphans({ self: 'p2', staleMs: 30_000 });
    expect(orphans.map(({ processId, jobs }) => [processId, jobs.length])).toEqual([['p1', 4]]);
    for (const { processId, jobs } of orphans) {
      const closings = jobs.map((job) => crash(job));
      await restored.reap({ processId, staleMs: 30_000, closings });
    }
    const [duplicate, fresh] = [draft({ dedupe: strict('k 3') }), draft()];
    const [answer] = await restored.enqueue({ jobs: [duplicate, fresh] });
    expect(answer?.duplicateOf).toBeDefined();
    const claimed = await claimAs(restored, 'p2', { slots: 100 });
    expect(claimed).toHaveLength(25);
    expect(claimed.at(-1)?.id).toBe(fresh.id);
    const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{}' } as const;
    const closings = claimed.map((job) => succeed(job, { state, signals: [signalOf(job)] }));
    const { verdicts } = await restored.settle(closings);
    expect(new Set(verdicts.values())).toEqual(new Set(['settled']));
    expect((await restored.facts('echo', 1))[0]?.seq).toBe(31);
    expect(await restored.check()).toEqual([]);
  });
});

test('on PostgreSQL every number goes on after the last one that was copied', async () => {
  const { ledger } = await openBench('sqlite');
  await start(ledger, await define(ledger, [task('only')]));
  await ledger.moveIncidents({ opened: [incident()], renewed: [], closed: [] });
  await ledger.direct(pausing());
  const from = join(await makeDirectory(), 'backup.db');
  await ledger.backup(from);
  const place = await makePlace('postgres');
  await restoreLedger(from, place);
  const restored = await openRestored(place);
  await start(restored, await define(restored, [task('other')]));
  const { opened } = await restored.moveIncidents({
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
  const [{ id: jobId } = { id: '' }] = await ledger.jobs({ limit: 1 });
  await makeOlder(from);
  const place = await makePlace(kind);
  await restoreLedger(from, place);
  const restored = await openRestored(place);
  expect((await restored.job(jobId))?.id).toBe(jobId);
  expect(await restored.check()).toEqual([]);
  const raw = openRaw(place);
  onTestFinished(() => raw.close());
  const [signal] = await raw.run('select inserted_at, updated_at from signals limit 1');
  expect(signal?.['updated_at']).toBe(signal?.['inserted_at']);
});

describe('what cannot be restored', () => {
  test.each(databases)('leaves a %s ledger that is there as it is', async (kind) => {
    const { ledger, place, dump } = await openBench(kind);
    await ledger.enqueue({ jobs: [draft()] });
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
    await ledger.enqueue({ jobs: [draft()] });
    const before = await dump();
    await expect(restoreLedger(from, place)).rejects.toMatchObject({ code: 'BACKUP_INVALID' });
    expect(await dump()).toEqual(before);
  });

  test('a used file of SQLite is moved aside', async () => {
    const { from } = await makeBackup('sqlite');
    const place = await makePlace('sqlite');
    const old = await openLedger(place);
    const wanted = draft();
    await old.enqueue({ jobs: [wanted] });
    await old.close();
    const { previous } = await restoreLedger(from, place);
    const aside = await openRestored({ kind: 'sqlite', path: previous ?? '' });
    expect((await aside.job(wanted.id))?.status).toBe('queued');
    const restored = await openRestored(place);
    expect(await restored.job(wanted.id)).toBeUndefined();
  });
});
