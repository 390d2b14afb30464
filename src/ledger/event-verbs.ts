import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from './dialect.ts';
import type { Ledger } from './ledger.ts';
import { makeHorizon, endOfEvents, listEvents, type Sight } from '../signal/event-feed.sql.ts';

const FIRST_LOOKS_MAX = 20;
const FIRST_LOOK_MS = 10;

export function makeEventVerbs({ read }: Store): Pick<Ledger, 'events' | 'eventEnd'> {
  const horizon = makeHorizon();
  /** Who looks for the first time knows of nothing that is over, and waits a moment to see it end. */
  const look = async (): Promise<Sight> => {
    for (let looks = 1; ; looks += 1) {
      const sight = await read((session) => horizon.look(session));
      const isFirst = sight.reach === undefined && sight.isPending;
      if (!isFirst || looks === FIRST_LOOKS_MAX) return sight;
      await sleep(FIRST_LOOK_MS);
    }
  };
  return {
    async events(after, limit) {
      const sight = await look();
      return read((session) => listEvents(session, after, limit, sight));
    },
    async eventEnd() {
      const sight = await look();
      return read((session) => endOfEvents(session, sight));
    },
  };
}
