import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { EventCursor, EventRows } from './event-feed.sql.ts';
import { RUNTIME_SOURCE } from './signal.ts';
import type { Context } from '../operation/context.ts';
import { readEpoch, readCursor, writeCursor } from '../operation/page.ts';
import { defineOperation } from '../operation/define.ts';
import {
  foldEvents,
  mergeEvents,
  feedEventShape,
  type MergedEvents,
  type FeedEvent,
  type FoldedEvents,
  type FoldedEvent,
} from './event-feed.service.ts';
import { canSeeHidden, unmaskedLedger } from '../operation/visibility.ts';
import type { Ledger } from '../ledger/ledger.ts';

const eventShape = feedEventShape.extend({
  cursor: z.string().describe('the cursor to continue after this event'),
  count: z.int().optional().describe('with `fold`: number of events of this type'),
});

type Event = z.output<typeof eventShape>;

const typePattern = z
  .string()
  .regex(/^[\w.:/-]{1,255}\*?$/, 'must be a type such as order.paid, or a prefix with a *');

export const tailSignals = defineOperation({
  name: 'signal.tail',
  summary:
    'Show signals, accepted jobs, ends of attempts and of runs, from now on or after a cursor.',
  effect: 'read',
  scope: 'events:ro',
  input: z.strictObject({
    after: z
      .string()
      .max(200)
      .optional()
      .describe(
        'the cursor to continue after; `start` is the oldest event (default: only new events)',
      ),
    type: z
      .array(typePattern)
      .min(1)
      .optional()
      .describe('only these types; `job.*` matches every type that starts with `job.`'),
    fold: z
      .boolean()
      .default(false)
      .describe('show only the latest event of each type, with a count, once per second'),
    message: z
      .boolean()
      .default(false)
      .describe(
        'stream every event as `message`, for `EventSource.onmessage`; its type is in `data`',
      ),
    limit: z
      .int()
      .min(1)
      .max(limits.eventPageRows)
      .default(limits.eventPageRows)
      .describe(`maximum number of rows of each kind to read (default: ${limits.eventPageRows})`),
  }),
  output: z.object({
    events: z.array(eventShape),
    cursor: z.string().describe('the cursor to continue with'),
    more: z.boolean().describe('true if more events are available now'),
    pending: z.boolean().describe('true if the next events are being written; ask again soon'),
    reset: z
      .boolean()
      .describe('true if the database was restored since; the feed starts with new events'),
  }),
  errors: ['BUSY', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'STREAMS_SPENT'],
  http: { method: 'GET', path: '/events', isStream: true },
  cli: {
    flags: { limit: '-n, --limit <count>' },
    examples: [
      "ductile signal tail --follow --type 'order.*'",
      'ductile signal tail --after start',
    ],
    follow: true,
    table: {
      rows: 'events',
      columns: [
        ['TIME', 'occurred_at'],
        ['TYPE', 'type'],
        ['SOURCE', 'source'],
        ['JOB', 'job_id'],
        ['CURSOR', 'cursor', 'detail'],
      ],
      empty: 'There are no such events.',
    },
  },
  async run({ engine: { ledger }, principal }, { after, type, fold, limit }) {
    const epoch = await readEpoch(ledger);
    const reads = findSharedReads(ledger);
    const { cursor, reset } = await findCursor(reads, epoch, { after, fold });
    const page = fold
      ? await reads.folded.page(cursor, limit)
      : merge(await reads.page(cursor, limit), cursor);
    const { end, more, isPending } = page;
    // Only a reader that has seen everything is a starting point for new readers.
    if (fold && !more) reads.folded.advanceTo(end);
    return {
      events: showEvents(page, epoch, { type, fold, seesAll: canSeeHidden(principal) }),
      cursor: formatEventCursor(epoch, end),
      more,
      pending: isPending,
      reset,
    };
  },
});

/**
 * Errors can quote what only administrators may see, and pages are shared. `job.inspect` shows
 * errors.
 */
function withoutError(event: FeedEvent['event']): FeedEvent['event'] {
  const { data } = event;
  if (!event.type.startsWith('job.') || event.source !== RUNTIME_SOURCE || !isObject(data)) {
    return event;
  }
  return 'last_error' in data ? { ...event, data: { ...data, last_error: null } } : event;
}

const merges = new WeakMap<EventRows, MergedEvents>();

/** Shared rows have one cursor and are merged once. */
function merge(rows: EventRows, cursor: EventCursor): MergedEvents {
  let merged = merges.get(rows);
  if (merged === undefined) merges.set(rows, (merged = mergeEvents(rows, cursor)));
  return merged;
}

/** The events that a reader wants and may see. */
interface EventSelection {
  readonly type: readonly string[] | undefined;
  readonly fold: boolean;
  readonly seesAll: boolean;
}

const shown = new WeakMap<MergedEvents, Map<string, Event[]>>();

/** Readers of the same page with the same filter share its events. */
function showEvents(page: MergedEvents, epoch: string, selection: EventSelection): Event[] {
  const known = shown.get(page) ?? new Map<string, Event[]>();
  shown.set(page, known);
  const key = JSON.stringify(selection);
  let events = known.get(key);
  if (events === undefined) known.set(key, (events = selectEvents(page, epoch, selection)));
  return events;
}

function selectEvents(
  { merged }: MergedEvents,
  epoch: string,
  { type, fold, seesAll }: EventSelection,
): Event[] {
  const wanted = makeFilter(type);
  const seen = merged.filter(({ event, isHidden }) => wanted(event.type) && (seesAll || !isHidden));
  const show = ({ event, cursor }: FeedEvent): Event => ({
    cursor: formatEventCursor(epoch, cursor),
    ...(seesAll ? event : withoutError(event)),
  });
  if (!fold) return seen.map(show);
  return foldEvents(seen).map((event) => ({ ...show(event), count: event.count }));
}

export interface EventPage {
  readonly events: readonly Event[];
  readonly cursor: string;
  readonly more: boolean;
  readonly pending: boolean;
  readonly reset: boolean;
}

/**
 * Waits until this process has written something, or until it is time to look for writes of others.
 */
export function waitForEvents({ engine }: Context, ms: number, signal: AbortSignal): Promise<void> {
  return engine.activity.wait(ms, signal);
}

/** Aligns the readers of folded events to the same moment, so that they share one read. */
export async function waitForInterval(signal: AbortSignal): Promise<void> {
  await sleep(msUntilInterval(), undefined, { signal }).catch(() => undefined);
}

const KIND = 'e';
const NOWHERE = { tx: 0, seq: 0 };
const START: EventCursor = {
  jobs: NOWHERE,
  signals: NOWHERE,
  attempts: NOWHERE,
  runs: NOWHERE,
};

async function findCursor(
  reads: SharedReads,
  epoch: string,
  { after, fold }: { readonly after?: string | undefined; readonly fold: boolean },
): Promise<{ cursor: EventCursor; reset: boolean }> {
  if (after === 'start') return { cursor: START, reset: false };
  if (after === undefined) {
    return { cursor: await (fold ? reads.folded.findStart() : reads.end()), reset: false };
  }
  const numbers = readCursor(KIND, epoch, after, 8);
  if (numbers === 'reset') return { cursor: await reads.end(), reset: true };
  const at = (index: number) => ({ tx: numbers[index] ?? 0, seq: numbers[index + 1] ?? 0 });
  return { cursor: { jobs: at(0), signals: at(2), attempts: at(4), runs: at(6) }, reset: false };
}

function formatEventCursor(epoch: string, { jobs, signals, attempts, runs }: EventCursor): string {
  return writeCursor(
    KIND,
    epoch,
    [jobs, signals, attempts, runs].flatMap(({ tx, seq }) => [tx, seq]),
  );
}

function makeFilter(types: readonly string[] | undefined): (type: string) => boolean {
  if (types === undefined) return () => true;
  const exact = new Set(types.filter((type) => !type.endsWith('*')));
  const beginnings = types.filter((type) => type.endsWith('*')).map((type) => type.slice(0, -1));
  return (type) => exact.has(type) || beginnings.some((beginning) => type.startsWith(beginning));
}

/**
 * The reads of all followers of a ledger. Followers at the same cursor share one, and few run at
 * once.
 */
interface SharedReads {
  page(after: EventCursor, rows: number): Promise<EventRows>;
  end(): Promise<EventCursor>;
  /** For followers that read once per interval. */
  readonly folded: FoldedReads;
}

/**
 * The reads of followers that want sums once per interval. All of them get the result of the first
 * read, so their number costs nearly nothing.
 */
interface FoldedReads {
  /**
   * Returns the sums of everything since. There is more only if it is too much for one interval.
   */
  page(after: EventCursor, rows: number): Promise<FoldedEvents>;
  /** Returns the cursor of the other followers, for a new one. */
  findStart(): Promise<EventCursor>;
  /** Sets the cursor at which new followers start. */
  advanceTo(cursor: EventCursor): void;
}

function msUntilInterval(): number {
  return limits.eventSummaryMs - (Date.now() % limits.eventSummaryMs);
}

const known = new WeakMap<Ledger, SharedReads>();

export function findSharedReads(given: Ledger): SharedReads {
  const ledger = unmaskedLedger(given);
  let reads = known.get(ledger);
  if (reads === undefined) known.set(ledger, (reads = makeSharedReads(ledger)));
  return reads;
}

function makeSharedReads(ledger: Ledger): SharedReads {
  const inTurn = makeTurns(limits.eventReadsMax);
  const pages = new Map<string, Promise<EventRows>>();
  const ends = new Map<string, Promise<EventCursor>>();
  // Only a read that hasn't started is shared: one in progress may miss what the new caller knows
  // of.
  const share = <T>(coming: Map<string, Promise<T>>, key: string, read: () => Promise<T>) => {
    let result = coming.get(key);
    if (result === undefined) {
      result = inTurn(() => {
        coming.delete(key);
        return read();
      });
      coming.set(key, result);
    }
    return result;
  };
  const page: SharedReads['page'] = (after, rows) =>
    share(pages, JSON.stringify([after, rows]), () =>
      ledger.events.list(after, { rows, bytes: limits.eventPageBytes }),
    );
  const end = (): Promise<EventCursor> => share(ends, '', () => ledger.events.findEnd());
  return { page, end, folded: makeFoldedReads(page, end) };
}

/** The number of intervals for which a page is cached, for late followers. */
const CACHED_INTERVALS = 10;

function makeFoldedReads(page: SharedReads['page'], end: SharedReads['end']): FoldedReads {
  const pages = new Map<
    string,
    { readonly interval: number; read: Promise<FoldedEvents>; isFull: boolean }
  >();
  let reached: { readonly interval: number; readonly cursor: EventCursor } | undefined;
  const now = (): number => Math.floor(Date.now() / limits.eventSummaryMs);
  return {
    page(after, rows) {
      const key = JSON.stringify([after, rows]);
      for (const [old, { interval }] of pages)
        if (now() - interval > CACHED_INTERVALS) pages.delete(old);
      const cached = pages.get(key);
      // A page with events is the same for late followers. Otherwise their cursors would differ
      // forever.
      if (cached !== undefined && (cached.isFull || cached.interval === now())) return cached.read;
      const read = readInSums(page, after, rows);
      const entry = { interval: now(), read, isFull: false };
      pages.set(key, entry);
      void read.then(
        ({ merged }) => {
          entry.isFull = merged.length > 0;
        },
        // A caller that retries after a failure needs a new read.
        () => pages.delete(key),
      );
      return read;
    },
    async findStart() {
      // After a long pause, the old cursor is too far behind for a new follower.
      if (reached !== undefined && now() - reached.interval <= 1) return reached.cursor;
      const cursor = await end();
      reached = { interval: now(), cursor };
      return cursor;
    },
    advanceTo(cursor) {
      reached = { interval: now(), cursor };
    },
  };
}

/** The most pages per result, so that a follower far behind gets something soon. */
const PAGES_MAX = 25;

/** Sums up all pages, so that followers share one small result. */
async function readInSums(
  page: SharedReads['page'],
  after: EventCursor,
  rows: number,
): Promise<FoldedEvents> {
  let sums: FoldedEvent[] = [];
  let end = after;
  for (let left = PAGES_MAX; ; left -= 1) {
    const read = mergeEvents(await page(end, rows), end);
    sums = foldEvents([...sums, ...read.merged], keyOfSum);
    ({ end } = read);
    if (!read.more || left === 1) return { ...read, merged: sums };
  }
}

/** Followers that may not see hidden events get the sums of the others. */
function keyOfSum({ event, isHidden }: FeedEvent): string {
  return `${isHidden ? 'hidden' : 'open'} ${event.type}`;
}

function makeTurns(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = max;
  return async (work) => {
    // All followers that one write has woken ask before this resolves.
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
