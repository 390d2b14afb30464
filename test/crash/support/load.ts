/** Clients that ask for work all the time, whether or not anybody is there to take it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from './client.ts';
import { plainWish } from './mixed.ts';
import { between, type Random } from './random.ts';
import type { Wish } from './recorder.ts';

const CLIENTS = 3;
/** More would only wait for each other, longer on a slow machine than on a quick one. */
const BACKLOG_MAX = 12;
const pauseMs = [5, 60] as const;

export interface Load {
  stop(): Promise<void>;
}

export function startLoad(
  client: Client,
  random: Random,
  makeWish: (random: Random) => Wish = plainWish,
): Load {
  const stopping = new AbortController();
  const ask = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const backlog = (await client.backlog()) ?? 0;
      if (backlog <= BACKLOG_MAX) await client.enqueue(makeWish(random));
      await sleep(between(random, ...pauseMs));
    }
  };
  const asking = Array.from({ length: CLIENTS }, ask);
  return {
    async stop() {
      stopping.abort();
      await Promise.all(asking);
    },
  };
}
