/** Those who follow a ledger read together. */
import { expect, test } from 'vitest';
import { limits } from '../../../src/base/limits.ts';
import type { EventPlace, EventRows } from '../../../src/ledger/events.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { sharedReads } from '../../../src/operations/event-reads.ts';

function placeAt(seq: number): EventPlace {
  const at = { tx: 0, seq };
  return { jobs: at, signals: at, attempts: at, runs: at };
}

/** Answers when it is told to; `asked` are the places of the reads that have begun. */
function makeSlowLedger() {
  const asked: number[] = [];
  const answers: (() => void)[] = [];
  const ledger = {
    events({ jobs }: EventPlace): Promise<EventRows> {
      asked.push(jobs.seq);
      const none = { rows: [], isCut: false, end: jobs };
      const rows = { jobs: none, signals: none, attempts: none, runs: none, isPending: false };
      return new Promise((resolve) => answers.push(() => resolve(rows)));
    },
  } as unknown as Ledger;
  return { ledger, asked, answer: () => answers.splice(0).forEach((done) => done()) };
}

const turn = () => new Promise<void>((done) => setImmediate(done));

test('those at one place share a read that has not begun', async () => {
  const { ledger, asked, answer } = makeSlowLedger();
  const read = () => sharedReads(ledger).page(placeAt(1), 10);
  const first = [read(), read(), read()];
  await turn();
  expect(asked).toEqual([1]);
  // What is asked for now may be there only since that read began.
  const later = [read(), read()];
  await turn();
  expect(asked).toEqual([1, 1]);
  answer();
  const pages = await Promise.all([...first, ...later]);
  expect(new Set(pages).size).toBe(2);
});

test('few reads run at once, and all come to their turn', async () => {
  const { ledger, asked, answer } = makeSlowLedger();
  const places = [1, 2, 3, 4, 5];
  const all = Promise.all(places.map((seq) => sharedReads(ledger).page(placeAt(seq), 10)));
  await turn();
  expect(asked).toHaveLength(limits.eventReadsMax);
  while (asked.length < places.length) {
    answer();
    await turn();
  }
  answer();
  await all;
  expect(asked).toEqual(places);
});
