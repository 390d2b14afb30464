/**
 * The network between the database and one host, or two of three, is delayed in one direction or
 * both, or intermittently. Each delay lasts up to three times the lease. Delayed data arrives late
 * or never. Every second trial has a separate network for each host, in which packets are lost
 * silently.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { between, pick, type Random } from '../support/crash/random.ts';
import { makeWay, type Direction, type Proxy } from '../support/crash/proxy.ts';
import { campaign, type Trial } from './support/campaign.ts';
import { makeNetwork, networkLack, onCable, type Network } from './support/network.ts';
import type { Figures } from './support/report.ts';
import { openCluster } from './support/cluster.ts';

const HOSTS = 3;
const PARTITIONS = 4;
const leaseMs = 1500;
/** The longest time in which a host doesn't notice that its connection has ended. */
const SILENCE_MS = 65_000;
const requests = [1, 6] as const;
const workMs = [0, 400] as const;
const forLeases = [0.3, 3] as const;
const flapMs = [20, 300] as const;

const kinds = ['lostRequests', 'lostAnswers', 'lostBoth', 'flappings'] as const;

campaign(
  'hosts that are cut off from the database: nothing is lost, nothing done twice',
  { trials: 1, timeoutMs: 600_000 },
  tryPartitions,
);

async function tryPartitions({ index, seed, random, isShort }: Trial): Promise<Figures> {
  const ways: Proxy[] = [];
  const networks = new Map<string, Network>();
  const isOnCable = index % 2 === 1 && networkLack === undefined;
  if (index % 2 === 1 && !isOnCable)
    console.warn(`a proxy took the place of networks: ${networkLack}`);
  const cluster = await openCluster({
    database: 'postgres',
    hosts: HOSTS,
    seed,
    service: { reap_after: `${leaseMs}ms` },
    configOf: async ({ place }, host) => {
      const network = isOnCable ? makeNetwork(host) : undefined;
      const { proxy, config } = await makeWay(place, `host-${host}.yaml`, network?.address);
      ways.push(network === undefined ? proxy : onCable(proxy, network));
      if (network !== undefined) networks.set(config, network);
      return config;
    },
    environmentOf: (config = '') => networks.get(config)?.environment ?? {},
  });
  for (const place of cluster.hosts.keys()) await cluster.ready(place);
  for (let done = 0; done < (isShort ? 1 : PARTITIONS); done += 1) {
    const kind = pick(kinds, random);
    const first = between(random, 0, HOSTS - 1);
    const second = random() < 0.3 ? [ways[(first + 1) % HOSTS]] : [];
    const [low, high] = forLeases;
    const forMs = leaseMs * (low + random() * (high - low));
    await cluster.work(between(random, ...requests), between(random, ...workMs));
    const parted = [ways[first], ...second].filter((way) => way !== undefined);
    const aftermathMs = isOnCable ? SILENCE_MS : 0;
    await cluster.disturb(kind, async () => part(parted, kind, forMs, random), aftermathMs);
  }
  return { ...(await cluster.end()), networks: networks.size };
}

const held: Readonly<Record<string, readonly Direction[]>> = {
  lostRequests: ['requests'],
  lostAnswers: ['answers'],
  lostBoth: ['requests', 'answers'],
};

async function part(
  ways: readonly Proxy[],
  kind: (typeof kinds)[number],
  forMs: number,
  random: Random,
): Promise<void> {
  if (kind === 'flappings') return flap(ways, forMs, random);
  for (const way of ways) way.hold(...(held[kind] ?? []));
  await sleep(forMs);
  const arrives = random() < 0.6;
  for (const way of ways) {
    if (arrives) way.release();
    else await reset(way);
  }
}

async function flap(ways: readonly Proxy[], forMs: number, random: Random): Promise<void> {
  for (let left = forMs; left > 0;) {
    const ms = between(random, ...flapMs);
    for (const way of ways) await way.cut();
    await sleep(ms);
    for (const way of ways) await way.restore();
    await sleep(ms);
    left -= 2 * ms;
  }
}

async function reset(way: Proxy): Promise<void> {
  await way.cut();
  await way.restore();
}
