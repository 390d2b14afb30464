/** Distributes the events of the service to the parts of the page. */
import { follow, type Link } from './stream.ts';
import type { Event } from './types.ts';

/** Number of new events by type; `*` stands for any type. */
export type EventCounts = ReadonlyMap<string, number>;

type CountListener = (types: EventCounts) => void;

const listeners = new Set<CountListener>();
const linkListeners = new Set<(link: Link) => void>();
let link: Link = 'connecting';
let stop: (() => void) | undefined;
let pending = new Map<string, number>();

/** Interval at which the page reloads its data while there is no stream. */
const POLL_MS = 5000;

export function startLive(): void {
  stop?.();
  const stopFollowing = follow({ fold: 'true' }, { event: collect, link: setLink });
  const poll = setInterval(() => {
    if (link !== 'live') notify(new Map([['*', 1]]));
  }, POLL_MS);
  stop = () => {
    stopFollowing();
    clearInterval(poll);
  };
}

export function stopLive(): void {
  stop?.();
  stop = undefined;
}

export function onEvents(listener: CountListener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function onLink(listener: (link: Link) => void): () => void {
  linkListeners.add(listener);
  listener(link);
  return () => linkListeners.delete(listener);
}

function setLink(next: Link): void {
  // Stay `lost` until a new connection succeeds.
  if (next === 'connecting' && link === 'lost') return;
  // Events may have been missed, so everything is reloaded.
  if (next === 'live' && link !== 'live') notify(new Map([['*', 1]]));
  link = next;
  for (const listener of linkListeners) listener(next);
}

/** Collects the events that arrive together, and reports them once. */
function collect({ type, count = 1 }: Event): void {
  if (pending.size === 0) {
    setTimeout(() => {
      const counts = pending;
      pending = new Map();
      notify(counts);
    });
  }
  pending.set(type, (pending.get(type) ?? 0) + count);
}

function notify(types: EventCounts): void {
  for (const listener of listeners) listener(types);
}
