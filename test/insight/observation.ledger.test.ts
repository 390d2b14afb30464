import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import { dueAgain, entry, fireOne, startFired } from '../support/ledger/schedules.ts';
import { beat, settleOne, succeed } from '../support/ledger/drafts.ts';

describe.each(databases)('observations on %s', (kind) => {
  const refused = (key: string, count = 1, detail = '{}') =>
    ({ kind: 'call_refused', key, count, detail }) as const;

  test('add up for each key, with the newest detail', async () => {
    const { ledger } = await openBench(kind);
    await ledger.observations.record([refused('a', 2, '{"n":1}'), refused('b')]);
    await ledger.observations.record([refused('a', 3, '{"n":2}')]);
    const found = await ledger.observations.list('call_refused');
    expect(found).toMatchObject([
      { key: 'a', count: 5, detail: '{"n":2}' },
      { key: 'b', count: 1 },
    ]);
    expect(found.every(({ firstAt, lastAt }) => firstAt <= lastAt)).toBe(true);
    expect(await ledger.observations.list('job_suppressed')).toEqual([]);
  });

  test('within ten minutes are one row, and older ones are deleted', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.observations.record([refused('a', 2), refused('old', 7)]);
    await sql(
      `update observations set bucket = '2000-01-01T00:0', first_at = '2000-01-01T00:00:00.000Z'
        where key = 'old'`,
    );
    expect(await ledger.observations.list('call_refused')).toMatchObject([{ key: 'a' }]);
    await ledger.observations.record([refused('b')]);
    expect(await sql(`select key from observations where key = 'old'`)).toEqual([]);
  });

  test('keep a bounded number of keys, the most frequent ones', async () => {
    const { ledger, sql } = await openBench(kind);
    const { keysMax } = limits.observations;
    await ledger.observations.record(range(keysMax).map((n) => refused(`often ${n}`, 9)));
    await ledger.observations.record(range(keysMax).map((n) => refused(`once ${n}`)));
    const rows = await sql('select key, count from observations');
    expect(rows).toHaveLength(keysMax);
    expect(rows.every((row) => Number(row['count']) === 9)).toBe(true);
  });
});

describe.each(databases)('a process on %s', (kind) => {
  test('says which configuration it uses, and that it uses another one', async () => {
    const { ledger } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    expect(only(await ledger.processes.list())).toMatchObject({
      configFile: null,
      configDigest: null,
    });
    const used = { configFile: '/etc/ductile/config.yaml', configDigest: 'd1' };
    await ledger.processes.heartbeat(beat('p1', used));
    expect(only(await ledger.processes.list())).toMatchObject(used);
    await ledger.processes.heartbeat(beat('p2', used));
    expect((await ledger.processes.list()).map(({ configDigest }) => configDigest)).toEqual([
      'd1',
      'd1',
    ]);
  });
});

describe.each(databases)('a schedule on %s', (kind) => {
  test('skips in a row are counted until a job is made or the schedule is another one', async () => {
    const { ledger, sql } = await openBench(kind);
    const skipped = async (): Promise<number> =>
      only(await ledger.schedules.list({ limit: 10 })).skippedInRow;
    await ledger.schedules.sync([entry()]);
    await fireOne(ledger);
    for (const count of [1, 2]) {
      await dueAgain(sql);
      await fireOne(ledger);
      expect(await skipped()).toBe(count);
    }
    await settleOne(ledger, succeed(await startFired(ledger)));
    await dueAgain(sql);
    await fireOne(ledger);
    expect(await skipped()).toBe(0);
    await dueAgain(sql);
    await fireOne(ledger);
    await ledger.schedules.sync([entry({ generation: 'g2' })]);
    expect(await skipped()).toBe(0);
  });
});
