/** Following what is recorded: an order that later commits only add to. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { EventPlace } from '../../src/ledger/ledger.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { eventually } from '../support/instance.ts';
import { databases, openBench, openRaw, range } from './support.ts';
import { draft } from './words.ts';

const NOWHERE = { tx: 0, seq: 0 };
const START: EventPlace = { jobs: NOWHERE, signals: NOWHERE, attempts: NOWHERE };
const AMPLE = { rows: 10, bytes: 1_000_000 };

function signal(type: string, data = '{}'): SignalDraft {
  const id = makeId();
  return { id, type, source: 'test', data, hops: 0, correlationId: id };
}

describe.each(databases)('events on %s', (kind) => {
  test('are read once each, page by page, while many write', async () => {
    const { ledger, open } = await openBench(kind);
    const second = kind === 'postgres' ? await open() : ledger;
    const writing = Promise.all(
      range(40).map((n) =>
        (n % 2 === 0 ? ledger : second).enqueue({ jobs: [], signals: [signal(`n.${n}`)] }),
      ),
    );
    const seen: string[] = [];
    let place = START;
    const readPage = async (): Promise<boolean> => {
      const { signals } = await ledger.events(place, { ...AMPLE, rows: 3 });
      seen.push(...signals.rows.map(({ type }) => type));
      place = { ...place, signals: signals.end };
      return seen.length >= 40;
    };
    // Transactions of others on the same server may hold them up for a while.
    await eventually('all were read', readPage);
    await writing;
    expect(new Set(seen).size).toBe(40);
    await readPage();
    expect(seen).toHaveLength(40);
  });

  test('begin, after the end, with what comes next', async () => {
    const { ledger } = await openBench(kind);
    await ledger.enqueue({ jobs: [], signals: [signal('old')] });
    const end = await ledger.eventEnd();
    await ledger.enqueue({ jobs: [], signals: [signal('new')] });
    const types = await eventually('the new one is there', async () => {
      const found = (await ledger.events(end, AMPLE)).signals.rows.map(({ type }) => type);
      return found.includes('new') && found;
    });
    // Who asks for the end while others write may get a little of what was before it.
    if (kind === 'sqlite') expect(types).toEqual(['new']);
  });

  test('of accepted jobs are read once each, in their order, while many write', async () => {
    const { ledger, open } = await openBench(kind);
    const second = kind === 'postgres' ? await open() : ledger;
    const ids = range(40).map(() => makeId());
    const writing = Promise.all(
      ids.map((id, n) => (n % 2 === 0 ? ledger : second).enqueue({ jobs: [draft({ id })] })),
    );
    const seen: string[] = [];
    let place = START;
    const readPage = async (): Promise<boolean> => {
      const { jobs } = await ledger.events(place, { ...AMPLE, rows: 3 });
      seen.push(...jobs.rows.map(({ id }) => id));
      place = { ...place, jobs: jobs.end };
      return seen.length >= 40;
    };
    await eventually('all were read', readPage);
    await writing;
    expect([...seen].sort()).toEqual([...ids].sort());
    await readPage();
    expect(seen).toHaveLength(40);
  });

  test('of jobs begin, after the end, with what is accepted next, however it goes on', async () => {
    const { ledger } = await openBench(kind);
    await ledger.enqueue({ jobs: [draft({ id: 'old' })] });
    const end = await ledger.eventEnd();
    await ledger.enqueue({ jobs: [draft({ id: 'new' })] });
    await ledger.cancel('new');
    const ids = await eventually('the new one is there', async () => {
      const found = (await ledger.events(end, AMPLE)).jobs.rows.map(({ id }) => id);
      return found.includes('new') && found;
    });
    if (kind === 'sqlite') expect(ids).toEqual(['new']);
  });

  test('are read in pages of no more bytes than asked for, and never less than one', async () => {
    const { ledger } = await openBench(kind);
    const large = JSON.stringify({ text: 'x'.repeat(1000) });
    const types = range(5).map((n) => `large.${n}`);
    await ledger.enqueue({ jobs: [], signals: types.map((type) => signal(type, large)) });
    const pages: string[][] = [];
    for (const bytes of [2500, 10]) {
      let place = START;
      await eventually('all were read', async () => {
        const { signals } = await ledger.events(place, { rows: 10, bytes });
        place = { ...place, signals: signals.end };
        if (signals.rows.length > 0) pages.push(signals.rows.map(({ type }) => type));
        return !signals.isCut && pages.flat().length % types.length === 0;
      });
    }
    expect(pages.map((page) => page.length)).toEqual([2, 2, 1, 1, 1, 1, 1, 1]);
    expect(pages.flat()).toEqual([...types, ...types]);
  });
});

test('a job whose commit is slow is not passed by those with a higher number', async () => {
  const { ledger, place } = await openBench('postgres');
  await ledger.eventEnd();
  const raw = openRaw(place);
  onTestFinished(() => raw.close());
  await raw.run('begin');
  await raw.run(
    `insert into job_queue (id, plugin, command, status, submitted_by, actor, created_at, ready_at,
      root_job_id, idempotency_key)
      values ('slow', 'echo', 'handle', 'queued', 'api', 'api:test', '2026-01-01T00:00:00.000Z',
        '2026-01-01T00:00:00.000Z', 'slow', 'slow')`,
  );
  const end = await ledger.eventEnd();
  await ledger.enqueue({ jobs: [draft({ id: 'quick' })] });
  const held = await ledger.events(end, AMPLE);
  expect(held.jobs.rows).toEqual([]);
  expect(held.isPending).toBe(true);
  await raw.run('commit');
  const ids = await eventually('both are there', async () => {
    const { jobs } = await ledger.events({ ...START, jobs: held.jobs.end }, AMPLE);
    return jobs.rows.length === 2 && jobs.rows.map(({ id }) => id);
  });
  expect(ids).toEqual(['slow', 'quick']);
});

test('a schema from another PostgreSQL has its order and its epoch begun anew', async () => {
  const { ledger, sql, open } = await openBench('postgres');
  await ledger.enqueue({ jobs: [], signals: [signal('moved')] });
  const epoch = await ledger.meta('epoch');
  await sql('update signals set tx = 9000000000000');
  expect((await ledger.events(START, AMPLE)).signals.rows).toEqual([]);
  const moved = await open();
  expect(await moved.meta('epoch')).not.toBe(epoch);
  await moved.enqueue({ jobs: [], signals: [signal('later')] });
  const types = await eventually('both are there', async () => {
    const { signals } = await moved.events(START, AMPLE);
    return signals.rows.length === 2 && signals.rows.map(({ type }) => type);
  });
  expect(types).toEqual(['moved', 'later']);
});
