/** Following what is recorded: an order that later commits only add to. */
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { EventPlace } from '../../src/ledger/ledger.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { eventually } from '../support/instance.ts';
import { databases, openBench, range } from './support.ts';

const START: EventPlace = { signals: { tx: 0, seq: 0 }, attempts: { tx: 0, seq: 0 } };

function draft(type: string): SignalDraft {
  const id = makeId();
  return { id, type, source: 'test', data: '{}', hops: 0, correlationId: id };
}

describe.each(databases)('events on %s', (kind) => {
  test('are read once each, page by page, while many write', async () => {
    const { ledger, open } = await openBench(kind);
    const second = kind === 'postgres' ? await open() : ledger;
    const writing = Promise.all(
      range(40).map((n) =>
        (n % 2 === 0 ? ledger : second).enqueue({ jobs: [], signals: [draft(`n.${n}`)] }),
      ),
    );
    const seen: string[] = [];
    let place = START;
    const readPage = async (): Promise<boolean> => {
      const { signals } = await ledger.events(place, 3);
      seen.push(...signals.map(({ type }) => type));
      place = { ...place, signals: signals.at(-1)?.position ?? place.signals };
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
    await ledger.enqueue({ jobs: [], signals: [draft('old')] });
    const end = await ledger.eventEnd();
    await ledger.enqueue({ jobs: [], signals: [draft('new')] });
    const types = await eventually('the new one is there', async () => {
      const found = (await ledger.events(end, 10)).signals.map(({ type }) => type);
      return found.includes('new') && found;
    });
    // Who asks for the end while others write may get a little of what was before it.
    if (kind === 'sqlite') expect(types).toEqual(['new']);
  });
});

test('a schema from another PostgreSQL has its order and its epoch begun anew', async () => {
  const { ledger, sql, open } = await openBench('postgres');
  await ledger.enqueue({ jobs: [], signals: [draft('moved')] });
  const epoch = await ledger.meta('epoch');
  await sql('update signals set tx = 9000000000000');
  expect((await ledger.events(START, 10)).signals).toEqual([]);
  const moved = await open();
  expect(await moved.meta('epoch')).not.toBe(epoch);
  await moved.enqueue({ jobs: [], signals: [draft('later')] });
  const types = await eventually('both are there', async () => {
    const { signals } = await moved.events(START, 10);
    return signals.length === 2 && signals.map(({ type }) => type);
  });
  expect(types).toEqual(['moved', 'later']);
});
