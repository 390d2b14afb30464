/** What happens on the server, told to whoever on the page wants to know. */
import { follow, type Link } from './stream.ts';
import type { Event } from './types.ts';

/** How many events of each type came with the last beat. */
export type Beat = ReadonlyMap<string, number>;

type Hearer = (types: Beat) => void;

const hearers = new Set<Hearer>();
const linkHearers = new Set<(link: Link) => void>();
let link: Link = 'connecting';
let stop: (() => void) | undefined;
let beat = new Map<string, number>();

/** Without a stream the page still moves, only more slowly. */
const LOOK_MS = 5000;

export function startLive(): void {
  stop?.();
  const stopFollowing = follow({ fold: 'true' }, { event: hear, link: setLink });
  const looking = setInterval(() => {
    if (link !== 'live') tell(new Map([['*', 1]]));
  }, LOOK_MS);
  stop = () => {
    stopFollowing();
    clearInterval(looking);
  };
}

export function stopLive(): void {
  stop?.();
  stop = undefined;
}

export function onBeat(hearer: Hearer): () => void {
  hearers.add(hearer);
  return () => hearers.delete(hearer);
}

export function onLink(hearer: (link: Link) => void): () => void {
  linkHearers.add(hearer);
  hearer(link);
  return () => linkHearers.delete(hearer);
}

function setLink(next: Link): void {
  // A new try is no news until it has led somewhere.
  if (next === 'connecting' && link === 'lost') return;
  // What happened in between is not known; whoever shows anything looks again.
  if (next === 'live' && link !== 'live') tell(new Map([['*', 1]]));
  link = next;
  for (const hearer of linkHearers) hearer(next);
}

/** The events of one beat come one by one, but at once. */
function hear({ type, count = 1 }: Event): void {
  if (beat.size === 0) {
    setTimeout(() => {
      const told = beat;
      beat = new Map();
      tell(told);
    });
  }
  beat.set(type, (beat.get(type) ?? 0) + count);
}

function tell(types: Beat): void {
  for (const hearer of hearers) hearer(types);
}
