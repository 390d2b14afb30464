/**
 * The way between one host, or two of three, and the database is held up in one direction or both, or comes
 * and goes, for up to three times as long as the others wait; what was held arrives late, or never.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { between, pick, type Random } from '../crash/support/random.ts';
import { makeWay, type Direction, type Proxy } from '../crash/support/proxy.ts';
import { campaign, type Trial } from './support/campaign.ts';
import type { Figures } from './support/report.ts';
import { openScene } from './support/scene.ts';

const HOSTS = 3;
const PARTITIONS = 4;
const leaseMs = 1500;
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

async function tryPartitions({ seed, random, isShort }: Trial): Promise<Figures> {
  const ways: Proxy[] = [];
  const scene = await openScene({
    database: 'postgres',
    hosts: HOSTS,
    seed,
    service: { reap_after: `${leaseMs}ms` },
    configOf: async ({ place }, host) => {
      const { proxy, config } = await makeWay(place, `host-${host}.yaml`);
      ways.push(proxy);
      return config;
    },
  });
  for (const place of scene.hosts.keys()) await scene.ready(place);
  for (let done = 0; done < (isShort ? 1 : PARTITIONS); done += 1) {
    const kind = pick(kinds, random);
    const first = between(random, 0, HOSTS - 1);
    const second = random() < 0.3 ? [ways[(first + 1) % HOSTS]] : [];
    const [low, high] = forLeases;
    const forMs = leaseMs * (low + random() * (high - low));
    await scene.work(between(random, ...requests), between(random, ...workMs));
    const parted = [ways[first], ...second].filter((way) => way !== undefined);
    await scene.disturb(kind, async () => part(parted, kind, forMs, random));
  }
  return scene.end();
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
