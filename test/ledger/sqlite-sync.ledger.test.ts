import { statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { openSqlite, type SqliteStore } from '../../src/ledger/sqlite/store.ts';
import type { DiskSync } from '../../src/ledger/sqlite/sync.ts';
import { makeDirectory } from '../support/directory.ts';

/** A disk that syncs when the test says so. */
class SlowDisk implements DiskSync {
  readonly asked: PromiseWithResolvers<void>[] = [];
  syncsHere = 0;
  /** The time that it says it is. */
  time = 0;
  #awaited: (() => void) | undefined;

  syncNow = (): void => void (this.syncsHere += 1);
  nowMs = (): number => this.time;

  syncInThread = (): Promise<void> => {
    const sync = Promise.withResolvers<void>();
    this.asked.push(sync);
    this.#awaited?.();
    return sync.promise;
  };

  /** Resolves when the sync of this number has been asked for. */
  async isAsked(count: number): Promise<PromiseWithResolvers<void>> {
    while (this.asked.length < count) {
      await new Promise<void>((resolve) => (this.#awaited = resolve));
    }
    return this.asked[count - 1] ?? Promise.reject(new Error('it was not asked for'));
  }
}

async function open(disk: DiskSync): Promise<SqliteStore> {
  const store = openSqlite(join(await makeDirectory(), 'ledger.db'), undefined, disk);
  store.writer.exec('create table notes (text text)');
  return store;
}

const note = (store: SqliteStore, text: string): Promise<unknown> =>
  store.write(['other'], (tx) => tx.run('insert into notes values (?)', [text]));

const notes = (store: SqliteStore): Promise<unknown[]> =>
  store.read(async (session) =>
    (await session.run('select text from notes')).map((row) => row['text']),
  );

/** Waits until everything has happened that happens by itself. */
async function whatIsDone(promise: Promise<unknown>): Promise<'done' | 'waits'> {
  const turns = async (): Promise<'waits'> => {
    for (let turn = 0; turn < 20; turn++) await new Promise((next) => setImmediate(next));
    return 'waits';
  };
  return await Promise.race([promise.then(() => 'done' as const), turns()]);
}

describe('a commit', () => {
  test('is acknowledged, and visible to readers, when it is on the disk', async () => {
    const disk = new SlowDisk();
    const store = await open(disk);
    const written = note(store, 'one');
    const sync = await disk.isAsked(1);
    const read = notes(store);
    expect([await whatIsDone(written), await whatIsDone(read)]).toEqual(['waits', 'waits']);
    sync.resolve();
    expect([await whatIsDone(written), await read]).toEqual(['done', ['one']]);
    await store.close();
  });

  test('shares its sync with others of its turn, and later ones share the next', async () => {
    const disk = new SlowDisk();
    const store = await open(disk);
    const first = ['one', 'two', 'three'].map((text) => note(store, text));
    const sync = await disk.isAsked(1);
    const later = ['four', 'five', 'six'].map((text) => note(store, text));
    expect(await whatIsDone(Promise.race([...first, ...later]))).toBe('waits');
    disk.time += limits.inlineSyncMs;
    sync.resolve();
    await Promise.all(first);
    (await disk.isAsked(2)).resolve();
    await Promise.all(later);
    expect([disk.asked.length, disk.syncsHere]).toEqual([2, 0]);
    await store.close();
  });

  test('is synced in the main thread when the disk is fast', async () => {
    const disk = new SlowDisk();
    disk.syncInThread = () => Promise.resolve();
    const store = await open(disk);
    // The first sync runs in a thread, to measure its time.
    for (const text of ['one', 'two', 'three']) await note(store, text);
    expect(disk.syncsHere).toBe(2);
    await store.close();
  });

  test('that changed nothing needs no sync', async () => {
    const disk = new SlowDisk();
    const store = await open(disk);
    const first = note(store, 'one');
    (await disk.isAsked(1)).resolve();
    await first;
    await store.write(['claim'], (tx) => tx.run('select 1'));
    expect([disk.asked.length, disk.syncsHere]).toEqual([1, 0]);
    await store.close();
  });
});

describe('a sync that fails', () => {
  test('acknowledges nothing, and everything is written again before the next write', async () => {
    const disk = new SlowDisk();
    const store = await open(disk);
    const lost = note(store, 'one');
    (await disk.isAsked(1)).reject(new Error('EIO'));
    await expect(lost).rejects.toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
    const before = statSync(`${store.path}-wal`).size;
    const next = note(store, 'two');
    (await disk.isAsked(2)).resolve();
    await next;
    // The content of the journal is in the file itself; the journal holds the second note alone.
    expect(statSync(`${store.path}-wal`).size).toBeLessThan(before);
    expect(await notes(store)).toEqual(['one', 'two']);
    await store.close();
  });

  test('fails the writes after it while the file cannot be written either', async () => {
    const disk = new SlowDisk();
    const store = await open(disk);
    const lost = note(store, 'one');
    (await disk.isAsked(1)).reject(new Error('EIO'));
    await expect(lost).rejects.toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
    // An open reader blocks the checkpoint.
    const { DatabaseSync } = await import('node:sqlite');
    const other = new DatabaseSync(store.path);
    other.exec('begin');
    other.prepare('select * from notes').all();
    store.writer.exec('pragma busy_timeout = 0');
    await expect(note(store, 'two')).rejects.toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
    other.exec('commit');
    other.close();
    const third = note(store, 'three');
    (await disk.isAsked(2)).resolve();
    await third;
    expect(await notes(store)).toEqual(['one', 'three']);
    await store.close();
  });
});

test('a slow disk never blocks the event loop', async () => {
  const disk = new SlowDisk();
  disk.syncInThread = () => Promise.resolve(void (disk.time += limits.inlineSyncMs));
  const store = await open(disk);
  for (const text of ['one', 'two', 'three']) await note(store, text);
  expect(disk.syncsHere).toBe(0);
  await store.close();
});
