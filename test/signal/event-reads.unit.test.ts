/** Followers of a ledger share reads. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { Timestamp } from '../../src/base/clock.ts';
import type {
  EventCursor,
  EventRows,
  Position,
  SignalEvent,
} from '../../src/signal/event-feed.sql.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { findSharedReads } from '../../src/signal/event-feed.operations.ts';

function placeAt(seq: number): EventCursor {
  const at = { tx: 0, seq };
  return { jobs: at, signals: at, attempts: at, runs: at };
}

/** Responds on demand; `requests` has the positions of the reads that have begun. */
function makeSlowLedger() {
  const requests: number[] = [];
  const answers: (() => void)[] = [];
  const ledger = {
    events: {
      list({ jobs }: EventCursor): Promise<EventRows> {
        requests.push(jobs.seq);
        const none = { rows: [], isCut: false, end: jobs };
        const rows = { jobs: none, signals: none, attempts: none, runs: none, isPending: false };
        return new Promise((resolve) => answers.push(() => resolve(rows)));
      },
    },
  } as unknown as Ledger;
  return { ledger, requests, answer: () => answers.splice(0).forEach((done) => done()) };
}

const turn = () => new Promise<void>((done) => setImmediate(done));

test('readers at the same cursor share a read that has not begun', async () => {
  const { ledger, requests, answer } = makeSlowLedger();
  const read = () => findSharedReads(ledger).page(placeAt(1), 10);
  const first = [read(), read(), read()];
  await turn();
  expect(requests).toEqual([1]);
  // An event that is requested now may be newer than the start of that read.
  const later = [read(), read()];
  await turn();
  expect(requests).toEqual([1, 1]);
  answer();
  const pages = await Promise.all([...first, ...later]);
  expect(new Set(pages).size).toBe(2);
});

test('few reads run at once, and all get their turn', async () => {
  const { ledger, requests, answer } = makeSlowLedger();
  const places = [1, 2, 3, 4, 5];
  const all = Promise.all(places.map((seq) => findSharedReads(ledger).page(placeAt(seq), 10)));
  await turn();
  expect(requests).toHaveLength(limits.eventReadsMax);
  while (requests.length < places.length) {
    answer();
    await turn();
  }
  answer();
  await all;
  expect(requests).toEqual(places);
});

/** A ledger of signals that are all of one type, with a page of ten for each read. */
function makeSignals(count: number) {
  const requests: number[] = [];
  const ledger = {
    events: {
      list: async ({ signals, ...others }: EventCursor): Promise<EventRows> => {
        requests.push(signals.seq);
        const last = Math.min(count, signals.seq + 10);
        const rows = Array.from({ length: last - signals.seq }, (_, at) =>
          signal(signals.seq + at + 1),
        );
        const none = (end: Position) => ({ rows: [], isCut: false, end });
        return {
          jobs: none(others.jobs),
          attempts: none(others.attempts),
          runs: none(others.runs),
          signals: { rows, isCut: last < count, end: { tx: 0, seq: last } },
          isPending: false,
        };
      },
    },
  } as unknown as Ledger;
  return { ledger, requests };
}

function signal(seq: number): SignalEvent {
  const at = '2026-11-16T10:00:00.000Z' as Timestamp;
  return {
    id: `signal-${seq}`,
    type: 'order.paid',
    source: 'shop',
    data: '{}',
    metadata: '{}',
    visibility: seq % 2 === 0 ? 'admin_only' : 'tenant_members',
    occurredAt: at,
    insertedAt: at,
    position: { tx: 0, seq },
  } as unknown as SignalEvent;
}

describe('readers of folded events', () => {
  afterEach(() => void vi.useRealTimers());

  test('share one read in a beat, however many they are', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 5_000 });
    const { ledger, requests } = makeSignals(7);
    const { folded } = findSharedReads(ledger);
    const all = Array.from({ length: 200 }, () => folded.page(placeAt(0), 10));
    const pages = await Promise.all(all);
    expect(requests).toEqual([0]);
    expect(new Set(pages).size).toBe(1);
    // The read found nothing new for any of them until the next interval.
    const end = pages[0]?.end ?? placeAt(0);
    await Promise.all(all.map(() => folded.page(end, 10)));
    expect(requests).toEqual([0, 7]);
    vi.setSystemTime(6_000);
    await Promise.all(all.map(() => folded.page(end, 10)));
    expect(requests).toEqual([0, 7, 7]);
    // A late reader at an earlier cursor follows the same path.
    expect(await folded.page(placeAt(0), 10)).toBe(pages[0]);
  });

  test('get what takes several reads as one answer, each event counted once', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 5_000 });
    const { ledger, requests } = makeSignals(35);
    const { folded } = findSharedReads(ledger);
    const [first, second] = await Promise.all([
      folded.page(placeAt(0), 10),
      folded.page(placeAt(0), 10),
    ]);
    expect(second).toBe(first);
    expect(requests).toEqual([0, 10, 20, 30]);
    expect(first.more).toBe(false);
    expect(first.end.signals.seq).toBe(35);
    // Restricted events have a sum of their own.
    expect(
      first.merged.map(({ isHidden, count, cursor }) => [isHidden, count, cursor.signals.seq]),
    ).toEqual([
      [true, 17, 34],
      [false, 18, 35],
    ]);
  });

  test('get something soon when there are many events', async () => {
    const { ledger, requests } = makeSignals(1_000_000);
    const page = await findSharedReads(ledger).folded.page(placeAt(0), 10);
    expect(requests).toHaveLength(25);
    expect(page.more).toBe(true);
    expect(page.end.signals.seq).toBe(250);
  });
});
