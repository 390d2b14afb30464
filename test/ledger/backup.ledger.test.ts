import { noRules } from '../../src/ledger/rules.ts';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { tables, type TableName } from '../../src/ledger/dialect.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { makeDirectory } from '../support/directory.ts';
import { databases, openBench, range } from '../support/ledger/bench.ts';
import {
  claimAs,
  draft,
  lenient,
  retryLater,
  settleOne,
  signalOf,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

/** A ledger with something in every table. */
async function fill(ledger: Ledger, jobs: number): Promise<void> {
  const contexts = [{ id: 'context', accumulated: '{"bag":"ä"}' }];
  const drafts = range(jobs).map((index) =>
    draft({ dedupe: strict(`key ${index}`), eventContextId: 'context', payload: `{"n":${index}}` }),
  );
  await ledger.jobs.enqueue({ jobs: drafts, contexts });
  const claimed = await claimAs(ledger, 'p1', { slots: Math.ceil(jobs / 2) });
  const [delayed, ...others] = claimed;
  if (delayed !== undefined) await settleOne(ledger, retryLater(delayed));
  const ended = others.slice(0, -1);
  const closings = ended.map((job) => {
    const state = { kind: 'snapshot', factType: 'seen', mirror: true, value: '{"s":1}' } as const;
    return succeed(job, { signals: [signalOf(job)], state });
  });
  await ledger.jobs.settle(closings);
}

function countRows(path: string): Record<string, number> {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return Object.fromEntries(
      tables.map((table) => [
        table,
        Number(db.prepare(`select count(*) as n from ${table}`).get()?.['n']),
      ]),
    );
  } finally {
    db.close();
  }
}

describe.each(databases)('a backup on %s', (kind) => {
  test('is a sound ledger with the same rows', async () => {
    const { ledger, dump } = await openBench(kind);
    await fill(ledger, 2500);
    const path = join(await makeDirectory(), 'copy.db');
    await ledger.backup(path);
    const before = await dump();
    // Liveness belongs to the place; a copy in another place is applied to there.
    const left: readonly TableName[] = kind === 'postgres' ? ['processes'] : [];
    const expected = tables.map((table) => [
      table,
      left.includes(table) ? 0 : before[table].length,
    ]);
    expect(countRows(path)).toEqual(Object.fromEntries(expected));
    expect(((await stat(path)).mode & 0o777).toString(8)).toBe('600');

    const copy = await openLedger({ kind: 'sqlite', path }, noRules);
    try {
      expect(await copy.check()).toEqual([]);
      expect(await copy.jobs.countQueue()).toEqual(await ledger.jobs.countQueue());
      expect(await copy.meta.read('epoch')).toBe(await ledger.meta.read('epoch'));
      expect(await copy.plugins.readState('echo')).toBe('{"s":1}');
      const filter = { limit: 10_000, order: 'oldest' } as const;
      expect(await copy.jobs.list(filter)).toEqual(await ledger.jobs.list(filter));
      expect(await copy.signals.list({ limit: 10_000 })).toEqual(
        await ledger.signals.list({ limit: 10_000 }),
      );
      expect(await copy.plugins.listFacts('echo', 10_000)).toEqual(
        await ledger.plugins.listFacts('echo', 10_000),
      );
      await copy.jobs.enqueue({ jobs: [draft()] });
      const newest = (await copy.jobs.list({ limit: 1 }))[0]?.seq ?? 0;
      expect(newest).toBeGreaterThan((await ledger.jobs.list({ limit: 1 }))[0]?.seq ?? 0);
    } finally {
      await copy.close();
    }
  });

  test('under writes is one moment of the record, not several', async () => {
    const { ledger } = await openBench(kind);
    await fill(ledger, 1000);
    const directory = await makeDirectory();
    const path = join(directory, 'copy.db');
    const done = new AbortController();
    let rounds = 0;
    const writing = (async () => {
      while (!done.signal.aborted) {
        // A job and its signal come together, so any moment has as many of one as of the other.
        const id = `pair ${rounds}`;
        const signal = { type: 'pair', source: 'api', data: '{}', hops: 0, correlationId: id };
        await ledger.jobs.enqueue({
          jobs: [draft({ plugin: 'pair', sourceEventId: id, dedupe: lenient(id) })],
          signals: [{ ...signal, id }],
        });
        rounds += 1;
      }
    })();
    // Several, because each may begin in the middle of a write.
    for (const index of range(12)) await ledger.backup(join(directory, `earlier ${index}.db`));
    await ledger.backup(path);
    done.abort();
    await writing;
    expect(rounds).toBeGreaterThan(0);
    const copy = await openLedger({ kind: 'sqlite', path }, noRules);
    try {
      expect(await copy.check()).toEqual([]);
      const pairs = await copy.jobs.list({ plugin: 'pair', limit: 100_000 });
      const signals = await copy.signals.list({ type: 'pair', limit: 100_000 });
      expect(signals.map(({ id }) => id)).toEqual(pairs.map((job) => job.sourceEventId));
    } finally {
      await copy.close();
    }
  });

  test('does not overwrite a file', async () => {
    const { ledger } = await openBench(kind);
    const path = join(await makeDirectory(), 'copy.db');
    await writeFile(path, 'mine');
    await expect(ledger.backup(path)).rejects.toMatchObject({
      code: 'BACKUP_INVALID',
      place: path,
    });
    expect(await readFile(path, 'utf8')).toBe('mine');
  });

  test('replaces what an interrupted one left', async () => {
    const { ledger } = await openBench(kind);
    const directory = await makeDirectory();
    const path = join(directory, 'copy.db');
    await writeFile(`${path}.partial`, 'half of it');
    await ledger.backup(path);
    expect(await readdir(directory)).toEqual(['copy.db']);
  });

  test.each([
    ['does not exist', async (directory: string) => join(directory, 'missing', 'copy.db')],
    [
      'is a file',
      async (directory: string) => {
        await writeFile(join(directory, 'file'), '');
        return join(directory, 'file', 'copy.db');
      },
    ],
    [
      'has something else in the place of the draft',
      async (directory: string) => {
        await mkdir(join(directory, 'copy.db.partial'));
        return join(directory, 'copy.db');
      },
    ],
  ])('into a directory that %s fails and leaves nothing', async (_, makeTarget) => {
    const { ledger } = await openBench(kind);
    const directory = await makeDirectory();
    const path = await makeTarget(directory);
    const before = await readdir(directory);
    await expect(ledger.backup(path)).rejects.toMatchObject({
      code: 'BACKUP_INVALID',
      place: path,
    });
    expect(existsSync(path)).toBe(false);
    expect(await readdir(directory)).toEqual(before);
    await ledger.jobs.enqueue({ jobs: [draft()] });
  });

  test('can be made twice of the same ledger', async () => {
    const { ledger } = await openBench(kind);
    await fill(ledger, 20);
    const directory = await makeDirectory();
    await ledger.backup(join(directory, 'one.db'));
    await ledger.backup(join(directory, 'two.db'));
    expect(countRows(join(directory, 'one.db'))).toEqual(countRows(join(directory, 'two.db')));
  });

  test('in progress does not keep the ledger from being closed', async () => {
    const { ledger, open } = await openBench(kind);
    await fill(ledger, 3000);
    const other = await open();
    const path = join(await makeDirectory(), 'copy.db');
    const [made] = await Promise.allSettled([other.backup(path), other.close()]);
    // Either it was finished and is whole, or it failed and left nothing.
    if (made?.status === 'fulfilled') expect(countRows(path)['job_queue']).toBe(3000);
    else expect(existsSync(path)).toBe(false);
  });
});
