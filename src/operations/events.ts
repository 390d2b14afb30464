import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { AttemptEvent, EventPlace, Ledger, SignalEvent } from '../ledger/ledger.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import type { Context } from './context.ts';
import { epochOf, readCursor, writeCursor } from './cursor.ts';
import { defineOperation, type JsonOutput, type Operation } from './define.ts';
import { invoke } from './invoke.ts';
import { allows } from './scopes.ts';
import { showAttempt, showSignal, signalShape } from './shapes.ts';

const eventShape = signalShape
  .pick({ type: true, source: true, data: true, correlation_id: true, job_id: true })
  .extend({
    cursor: z.string().describe('go on after this event with it'),
    event_id: z.string(),
    occurred_at: signalShape.shape.occurred_at,
  });

export type Event = z.output<typeof eventShape>;

const typePattern = z
  .string()
  .regex(/^[\w.:/-]{1,255}\*?$/, 'must be a type such as order.paid, or its beginning with a *');

export const tailSignals = defineOperation({
  name: 'signal.tail',
  summary: 'Show signals and the ends of attempts, oldest first, from now on or after a cursor.',
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
    reset: z.boolean().describe('the cursor was of a ledger that is no more; this is a new begin'),
  }),
  errors: ['BUSY', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/events', isStream: true },
  cli: {
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile signal tail --after start', "ductile signal tail --type 'job.*'"],
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
    const { place, reset } = await findPlace(ledger, epoch, after);
    const rows = await ledger.events(place, limit);
    const merged = merge(rows.signals, rows.attempts, place);
    const last = merged.at(-1)?.place ?? place;
    const seesAll = allows(principal.scopes, 'system:ro');
    const wanted = makeFilter(type);
    return {
      events: merged
        .filter(({ event, isHidden }) => wanted(event.type) && (seesAll || !isHidden))
        .map(({ event, place: at }) => ({ cursor: toCursor(epoch, at), ...event })),
      cursor: toCursor(epoch, last),
      more: rows.signals.length === limit || rows.attempts.length === limit,
      reset,
    };
  },
});

export interface EventPage {
  readonly events: readonly Event[];
  readonly cursor: string;
  readonly more: boolean;
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
const START: EventPlace = { signals: { tx: 0, seq: 0 }, attempts: { tx: 0, seq: 0 } };

async function findPlace(
  ledger: Ledger,
  epoch: string,
  after: string | undefined,
): Promise<{ place: EventPlace; reset: boolean }> {
  if (after === 'start') return { place: START, reset: false };
  if (after === undefined) return { place: await ledger.eventEnd(), reset: false };
  const numbers = readCursor(KIND, epoch, after, 4);
  if (numbers === 'reset') return { place: await ledger.eventEnd(), reset: true };
  const [signalTx = 0, signalSeq = 0, attemptTx = 0, attemptSeq = 0] = numbers;
  const place = {
    signals: { tx: signalTx, seq: signalSeq },
    attempts: { tx: attemptTx, seq: attemptSeq },
  };
  return { place, reset: false };
}

function toCursor(epoch: string, { signals, attempts }: EventPlace): string {
  return writeCursor(KIND, epoch, [signals.tx, signals.seq, attempts.tx, attempts.seq]);
}

interface Placed {
  readonly event: Omit<Event, 'cursor'>;
  readonly isHidden: boolean;
  /** Behind this event, in both tables. */
  readonly place: EventPlace;
}

/** Each table in its own order; between the two, by time as far as that allows. */
function merge(
  signals: readonly SignalEvent[],
  attempts: readonly AttemptEvent[],
  from: EventPlace,
): Placed[] {
  const merged: Placed[] = [];
  let place = from;
  let at = 0;
  const addAttempts = (until: string | undefined): void => {
    for (; at < attempts.length; at += 1) {
      const attempt = attempts[at];
      if (attempt === undefined) return;
      if (until !== undefined && attempt.completedAt > until) return;
      place = { ...place, attempts: attempt.position };
      merged.push({ event: fromAttempt(attempt), isHidden: false, place });
    }
  };
  for (const signal of signals) {
    addAttempts(signal.insertedAt);
    place = { ...place, signals: signal.position };
    const isHidden = signal.visibility === 'admin_only';
    merged.push({ event: fromSignal(signal), isHidden, place });
  }
  addAttempts(undefined);
  return merged;
}

function fromSignal(signal: SignalEvent): Omit<Event, 'cursor'> {
  const { signal_id, type, source, data, correlation_id, job_id, occurred_at } = showSignal(signal);
  return { event_id: signal_id, type, source, data, correlation_id, job_id, occurred_at };
}

/** How an attempt ended is an event of the runtime; what it printed is not part of it. */
function fromAttempt(attempt: AttemptEvent): Omit<Event, 'cursor'> {
  const { result: _result, stderr: _stderr, ...data } = showAttempt(attempt);
  return {
    event_id: attempt.id,
    type: `job.${attempt.status}`,
    source: RUNTIME_SOURCE,
    data,
    correlation_id: attempt.jobId,
    job_id: attempt.jobId,
    occurred_at: attempt.completedAt,
  };
}

function makeFilter(types: readonly string[] | undefined): (type: string) => boolean {
  if (types === undefined) return () => true;
  const exact = new Set(types.filter((type) => !type.endsWith('*')));
  const beginnings = types.filter((type) => type.endsWith('*')).map((type) => type.slice(0, -1));
  return (type) => exact.has(type) || beginnings.some((beginning) => type.startsWith(beginning));
}
