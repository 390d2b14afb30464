/** The disk fills up, the file is busy, a write fails: nothing is half done, and the ledger works afterwards. */
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { limits } from '../../src/base/limits.ts';
import type * as files from '../../src/ledger/sqlite/file.ts';
import { openBench, range } from '../support/ledger/bench.ts';
import {
  claimAs,
  draft,
  request,
  settleOne,
  signalOf,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

/** The writing connections that ledgers opened: only through them can the disk be made small. */
const writers: DatabaseSync[] = [];

vi.mock('../../src/ledger/sqlite/file.ts', async (original) => {
  const actual = await original<typeof files>();
  return {
    ...actual,
    openWriter(path: string) {
      const writer = actual.openWriter(path);
      writers.push(writer);
      return writer;
    },
  };
});

beforeEach(() => void writers.splice(0));
afterEach(() => void vi.restoreAllMocks());

async function open() {
  const bench = await openBench('sqlite');
  const [writer] = writers;
  if (writer === undefined) throw new Error('no writer was opened');
  return { ...bench, writer };
}

const unavailable = { code: 'LEDGER_UNAVAILABLE' };

/** Makes an error in the form of SQLite's errors. */
function sqliteError(errcode: number): Error {
  return Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode });
}

/** Counts how often a statement ran. */
function countRuns(sql: string): () => number {
  const spy = vi.spyOn(StatementSync.prototype, 'run');
  return () =>
    (spy.mock.contexts as StatementSync[]).filter(({ sourceSQL }) => sourceSQL === sql).length;
}

function codesOf(results: readonly PromiseSettledResult<unknown>[]): string[] {
  return results.map((result) => {
    if (result.status === 'fulfilled') return 'done';
    return result.reason instanceof DuctileError ? result.reason.code : String(result.reason);
  });
}

describe('a full disk', () => {
  function fill(writer: DatabaseSync, spare: number): void {
    const pages = Number(Object.values(writer.prepare('pragma page_count').get() ?? {})[0]);
    writer.exec(`pragma max_page_count = ${pages + spare}`);
  }

  const megabyte = 'x'.repeat(1024 * 1024);

  test('accepts nothing, keeps everything, and continues when there is space again', async () => {
    const { ledger, writer, dump } = await open();
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    const before = await dump();
    fill(writer, 0);
    const big = draft({ payload: megabyte });
    const closing = succeed(job, { signals: [signalOf(job)], jobs: [big] });
    await expect(ledger.jobs.enqueue({ jobs: [big] })).rejects.toMatchObject(unavailable);
    await expect(ledger.jobs.settle([closing], request('p1'))).rejects.toMatchObject(unavailable);
    expect(await dump()).toEqual(before);
    expect((await ledger.jobs.find(job.id))?.status).toBe('running');
    fill(writer, 100_000);
    expect(await settleOne(ledger, closing)).toBe('settled');
    expect((await ledger.jobs.countQueue()).ready).toBe(1);
  });

  test('reports no result of a job that did not end', async () => {
    const { ledger, writer } = await open();
    const job = await startOne(ledger, 'p1');
    const notified: unknown[] = [];
    ledger.onEnds((...args) => void notified.push(args));
    fill(writer, 0);
    const closing = succeed(job, { jobs: [draft({ payload: megabyte })] });
    await expect(ledger.jobs.settle([closing])).rejects.toMatchObject(unavailable);
    expect(notified).toEqual([[[job.id], undefined]]);
  });

  test('fails only the writes of a group that do not fit', async () => {
    const { ledger, writer } = await open();
    fill(writer, 60);
    const sizes = ['{}', megabyte, '{}', megabyte, '{}'];
    const jobs = sizes.map((payload) => draft({ payload }));
    const results = await Promise.allSettled(
      jobs.map((job) => ledger.jobs.enqueue({ jobs: [job] })),
    );
    expect(codesOf(results)).toEqual([
      'done',
      'LEDGER_UNAVAILABLE',
      'done',
      'LEDGER_UNAVAILABLE',
      'done',
    ]);
    const found = await ledger.jobs.list({ limit: 10, order: 'oldest' });
    expect(found.map(({ id }) => id)).toEqual([0, 2, 4].map((place) => jobs[place]?.id));
    fill(writer, 100_000);
  });

  test('fails a whole group that does not fit, and none of it is written', async () => {
    const { ledger, writer, dump } = await open();
    const before = await dump();
    fill(writer, 0);
    const results = await Promise.allSettled(
      range(5).map(() => ledger.jobs.enqueue({ jobs: [draft({ payload: megabyte })] })),
    );
    expect(codesOf(results)).toEqual(Array(5).fill('LEDGER_UNAVAILABLE'));
    expect(await dump()).toEqual(before);
    fill(writer, 100_000);
  });
});

describe('a write that fails', () => {
  /** Makes the nth statement that inserts into the queue from now on fail so. */
  function failInsert(nth: number, failure: () => void): void {
    let left = nth;
    // eslint-disable-next-line typescript/unbound-method -- it is called on its own statement below
    const all = StatementSync.prototype.all;
    vi.spyOn(StatementSync.prototype, 'all').mockImplementation(function (
      this: StatementSync,
      ...values: unknown[]
    ) {
      if (this.sourceSQL.includes('insert into job_queue') && (left -= 1) === 0) failure();
      return all.apply(this, values as never);
    });
  }

  /** Makes the nth run of a statement from now on fail with that code. */
  function failRun(sql: string, nth: number, errcode: number): void {
    let left = nth;
    // eslint-disable-next-line typescript/unbound-method -- it is called on its own statement below
    const run = StatementSync.prototype.run;
    vi.spyOn(StatementSync.prototype, 'run').mockImplementation(function (
      this: StatementSync,
      ...values: unknown[]
    ) {
      if (this.sourceSQL === sql && (left -= 1) === 0) throw sqliteError(errcode);
      return run.apply(this, values as never);
    });
  }

  test('with the transaction still open fails its unit alone', async () => {
    const { ledger } = await open();
    failInsert(2, () => {
      throw sqliteError(10);
    });
    const jobs = range(4).map(() => draft());
    const results = await Promise.allSettled(
      jobs.map((job) => ledger.jobs.enqueue({ jobs: [job] })),
    );
    expect(codesOf(results)).toEqual(['done', 'LEDGER_UNAVAILABLE', 'done', 'done']);
    expect((await ledger.jobs.countQueue()).ready).toBe(3);
  });

  test('and ends the transaction makes the others run again, each once', async () => {
    const { ledger, writer } = await open();
    failInsert(3, () => {
      writer.exec('rollback');
      throw sqliteError(13);
    });
    const jobs = range(4).map(() => draft());
    const results = await Promise.allSettled(
      jobs.map((job) => ledger.jobs.enqueue({ jobs: [job] })),
    );
    // The failure was of that moment: alone, that unit succeeds too.
    expect(codesOf(results)).toEqual(['done', 'done', 'done', 'done']);
    const found = await ledger.jobs.list({ limit: 10, order: 'oldest' });
    expect(found.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
  });

  test.each([1, 4])('at the commit of %d has no effect, and may succeed alone', async (count) => {
    const { ledger } = await open();
    failRun('commit', 1, 10);
    const jobs = range(count).map(() => draft());
    const results = await Promise.allSettled(
      jobs.map((job) => ledger.jobs.enqueue({ jobs: [job] })),
    );
    const expected = count === 1 ? ['LEDGER_UNAVAILABLE'] : Array(count).fill('done');
    expect(codesOf(results)).toEqual(expected);
    const found = await ledger.jobs.list({ limit: 10 });
    expect(found).toHaveLength(count === 1 ? 0 : count);
    await ledger.jobs.enqueue({ jobs: [draft()] });
  });

  test('at the end of a unit of a group fails that unit, and acknowledges no other in its place', async () => {
    const { ledger } = await open();
    failRun('release unit', 2, 13);
    const jobs = range(3).map(() => draft());
    const results = await Promise.allSettled(
      jobs.map((job) => ledger.jobs.enqueue({ jobs: [job] })),
    );
    expect(codesOf(results)).toEqual(['done', 'LEDGER_UNAVAILABLE', 'done']);
    const found = await ledger.jobs.list({ limit: 10, order: 'oldest' });
    expect(found.map(({ id }) => id)).toEqual([0, 2].map((place) => jobs[place]?.id));
  });

  test.each([
    [11, 'LEDGER_CORRUPT'],
    [26, 'LEDGER_CORRUPT'],
    [8, 'LEDGER_UNAVAILABLE'],
    [10 | (4 << 8), 'LEDGER_UNAVAILABLE'],
  ])('with code %d is a %s', async (errcode, code) => {
    const { ledger } = await open();
    failInsert(1, () => {
      throw sqliteError(errcode);
    });
    await expect(ledger.jobs.enqueue({ jobs: [draft()] })).rejects.toMatchObject({ code });
  });
});

describe('a file that another process writes to', () => {
  test('fails all writes of a tick after one wait, not one after the other', async () => {
    const { ledger, writer, sql } = await open();
    writer.exec('pragma busy_timeout = 20');
    const runs = countRuns('begin immediate');
    await sql('begin immediate');
    const results = await Promise.allSettled(
      range(10).map(() => ledger.jobs.enqueue({ jobs: [draft()] })),
    );
    await sql('rollback');
    expect(codesOf(results)).toEqual(Array(10).fill('LEDGER_UNAVAILABLE'));
    expect(runs()).toBe(1);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    expect(await claimAs(ledger, 'p1')).toHaveLength(1);
  });

  test('can be read all the time', async () => {
    const { ledger, sql } = await open();
    await ledger.jobs.enqueue({ jobs: [draft()] });
    await sql('begin immediate');
    await sql(`update job_queue set payload = 'changed'`);
    expect((await ledger.jobs.list({ limit: 1 }))[0]?.payload).toBe('{}');
    await sql('rollback');
  });
});

describe('the event loop', () => {
  test('gets its turns during a constant write load', async () => {
    const { ledger } = await open();
    const timer = new AbortController();
    setTimeout(() => timer.abort(), 1);
    let writes = 0;
    while (!timer.signal.aborted && writes < 2000) {
      await ledger.jobs.enqueue({ jobs: [draft()] });
      writes += 1;
    }
    expect(timer.signal.aborted).toBe(true);
  });

  test('has one commit for all that is asked for in one of its turns', async () => {
    const { ledger } = await open();
    vi.spyOn(performance, 'now').mockReturnValue(0);
    const commits = countRuns('commit');
    await Promise.all(range(50).map(() => ledger.jobs.enqueue({ jobs: [draft()] })));
    expect(commits()).toBe(1);
  });

  test('leaves what would take it too long to its next turns, in order', async () => {
    const { ledger } = await open();
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => (now += limits.sliceMs));
    const commits = countRuns('commit');
    const jobs = range(9).map(() => draft());
    await Promise.all(jobs.map((job) => ledger.jobs.enqueue({ jobs: [job] })));
    expect(commits()).toBeGreaterThan(1);
    expect(commits()).toBeLessThan(9);
    const found = await ledger.jobs.list({ order: 'oldest', limit: 10 });
    expect(found.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
  });
});
