import { limits } from '../base/limits.ts';
import type { EventPlace, EventRows } from '../ledger/events.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** The reads of all who follow a ledger: those at the same place share one, and few run at once. */
export interface SharedReads {
  page(after: EventPlace, rows: number): Promise<EventRows>;
  end(): Promise<EventPlace>;
}

const known = new WeakMap<Ledger, SharedReads>();

export function sharedReads(ledger: Ledger): SharedReads {
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
  return {
    page: (after, rows) =>
      share(pages, JSON.stringify([after, rows]), () =>
        ledger.events(after, { rows, bytes: limits.eventPageBytes }),
      ),
    end: () => share(ends, '', () => ledger.eventEnd()),
  };
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
