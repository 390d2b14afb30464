/** Clients that ask for work all the time, whether or not anybody is there to take it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from './client.ts';
import { plainWish } from './mixed-work.ts';
import { between, type Random } from './random.ts';
import type { Wish } from './recorder.ts';

/** How many ask at the same time, how much may wait for all of them, and how long each rests. */
export interface LoadPace {
  readonly clients?: number;
  readonly backlogMax?: number;
  readonly pauseMs?: readonly [least: number, most: number];
}

const CLIENTS = 3;
/** More would only wait for each other, longer on a slow machine than on a quick one. */
const BACKLOG_MAX = 12;
const usualPauseMs = [5, 60] as const;

export type MakeWish = (random: Random) => Wish;

export interface Load {
  stop(): Promise<void>;
}

export function startLoad(
  client: Client,
  random: Random,
  makeWish: MakeWish = plainWish,
  { clients = CLIENTS, backlogMax = BACKLOG_MAX, pauseMs = usualPauseMs }: LoadPace = {},
): Load {
  const stopping = new AbortController();
  const ask = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const backlog = (await client.backlog()) ?? 0;
      if (backlog <= backlogMax) await client.enqueue(makeWish(random));
      await sleep(between(random, ...pauseMs));
    }
  };
  const asking = Array.from({ length: clients }, ask);
  return {
    async stop() {
      stopping.abort();
      await Promise.all(asking);
    },
  };
}
