/** Clients that request work continuously, whether or not a service runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from './client.ts';
import { plainJobOptions } from './mixed-work.ts';
import { between, type Random } from './random.ts';
import type { JobOptions } from './recorder.ts';

/** Number of clients, limit of queued jobs, and pause of each client. */
export interface LoadPace {
  readonly clients?: number;
  readonly backlogMax?: number;
  readonly pauseMs?: readonly [least: number, most: number];
}

const CLIENTS = 3;
/** Limit of queued jobs; more would only wait longer on a slow machine. */
const BACKLOG_MAX = 12;
const defaultPauseMs = [5, 60] as const;

export type MakeJobOptions = (random: Random) => JobOptions;

export interface Load {
  stop(): Promise<void>;
}

export function startLoad(
  client: Client,
  random: Random,
  makeJobOptions: MakeJobOptions = plainJobOptions,
  { clients = CLIENTS, backlogMax = BACKLOG_MAX, pauseMs = defaultPauseMs }: LoadPace = {},
): Load {
  const stopping = new AbortController();
  const sendRequests = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const backlog = (await client.backlog()) ?? 0;
      if (backlog <= backlogMax) await client.enqueue(makeJobOptions(random));
      await sleep(between(random, ...pauseMs));
    }
  };
  const senders = Array.from({ length: clients }, sendRequests);
  return {
    async stop() {
      stopping.abort();
      await Promise.all(senders);
    },
  };
}
