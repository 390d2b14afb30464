/**
 * PostgreSQL becomes unavailable for two hosts with hundreds of unfinished runs. It is restarted,
 * crashes, loses connections, stops responding or becomes slow: for moments, for seconds, and now
 * and then for longer than a minute.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { MakeJobOptions } from '../support/crash/load.ts';
import { makeMixedJobOptions } from '../support/crash/mixed-work.ts';
import { between, pick, type Random } from '../support/crash/random.ts';
import { startDatabaseProxy, type Proxy } from '../support/crash/proxy.ts';
import { useOwnServer } from '../support/postgres.ts';
import { campaign, isShort, type Trial } from './support/campaign.ts';
import type { Figures } from './support/report.ts';
import { openCluster } from './support/cluster.ts';

const HOSTS = 2;
/** The number of outages, and the number of requests between two of them. */
const OUTAGES = isShort ? 2 : 8;
const requests: readonly [number, number] = isShort ? [1, 6] : [100, 400];
const load = isShort ? {} : { clients: 12, backlogMax: 300 };
/** Their periodic tasks are rare enough to leave time for the work. */
const service = isShort
  ? {}
  : { max_workers: 8, heartbeat_interval: '500ms', poll_interval: '250ms' };
/** The share of requests that start a pipeline of two quick steps. */
const WORKFLOW_SHARE = 0.85;
const workMs = [0, 400] as const;
const shortMs = [20, 500] as const;
const longMs = [500, 5000] as const;
/** The number of trials for each very long outage, and its duration in milliseconds. */
const ENDLESS_EVERY = 20;
const endlessMs = [60_000, 100_000] as const;
const slowMs = [5, 60] as const;

const server = useOwnServer();

type Outage = (proxy: Proxy, forMs: number, random: Random) => Promise<void>;

type Kind = 'restarts' | 'crashes' | 'cuts' | 'flappings' | 'silences' | 'slowdowns';

const outages: Readonly<Record<Kind, Outage>> = {
  async restarts(_, forMs) {
    await server.goDown('fast');
    await sleep(forMs);
    await server.comeBack();
  },
  async crashes(_, forMs) {
    await server.goDown('crash');
    await sleep(forMs);
    await server.comeBack();
  },
  async cuts(proxy, forMs) {
    await proxy.cut();
    await sleep(forMs);
    await proxy.restore();
  },
  async flappings(proxy, forMs, random) {
    for (let left = forMs; left > 0;) {
      const ms = between(random, ...shortMs);
      await outages.cuts(proxy, ms, random);
      await sleep(ms);
      left -= 2 * ms;
    }
  },
  async silences(proxy, forMs, random) {
    proxy.hold('requests', 'answers');
    await sleep(forMs);
    // Requests in progress arrive late, or never.
    if (random() < 0.5) return proxy.release();
    await proxy.cut();
    await proxy.restore();
  },
  async slowdowns(proxy, forMs, random) {
    proxy.slow(between(random, ...slowMs));
    await sleep(forMs);
    proxy.slow(0);
  },
};

campaign(
  'PostgreSQL that goes away: nothing is lost, nothing done twice, all goes on when it is back',
  { trials: 1, timeoutMs: 600_000 },
  tryOutages,
);

async function tryOutages({ index, seed, random }: Trial): Promise<Figures> {
  let proxy: Proxy | undefined;
  const cluster = await openCluster({
    database: 'postgres',
    hosts: HOSTS,
    seed,
    service,
    load,
    makeJobOptions: isShort ? makeMixedJobOptions() : makeWorkflows(),
    configOf: async ({ place }) => {
      proxy ??= await startDatabaseProxy(place);
      return place.directory;
    },
  });
  if (proxy === undefined) throw new Error('there is no way to the database');
  for (const place of cluster.hosts.keys()) await cluster.ready(place);
  const kinds = Object.keys(outages) as Kind[];
  const endless = index % ENDLESS_EVERY === ENDLESS_EVERY - 1;
  for (let done = 0; done < OUTAGES; done += 1) {
    const kind = pick(kinds, random);
    const isLong = random() < 0.4;
    const [low, high] = endless && done === 0 ? endlessMs : isLong ? longMs : shortMs;
    const forMs = between(random, low, high);
    await cluster.work(between(random, ...requests), between(random, ...workMs));
    const way = proxy;
    await cluster.outage(kind, () => outages[kind](way, forMs, random));
  }
  // A server that has ended meanwhile is a fault.
  return cluster.end();
}

function makeWorkflows(): MakeJobOptions {
  const others = makeMixedJobOptions();
  return (random) => (random() < WORKFLOW_SHARE ? { items: 1 } : others(random));
}
