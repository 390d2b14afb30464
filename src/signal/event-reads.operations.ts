import { limits } from '../base/limits.ts';
import type { EventPlace, EventRows } from './event-types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import {
  foldEvents,
  mergeEvents,
  type Folded,
  type FoldedEvent,
  type PlacedEvent,
} from './merge-events.service.ts';
import { bareLedger } from '../access/cover.operations.ts';

/** The reads of all who follow a ledger: those at the same place share one, and few run at once. */
export interface SharedReads {
  page(after: EventPlace, rows: number): Promise<EventRows>;
  end(): Promise<EventPlace>;
  /** For those who look once in a beat. */
  readonly beats: Beats;
}

/**
 * The reads of those who want to know once in a beat what has happened: what the first of them has
 * read is what all get, so that their number costs next to nothing.
 */
export interface Beats {
  /** All that happened since, in sums; there is more only when it is too much for one beat. */
  page(after: EventPlace, rows: number): Promise<Folded>;
  /** Where the others are, for one who comes anew. */
  begin(): Promise<EventPlace>;
  /** All go on from here. */
  reach(place: EventPlace): void;
}

/** How long it is until the next beat. */
export function untilBeat(): number {
  return limits.eventBeatMs - (Date.now() % limits.eventBeatMs);
}

const known = new WeakMap<Ledger, SharedReads>();

export function sharedReads(given: Ledger): SharedReads {
  const ledger = bareLedger(given);
  let reads = known.get(ledger);
  if (reads === undefined) known.set(ledger, (reads = makeSharedReads(ledger)));
  return reads;
}

function makeSharedReads(ledger: Ledger): SharedReads {
  const inTurn = makeTurns(limits.eventReadsMax);
  const pages = new Map<string, Promise<EventRows>>();
  const ends = new Map<string, Promise<EventPlace>>();
  // A read that has begun may miss what its new asker knows of; only one that is to come is shared.
  const share = <T>(coming: Map<string, Promise<T>>, key: string, read: () => Promise<T>) => {
    let answer = coming.get(key);
    if (answer === undefined) {
      answer = inTurn(() => {
        coming.delete(key);
        return read();
      });
      coming.set(key, answer);
    }
    return answer;
  };
  const page: SharedReads['page'] = (after, rows) =>
    share(pages, JSON.stringify([after, rows]), () =>
      ledger.events(after, { rows, bytes: limits.eventPageBytes }),
    );
  const end = (): Promise<EventPlace> => share(ends, '', () => ledger.eventEnd());
  return { page, end, beats: makeBeats(page, end) };
}

/** Beats for which a page is kept, for those who come to its place late. */
const KEPT_BEATS = 10;

function makeBeats(page: SharedReads['page'], end: SharedReads['end']): Beats {
  const pages = new Map<
    string,
    { readonly beat: number; read: Promise<Folded>; isFull: boolean }
  >();
  let reached: { readonly beat: number; readonly place: EventPlace } | undefined;
  const now = (): number => Math.floor(Date.now() / limits.eventBeatMs);
  return {
    page(after, rows) {
      const key = JSON.stringify([after, rows]);
      for (const [old, { beat }] of pages) if (now() - beat > KEPT_BEATS) pages.delete(old);
      const kept = pages.get(key);
      // One that led on is the same for who comes late: otherwise their ways would part for good.
      if (kept !== undefined && (kept.isFull || kept.beat === now())) return kept.read;
      const read = readInSums(page, after, rows);
      const entry = { beat: now(), read, isFull: false };
      pages.set(key, entry);
      void read.then(
        ({ merged }) => {
          entry.isFull = merged.length > 0;
        },
        // Who asks again after a failure wants another try, not the same answer.
        () => pages.delete(key),
      );
      return read;
    },
    async begin() {
      // Behind all who left long ago there is too much that nobody asked for.
      if (reached !== undefined && now() - reached.beat <= 1) return reached.place;
      const place = await end();
      reached = { beat: now(), place };
      return place;
    },
    reach(place) {
      reached = { beat: now(), place };
    },
  };
}

/** So many pages make one answer at most, so that who begins far behind is told something soon. */
const PAGES_MAX = 25;

/** However much happened, those who share it are told once, and little. */
async function readInSums(
  page: SharedReads['page'],
  after: EventPlace,
  rows: number,
): Promise<Folded> {
  let sums: FoldedEvent[] = [];
  let end = after;
  for (let left = PAGES_MAX; ; left -= 1) {
    const read = mergeEvents(await page(end, rows), end);
    sums = foldEvents([...sums, ...read.merged], keyOfSum);
    ({ end } = read);
    if (!read.more || left === 1) return { ...read, merged: sums };
  }
}

/** Who may not see what is hidden is told of the rest of its type. */
function keyOfSum({ event, isHidden }: PlacedEvent): string {
  return `${isHidden ? 'hidden' : 'open'} ${event.type}`;
}

function makeTurns(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = max;
  return async (work) => {
    // Those that one write has woken all ask before this is over.
    await new Promise<void>((turn) => setImmediate(turn));
    if (free > 0) free -= 1;
    else await new Promise<void>((turn) => waiting.push(turn));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}
