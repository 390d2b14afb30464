import { noRules } from '../../src/ledger/rules.ts';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Worker } from 'node:worker_threads';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type * as limitsModule from '../../src/base/limits.ts';
import { openLedger } from '../../src/ledger/open.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import * as files from '../../src/ledger/sqlite/file.ts';
import { makeDirectory } from '../support/directory.ts';
import { collectLog, eventually, type LogRecords } from '../support/instance.ts';
import { draft } from '../support/ledger/drafts.ts';

const PAGES = 300;
/** The limit is so high that it never keeps a journal short here. */
const NET = 100_000;
const PAGE_BYTES = 4096;
const payload = JSON.stringify({ padding: 'x'.repeat(16_000) });

/** The threads that ledgers started, the requests to them, and the programs that they run instead. */
const seen = vi.hoisted(() => ({
  threads: [] as Worker[],
  writers: [] as DatabaseSync[],
  passes: 0,
  program: undefined as string | undefined,
}));

vi.mock('../../src/base/limits.ts', async (original) => {
  const { limits } = await original<typeof limitsModule>();
  const short = { journalPages: 300, journalPagesMax: 100_000, checkpointIdleMs: 50 };
  return { limits: { ...limits, ...short } };
});

vi.mock('../../src/ledger/sqlite/file.ts', async (original) => {
  const actual = await original<typeof files>();
  const openWriter = (path: string): DatabaseSync => {
    const writer = actual.openWriter(path);
    seen.writers.push(writer);
    return writer;
  };
  return { ...actual, openWriter };
});

vi.mock('node:worker_threads', async (original) => {
  const actual = await original<{ readonly Worker: typeof Worker }>();
  class ObservedWorker extends actual.Worker {
    constructor(program: string, options: object) {
      super(program.includes('wal_checkpoint') ? (seen.program ?? program) : program, options);
      if (program.includes('wal_checkpoint')) seen.threads.push(this);
    }
    override postMessage(value: unknown, transfer: []): void {
      if (value === 'pass') seen.passes += 1;
      super.postMessage(value, transfer);
    }
  }
  return { ...actual, Worker: ObservedWorker };
});

beforeEach(() => {
  seen.threads.splice(0);
  seen.writers.splice(0);
  seen.passes = 0;
  seen.program = undefined;
});

interface LedgerFixture {
  readonly ledger: Ledger;
  readonly path: string;
  readonly records: LogRecords;
  /** Writes so often, 80 pages or more each time. */
  readonly write: (times: number) => Promise<void>;
}

async function open(): Promise<LedgerFixture> {
  const path = join(await makeDirectory(), 'ledger.db');
  const { log, records } = collectLog();
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules, undefined, log);
  onTestFinished(() => ledger.close());
  const write = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1)
      await ledger.jobs.enqueue({ jobs: Array.from({ length: 20 }, () => draft({ payload })) });
  };
  return { ledger, path, records, write };
}

function netOf(): unknown {
  const [writer] = seen.writers;
  return writer === undefined ? undefined : files.pragma(writer, 'wal_autocheckpoint');
}

const isGone = ({ threadId }: Worker): boolean => threadId === -1;

describe('the journal of a file', () => {
  test('needs no thread while it is short', async () => {
    const { ledger } = await open();
    await ledger.jobs.enqueue({ jobs: [draft()] });
    await ledger.close();
    expect(seen.threads).toHaveLength(0);
  });

  test('is not measured after every short commit, and is still checkpointed in time', async () => {
    const { ledger, path } = await open();
    const looks = vi.spyOn(StatementSync.prototype, 'get');
    const looked = (): number =>
      (looks.mock.contexts as StatementSync[]).filter(({ sourceSQL }) => sourceSQL.includes('noop'))
        .length;
    for (let time = 0; time < 20; time += 1) await ledger.jobs.enqueue({ jobs: [draft()] });
    expect(looked()).toBeLessThan(10);
    while (seen.threads.length === 0 && restOf(path) < 2 * PAGES) {
      await ledger.jobs.enqueue({ jobs: [draft()] });
    }
    expect(seen.threads).toHaveLength(1);
  });

  test('stays short during a constant write load', async () => {
    const { ledger, path, records, write } = await open();
    await write(5);
    await eventually('a thread is there and has done its work', () => restOf(path) < PAGES);
    await write(195);
    // 16,000 pages and more were written.
    expect(statSync(`${path}-wal`).size).toBeLessThan(8000 * PAGE_BYTES);
    expect(await ledger.check()).toEqual([]);
    expect(await ledger.jobs.count({ limit: 10_000 })).toBe(4000);
    expect(records).toEqual([]);
  });

  test('waits for readers, without being checked again and again', async () => {
    const { path, write } = await open();
    await write(1);
    const reader = new DatabaseSync(path, { readOnly: true });
    reader.exec('begin');
    reader.prepare('select count(*) from job_queue').get();
    await write(20);
    const lengthPages = statSync(`${path}-wal`).size / PAGE_BYTES;
    expect(lengthPages).toBeGreaterThan(5 * PAGES);
    expect(seen.passes).toBeGreaterThan(0);
    expect(seen.passes).toBeLessThanOrEqual(2 * (lengthPages / PAGES));
    reader.exec('commit');
    reader.close();
    await eventually('it is in the file', async () => {
      await write(1);
      return restOf(path) < PAGES;
    });
  });
});

describe('the thread', () => {
  test('ends when it is idle, and starts again', async () => {
    const { write } = await open();
    await write(5);
    await eventually('it is gone', () => seen.threads.length > 0 && seen.threads.every(isGone));
    const before = seen.threads.length;
    await write(5);
    await eventually('it is back', () => seen.threads.length > before);
  });

  test('is gone when the ledger is closed under it, and one file is left', async () => {
    const { ledger, path, records, write } = await open();
    while (seen.passes === 0) await write(1);
    const written = await ledger.jobs.count({ limit: 10_000 });
    await ledger.close();
    expect(seen.threads.every(isGone)).toBe(true);
    expect(existsSync(`${path}-wal`)).toBe(false);
    expect(records).toEqual([]);
    const again = await openLedger({ kind: 'sqlite', path }, noRules);
    expect(await again.jobs.count({ limit: 10_000 })).toBe(written);
    expect(await again.check()).toEqual([]);
    await again.close();
  });

  test.each([
    ['cannot be started', 'throw new Error("broken")'],
    [
      'dies',
      `process.getBuiltinModule('worker_threads').parentPort.on('message', () => process.exit(3))`,
    ],
  ])('that %s is done without, and a warning is logged', async (_, program) => {
    seen.program = program;
    const { ledger, path, records, write } = await open();
    expect(netOf()).toBe(NET);
    await write(5);
    await eventually('it is noticed', () => records.length > 0);
    expect(records).toMatchObject([{ level: 'warn', path }]);
    expect(netOf()).toBe(PAGES);
    await write(20);
    expect(seen.threads).toHaveLength(1);
    expect(restOf(path)).toBeLessThan(PAGES);
    expect(await ledger.check()).toEqual([]);
    await ledger.close();
    expect(existsSync(`${path}-wal`)).toBe(false);
  });
});

/** Pages of the journal that are not in the file. */
function restOf(path: string): number {
  const db = new DatabaseSync(path);
  const { log, checkpointed } = db.prepare('pragma wal_checkpoint(noop)').get() ?? {};
  db.close();
  return Number(log) - Number(checkpointed);
}
