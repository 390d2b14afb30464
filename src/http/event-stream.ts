import { once } from 'node:events';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Context } from '../operation/context.ts';
import type { JsonOutput, Operation } from '../operation/define.ts';
import { invoke } from '../operation/invoke.ts';
import { waitForInterval, waitForEvents, type EventPage } from '../signal/event-feed.operations.ts';
import type { Exchange } from './exchange.ts';

type Principal = Context['principal'];

/** The open streams of a listener. */
export interface EventStreams {
  /** Sends events as they come until the client leaves or the listener closes. */
  open(exchange: Exchange, context: Context, request: EventStreamRequest): Promise<void>;
  close(): void;
}

interface EventStreamRequest {
  readonly operation: Operation;
  readonly input: JsonOutput;
  /** Authenticates the caller again; throws if they have lost access. */
  readonly admit: () => Promise<Principal>;
  /** Checks the token in memory, for every page; undefined if it was revoked or has expired. */
  readonly again: () => Promise<Principal | undefined>;
}

export function createEventStreams(): EventStreams {
  const counts = new Map<string, number>();
  const stop = new AbortController();
  const change = (groups: readonly Group[], by: 1 | -1): void => {
    for (const { name } of groups) {
      const left = (counts.get(name) ?? 0) + by;
      if (left === 0) counts.delete(name);
      else counts.set(name, left);
    }
  };
  return {
    async open(exchange, context, request) {
      if (stop.signal.aborted) throw new DuctileError('BUSY', 'the service is stopping');
      const groups = groupsOf(context.principal);
      const full = groups.find(({ name, max }) => (counts.get(name) ?? 0) >= max);
      if (full !== undefined) {
        const message = `${full.subject} already has ${full.max} open event streams`;
        throw new DuctileError('STREAMS_SPENT', message);
      }
      change(groups, 1);
      const left = new AbortController();
      exchange.response.once('close', () => left.abort());
      const over = AbortSignal.any([stop.signal, left.signal]);
      try {
        await send(exchange, context, { ...request, over });
      } finally {
        change(groups, -1);
        // A failure before the headers is reported as an ordinary error.
        if (exchange.response.headersSent) exchange.response.end();
      }
    },
    close: () => stop.abort(),
  };
}

/** Streams that are counted together. */
interface Group {
  readonly name: string;
  readonly subject: string;
  readonly max: number;
}

/**
 * Narrowest group first, so that the error names the one that the caller can act on. Tenants
 * together leave some streams to the operator.
 */
function groupsOf({ tenant, actor }: Principal): Group[] {
  const all = { name: 'all', subject: 'this service', max: limits.eventStreamsMax };
  const token = {
    name: `token ${tenant ?? ''} ${actor}`,
    subject: 'this token',
    max: limits.eventStreamsPerTokenMax,
  };
  if (tenant === undefined) return [token, all];
  return [
    token,
    { name: `tenant ${tenant}`, subject: 'this tenant', max: limits.eventStreamsPerTenantMax },
    { name: 'tenants', subject: 'this service', max: limits.eventStreamsOfTenantsMax },
    all,
  ];
}

interface Stream extends EventStreamRequest {
  readonly over: AbortSignal;
}

/**
 * Sends one page of the ledger after another. The next page is read when the client has received the
 * last, so a slow client costs memory for one page and misses nothing: its events stay in the
 * ledger.
 */
async function send(exchange: Exchange, opened: Context, stream: Stream): Promise<void> {
  const { operation, input, over } = stream;
  const { response, request } = exchange;
  const last = request.headers['last-event-id'];
  const isNamed = input['message'] !== true;
  const begin = typeof last === 'string' && last !== '' ? { ...input, after: last } : input;
  // Read the first page before the headers, so that invalid input is still an ordinary error.
  let context = opened;
  let page = await readEventPage(operation, context, begin);
  exchange.begin(200, ['content-type', 'text/event-stream', 'x-accel-buffering', 'no']);
  if (request.method === 'HEAD') return;
  response.write('retry: 2000\n\n');
  let beatAt = performance.now() + limits.eventHeartbeatMs;
  while (!over.aborted) {
    const isDue = performance.now() >= beatAt;
    if (isDue) beatAt = performance.now() + limits.eventHeartbeatMs;
    // Checked after the read and before the write: a caller whose token has ended gets no later
    // event.
    const principal = await readmit(isDue ? stream.admit : stream.again, context.principal);
    if (principal === undefined) break;
    context = { ...context, principal };
    const text = toFrames(page, isNamed) + (isDue ? ': alive\n\n' : '');
    if (text !== '') await write(exchange, text, over);
    const waitMs = page.pending ? limits.eventPendingPollMs : limits.eventPollMs;
    if (!page.more) {
      await (input['fold'] === true ? waitForInterval(over) : waitForEvents(context, waitMs, over));
    }
    if (!over.aborted) page = await readNext(stream, context, page.cursor);
  }
}

async function readEventPage(
  operation: Operation,
  context: Context,
  input: JsonOutput,
): Promise<EventPage> {
  return (await invoke(operation, context, input)) as unknown as EventPage;
}

/**
 * Returns undefined if the token was revoked or has expired. If the database is unavailable, the
 * caller keeps the rights they had.
 */
async function readmit(
  authenticate: EventStreamRequest['again'],
  principal: Principal,
): Promise<Principal | undefined> {
  try {
    return await authenticate();
  } catch (thrown) {
    return toDuctileError(thrown).kind.status === 503 ? principal : undefined;
  }
}

/**
 * Returns an empty page while the database is unavailable, so that an outage doesn't end the
 * stream.
 */
async function readNext(
  { operation, input }: Stream,
  context: Context,
  cursor: string,
): Promise<EventPage> {
  try {
    return await readEventPage(operation, context, { ...input, after: cursor });
  } catch (thrown) {
    if (!toDuctileError(thrown).kind.retryable) throw thrown;
    return { events: [], cursor, more: false, pending: false, reset: false };
  }
}

async function write({ response }: Exchange, text: string, over: AbortSignal): Promise<void> {
  if (response.write(text)) return;
  await once(response, 'drain', { signal: over }).catch(() => undefined);
}

const named = new WeakMap<EventPage['events'], string>();
const unnamed = new WeakMap<EventPage['events'], string>();

/**
 * Streams at the same position share their events and the text of their frames. A browser's
 * `onmessage` receives only events without a name.
 */
function toFrames({ events, reset, cursor }: EventPage, isNamed: boolean): string {
  const data = isNamed ? '{"reason":"restored"}' : '{"type":"reset","reason":"restored"}';
  const first = reset ? `id: ${cursor}\n${isNamed ? 'event: reset\n' : ''}data: ${data}\n\n` : '';
  const written = isNamed ? named : unnamed;
  let text = written.get(events);
  if (text === undefined) {
    written.set(events, (text = events.map((event) => toFrame(event, isNamed)).join('')));
  }
  return first + text;
}

function toFrame({ cursor: id, ...event }: EventPage['events'][number], isNamed: boolean): string {
  // A plugin can choose any text as the type, but the line must stay one line.
  const type = event.type.replaceAll(/[\r\n\0]/g, ' ');
  return `id: ${id}\n${isNamed ? `event: ${type}\n` : ''}data: ${JSON.stringify(event)}\n\n`;
}
