import { parseJson } from '../../src/base/parse-json.ts';
import { makeSseReader } from '../../src/base/sse.ts';
import { readToken, signOut } from './token.ts';
import type { Event } from './types.ts';

export type Link = 'connecting' | 'live' | 'lost' | 'full';

export interface Listener {
  readonly event: (event: Event) => void;
  readonly link: (link: Link) => void;
}

const RETRY_MS = 2000;
const FULL_MS = 30_000;

/**
 * Follows the events of the service until the returned function is called. `EventSource` can't send
 * the token in a header, so this uses `fetch`.
 */
export function follow(query: Readonly<Record<string, string>>, listener: Listener): () => void {
  const stop = new AbortController();
  void keepFollowing(query, listener, stop.signal);
  return () => stop.abort();
}

async function keepFollowing(
  query: Readonly<Record<string, string>>,
  { event, link }: Listener,
  stopped: AbortSignal,
): Promise<void> {
  let last: string | undefined;
  while (!stopped.aborted) {
    link('connecting');
    const outcome = await followOnce(query, last, stopped, {
      link,
      frame(id, data) {
        last = id ?? last;
        event(data);
      },
    });
    if (stopped.aborted) return;
    link(outcome === 'full' ? 'full' : 'lost');
    await pause(outcome === 'full' ? FULL_MS : RETRY_MS, stopped);
  }
}

interface Receiver {
  readonly link: (link: Link) => void;
  readonly frame: (id: string | undefined, data: Event) => void;
}

async function followOnce(
  query: Readonly<Record<string, string>>,
  last: string | undefined,
  stopped: AbortSignal,
  { link, frame }: Receiver,
): Promise<'ended' | 'full'> {
  try {
    const response = await fetch(`/events?${new URLSearchParams(query).toString()}`, {
      signal: stopped,
      cache: 'no-store',
      credentials: 'omit',
      headers: {
        accept: 'text/event-stream',
        authorization: `Bearer ${readToken() ?? ''}`,
        ...(last === undefined ? {} : { 'last-event-id': last }),
      },
    });
    if (response.status === 401) signOut('expired');
    if ([403, 429, 503].includes(response.status)) return 'full';
    if (!response.ok || response.body === null) return 'ended';
    link('live');
    const read = makeSseReader();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return 'ended';
      for (const { id, data } of read(value)) frame(id, parseJson(data) as Event);
    }
  } catch {
    return 'ended';
  }
}

function pause(ms: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stopped.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
