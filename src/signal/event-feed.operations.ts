import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { EventPlace, EventRows } from './event-types.ts';
import { RUNTIME_SOURCE } from './signal.ts';
import type { Context } from '../operation/context.ts';
import { epochOf, readCursor, writeCursor } from '../operation/cursor.ts';
import { defineOperation, type JsonOutput, type Operation } from '../operation/define.ts';
import {
  foldEvents,
  mergeEvents,
  placedShape,
  type Merged,
  type PlacedEvent,
} from './merge-events.service.ts';
import { sharedReads, untilBeat, type SharedReads } from './event-reads.operations.ts';
import { invoke } from '../operation/invoke.ts';
import { seesHidden } from '../access/visibility.operations.ts';

const eventShape = placedShape.extend({
  cursor: z.string().describe('go on after this event with it'),
  count: z.int().optional().describe('with `fold`: how many there were'),
});

type Event = z.output<typeof eventShape>;

const typePattern = z
  .string()
  .regex(/^[\w.:/-]{1,255}\*?$/, 'must be a type such as order.paid, or its beginning with a *');

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
      .describe('a cursor; `start` is the oldest event, and without one only new events are shown'),
    type: z
      .array(typePattern)
      .min(1)
      .optional()
      .describe('only these types; `job.*` are all that begin so'),
    fold: z
      .boolean()
      .default(false)
      .describe('of each type only the latest, with how many there were; once in a second'),
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
      .describe('how many rows of each kind are looked at'),
  }),
  output: z.object({
    events: z.array(eventShape),
    cursor: z.string().describe('go on with it'),
    more: z.boolean().describe('there is more to be had at once'),
    pending: z.boolean().describe('what comes next is being written; look again soon'),
    reset: z.boolean().describe('the cursor was of a ledger that is no more; this is a new begin'),
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
    const epoch = await epochOf(ledger);
    const reads = sharedReads(ledger);
    const { place, reset } = await findPlace(reads, epoch, { after, fold });
    const page = fold
      ? await reads.beats.page(place, limit)
      : merge(await reads.page(place, limit), place);
    const { end, more, isPending } = page;
    // Only who has seen everything stands where those may begin who come anew.
    if (fold && !more) reads.beats.reach(end);
    return {
      events: showEvents(page, epoch, { type, fold, seesAll: seesHidden(principal) }),
      cursor: toCursor(epoch, end),
      more,
      pending: isPending,
      reset,
    };
  },
});

/** Errors may quote what only administrators see, and pages are shared: `job.inspect` shows them. */
function withoutError(event: PlacedEvent['event']): PlacedEvent['event'] {
  const { data } = event;
  if (!event.type.startsWith('job.') || event.source !== RUNTIME_SOURCE || !isObject(data)) {
    return event;
  }
  return 'last_error' in data ? { ...event, data: { ...data, last_error: null } } : event;
}

const merges = new WeakMap<EventRows, Merged>();

/** Rows that several share are of one place, and are merged once. */
function merge(rows: EventRows, place: EventPlace): Merged {
  let merged = merges.get(rows);
  if (merged === undefined) merges.set(rows, (merged = mergeEvents(rows, place)));
  return merged;
}

interface Wish {
  readonly type: readonly string[] | undefined;
  readonly fold: boolean;
  readonly seesAll: boolean;
}

const shown = new WeakMap<Merged, Map<string, Event[]>>();

/** Whoever shares a page and wishes the same shares what is shown of it too. */
function showEvents(page: Merged, epoch: string, wish: Wish): Event[] {
  const known = shown.get(page) ?? new Map<string, Event[]>();
  shown.set(page, known);
  const key = JSON.stringify(wish);
  let events = known.get(key);
  if (events === undefined) known.set(key, (events = selectEvents(page, epoch, wish)));
  return events;
}

function selectEvents({ merged }: Merged, epoch: string, { type, fold, seesAll }: Wish): Event[] {
  const wanted = makeFilter(type);
  const seen = merged.filter(({ event, isHidden }) => wanted(event.type) && (seesAll || !isHidden));
  const show = ({ event, place }: PlacedEvent): Event => ({
    cursor: toCursor(epoch, place),
    ...(seesAll ? event : withoutError(event)),
  });
  if (!fold) return seen.map(show);
  return foldEvents(seen).map((placed) => ({ ...show(placed), count: placed.count }));
}

export interface EventPage {
  readonly events: readonly Event[];
  readonly cursor: string;
  readonly more: boolean;
  readonly pending: boolean;
  readonly reset: boolean;
}

/** A page for a surface that sends events as they come. */
export async function readEventPage(
  operation: Operation,
  context: Context,
  input: JsonOutput,
): Promise<EventPage> {
  return (await invoke(operation, context, input)) as unknown as EventPage;
}

/** Until something was written here, or long enough to look for what others wrote. */
export function waitForEvents({ engine }: Context, ms: number, signal: AbortSignal): Promise<void> {
  return engine.activity.wait(ms, signal);
}

/** All who are told in sums look at the same moment, because then one look is enough for them. */
export async function waitForBeat(signal: AbortSignal): Promise<void> {
  await sleep(untilBeat(), undefined, { signal }).catch(() => undefined);
}

const KIND = 'e';
const NOWHERE = { tx: 0, seq: 0 };
const START: EventPlace = {
  jobs: NOWHERE,
  signals: NOWHERE,
  attempts: NOWHERE,
  runs: NOWHERE,
};

async function findPlace(
  reads: SharedReads,
  epoch: string,
  { after, fold }: { readonly after?: string | undefined; readonly fold: boolean },
): Promise<{ place: EventPlace; reset: boolean }> {
  if (after === 'start') return { place: START, reset: false };
  if (after === undefined) {
    return { place: await (fold ? reads.beats.begin() : reads.end()), reset: false };
  }
  const numbers = readCursor(KIND, epoch, after, 8);
  if (numbers === 'reset') return { place: await reads.end(), reset: true };
  const at = (index: number) => ({ tx: numbers[index] ?? 0, seq: numbers[index + 1] ?? 0 });
  return { place: { jobs: at(0), signals: at(2), attempts: at(4), runs: at(6) }, reset: false };
}

function toCursor(epoch: string, { jobs, signals, attempts, runs }: EventPlace): string {
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
