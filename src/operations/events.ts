import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { EventPlace } from '../ledger/events.ts';
import type { Context } from './context.ts';
import { epochOf, readCursor, writeCursor } from './cursor.ts';
import { defineOperation, type JsonOutput, type Operation } from './define.ts';
import { mergeEvents, placedShape } from './event-merge.ts';
import { sharedReads, type SharedReads } from './event-reads.ts';
import { invoke } from './invoke.ts';
import { seesHidden } from './sight.ts';

const eventShape = placedShape.extend({
  cursor: z.string().describe('go on after this event with it'),
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
  errors: ['BUSY', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
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
  async run({ engine: { ledger }, principal }, { after, type, limit }) {
    const epoch = await epochOf(ledger);
    const reads = sharedReads(ledger);
    const { place, reset } = await findPlace(reads, epoch, after);
    const { merged, end, more, isPending } = mergeEvents(await reads.page(place, limit), place);
    const seesAll = seesHidden(principal);
    const wanted = makeFilter(type);
    return {
      events: merged
        .filter(({ event, isHidden }) => wanted(event.type) && (seesAll || !isHidden))
        .map(({ event, place: at }) => ({ cursor: toCursor(epoch, at), ...event })),
      cursor: toCursor(epoch, end),
      more,
      pending: isPending,
      reset,
    };
  },
});

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
  after: string | undefined,
): Promise<{ place: EventPlace; reset: boolean }> {
  if (after === 'start') return { place: START, reset: false };
  if (after === undefined) return { place: await reads.end(), reset: false };
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
