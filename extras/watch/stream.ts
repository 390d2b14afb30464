import { StringDecoder } from 'node:string_decoder';
import type { IncomingMessage } from 'node:http';
import { DuctileError, messageOf } from '../../src/base/errors.ts';
import { isObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import { makeSseReader } from '../../src/base/sse.ts';
import { parseResult } from '../../src/cli/callers.ts';
import { readResponseText, send } from '../../src/cli/transport.ts';
import type { ServerTarget } from '../../src/cli/transport.ts';
import type { Link } from './state.ts';

const RETRY_MS = 1000;
const REFUSED_MS = 30_000;

export interface Listener {
  /** Reports how many events of a type arrived; the service folds them by second. */
  event(type: string, count: number): void;
  link(link: Link, note?: string): void;
}

export interface StreamSource {
  /** Finds the service each time: it may return at another address. */
  readonly findTarget: () => Promise<ServerTarget>;
  readonly pause: (ms: number, over: AbortSignal) => Promise<void>;
}

/** Follows the service's events over one connection, and reconnects when it ends. */
export async function followEvents(
  { findTarget, pause }: StreamSource,
  listener: Listener,
  over: AbortSignal,
): Promise<void> {
  let last: string | undefined;
  while (!over.aborted) {
    let waitMs = RETRY_MS;
    try {
      const response = await openStream(await findTarget(), last);
      listener.link('live');
      last = await readStream(response, listener, over);
      if (!over.aborted) listener.link('lost', 'the service closed the connection');
    } catch (thrown) {
      const isRefused = thrown instanceof DuctileError && refusals.has(thrown.code);
      if (isRefused) waitMs = REFUSED_MS;
      listener.link(isRefused ? 'polling' : 'lost', messageOf(thrown));
    }
    await pause(waitMs, over);
  }
}

const refusals: ReadonlySet<string> = new Set(['BUSY', 'FORBIDDEN', 'STREAMS_SPENT']);

async function openStream(
  target: ServerTarget,
  last: string | undefined,
): Promise<IncomingMessage> {
  const response = await send(target, {
    method: 'GET',
    path: '/events?fold=true',
    headers: {
      accept: 'text/event-stream',
      ...(last === undefined ? {} : { 'last-event-id': last }),
    },
  });
  const type = response.headers['content-type'] ?? '';
  if (!type.startsWith('text/event-stream')) {
    parseResult(target, response, await readResponseText(target, response));
    throw new DuctileError('SERVER_FOREIGN', 'the program at this address sends no events');
  }
  return response;
}

/** Reads until the connection ends; returns the cursor to continue from. */
async function readStream(
  response: IncomingMessage,
  listener: Listener,
  over: AbortSignal,
): Promise<string | undefined> {
  const read = makeSseReader();
  const decoder = new StringDecoder('utf8');
  let last: string | undefined;
  const leave = (): void => void response.destroy();
  over.addEventListener('abort', leave);
  try {
    for await (const piece of response as AsyncIterable<Buffer>) {
      for (const { id, event, data } of read(decoder.write(piece))) {
        last = id ?? last;
        listener.event(event, countIn(data));
      }
    }
  } catch {
    // A broken connection has ended, too.
  } finally {
    over.removeEventListener('abort', leave);
  }
  return last;
}

function countIn(data: string): number {
  const event: unknown = parseJson(data);
  return isObject(event) && typeof event['count'] === 'number' ? event['count'] : 1;
}
