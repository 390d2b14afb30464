/** Reads of SQLite that aren't by key run in threads, and don't block other work. */
import { noRules } from '../../src/ledger/rules.ts';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { Session } from '../../src/ledger/dialect.ts';
import { openLedger } from '../../src/ledger/open.ts';
import {
  ReaderGone,
  startReaderThread,
  type ReaderThread,
} from '../../src/ledger/sqlite/reader-thread.ts';
import { SqliteReaders } from '../../src/ledger/sqlite/readers.ts';
import { makeDirectory } from '../support/directory.ts';
import { draft } from '../support/ledger/drafts.ts';

const count = async (session: Session): Promise<unknown> =>
  (await session.run('select count(*) as n from t'))[0]?.['n'];

/** Some seconds of work that nothing interrupts. */
const SLOW = `with recursive c(n) as (select 1 union all select n + 1 from c where n < 6000000)
  select count(*) as n from c`;

async function makeFile(rows: number): Promise<string> {
  const path = join(await makeDirectory(), 'file.db');
  const db = new DatabaseSync(path);
  db.exec('pragma journal_mode = wal; create table t (n integer)');
  for (let n = 0; n < rows; n += 1) db.exec(`insert into t values (${n})`);
  db.close();
  return path;
}

/** A pool that records the threads it started. */
function makePool(readMs?: number) {
  const started: ReaderThread[] = [];
  const start = async (): Promise<ReaderThread> => {
    const thread = await startReaderThread();
    started.push(thread);
    return thread;
  };
  const readers = new SqliteReaders(start, readMs);
  return { readers, started };
}

afterEach(() => vi.restoreAllMocks());

describe('reader threads', () => {
  test('a list of jobs prepares no statement in the thread of the service', async () => {
    const place = { kind: 'sqlite', path: join(await makeDirectory(), 'ledger.db') } as const;
    const ledger = await openLedger(place, noRules);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const prepare = vi.spyOn(DatabaseSync.prototype, 'prepare');
    expect(await ledger.jobs.list({ limit: 10 })).toHaveLength(1);
    expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 1 });
    expect(prepare).not.toHaveBeenCalled();
    await ledger.close();
  });

  test('a read sees every write that was acknowledged before it', async () => {
    const place = { kind: 'sqlite', path: join(await makeDirectory(), 'ledger.db') } as const;
    const ledger = await openLedger(place, noRules);
    for (let jobs = 1; jobs <= 50; jobs += 1) {
      await ledger.jobs.enqueue({ jobs: [draft()] });
      expect(await ledger.jobs.count({ limit: 100 })).toBe(jobs);
    }
    await ledger.close();
  });

  test('all statements of one read see the same commits', async () => {
    const path = await makeFile(1);
    const { readers } = makePool();
    const writer = new DatabaseSync(path);
    const seen = await readers.read(path, async (session) => {
      const before = await count(session);
      writer.exec('insert into t values (9)');
      return [before, await count(session)];
    });
    expect(seen).toEqual([1, 1]);
    expect(await readers.read(path, count)).toBe(2);
    writer.close();
    await readers.release(path);
  });

  test('many files share few threads', async () => {
    const paths = await Promise.all(
      Array.from({ length: 2 * limits.readerFilesMax }, () => makeFile(3)),
    );
    const { readers, started } = makePool();
    const counts = await Promise.all([...paths, ...paths].map((path) => readers.read(path, count)));
    expect(counts).toEqual(Array.from({ length: 2 * paths.length }, () => 3));
    expect(started.length).toBeLessThanOrEqual(limits.readerThreadsMax);
    await Promise.all(paths.map((path) => readers.release(path)));
  });

  test('a read is repeated when its thread dies, in a new thread', async () => {
    const path = await makeFile(2);
    const { readers, started } = makePool();
    let reads = 0;
    const found = readers.read(path, async (session) => {
      reads += 1;
      if (reads === 1) {
        started[0]?.terminate(new ReaderGone());
      }
      return count(session);
    });
    expect(await found).toBe(2);
    expect(reads).toBe(2);
    expect(started).toHaveLength(2);
    await readers.release(path);
  });

  test('a read that takes too long fails, and other reads continue', async () => {
    const path = await makeFile(2);
    const { readers, started } = makePool(1000);
    const late = readers.read(path, (session) => session.run(SLOW));
    await expect(late).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(await readers.read(path, count)).toBe(2);
    expect(started).toHaveLength(2);
    await readers.release(path);
    await started[0]?.gone;
  });

  test('a statement that fails doesn’t end its thread', async () => {
    const path = await makeFile(2);
    const { readers, started } = makePool();
    await expect(
      readers.read(path, (session) => session.run('select nonsense from t')),
    ).rejects.toThrow('no such column: nonsense');
    await expect(readers.read(path, (session) => session.run('delete from t'))).rejects.toThrow(
      /readonly/,
    );
    expect(await readers.read(path, count)).toBe(2);
    expect(started).toHaveLength(1);
    await readers.release(path);
  });
});
