/**
 * Hosts are frozen for 0.5 to 5 times the lease, several at a time, at random moments and at named
 * points. Meanwhile the others take over their work. Then they continue, and nothing that they still
 * do may count.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { probes } from '../../src/base/probe.ts';
import type { MakeJobOptions } from '../support/crash/load.ts';
import { makeMixedJobOptions } from '../support/crash/mixed-work.ts';
import { between, makeRandom, pick, type Random } from '../support/crash/random.ts';
import { findSpawner } from '../support/crash/server.ts';
import { readState } from '../support/hosts.ts';
import { eventually } from '../support/instance.ts';
import { campaign, isShort, type Trial } from './support/campaign.ts';
import type { Figures } from './support/report.ts';
import { openCluster, type Cluster } from './support/cluster.ts';

/** The number of hosts, of frozen hosts at a time, and of rounds. */
const { HOSTS, VICTIMS, ROUNDS } = isShort
  ? { HOSTS: 3, VICTIMS: 1, ROUNDS: 1 }
  : { HOSTS: 4, VICTIMS: 3, ROUNDS: 8 };
/** Clients wait for frozen hosts, so there are more of them. */
const load = isShort ? {} : { clients: 12, backlogMax: 40 };
const workers = isShort ? 3 : 5;
/** The share of long jobs, so that a host has running work whenever it is frozen. */
const LASTING_SHARE = 0.4;
const lastingMs = [200, 2000] as const;
const leaseMs = 1500;
const leases = [0.5, 5] as const;
const requests = [1, 6] as const;
const workMs = [0, 400] as const;
const NTH_MAX = 8;
/**
 * The share of trials in which the helper is frozen, too: its processes can't be ended then, so
 * plugins may overlap.
 */
const WHOLE_SHARE = 0.3;
/** The longest wait for a point. */
const POINT_MS = 3000;
const STARTED_MS = 60_000;
const WAKE_MS = 200;
const SEEDS = 2 ** 31;

/** Points between a read or a claim and its use. */
const points = probes.filter((name) =>
  /^(claim|spawn|run|settle|advance|fire|heartbeat|reap)\./.test(name),
);

campaign(
  'hosts that are frozen and go on: nothing that they still do counts',
  { trials: 1, timeoutMs: 600_000 },
  tryFreezes,
);

interface Freezing {
  readonly cluster: Cluster;
  /** The hosts that stay frozen. */
  readonly held: Set<number>;
}

async function tryFreezes({ seed, random }: Trial): Promise<Figures> {
  const service = { reap_after: `${leaseMs}ms`, max_workers: workers };
  const makeJobOptions = isShort ? makeMixedJobOptions() : makeLastingWishes();
  const options = { hosts: HOSTS, seed, service, load, makeJobOptions };
  const cluster = await openCluster({ database: 'postgres', ...options });
  const mayOverlap = random() < WHOLE_SHARE;
  const freezing = { cluster, held: new Set<number>() };
  const waking = setInterval(() => wakeLate(freezing), WAKE_MS);
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      const victims = drawPlaces(random).map((place) => {
        // Each has its own random numbers, independent of their order.
        const own = makeRandom(between(random, 0, SEEDS));
        return freezeSomehow(freezing, place, mayOverlap, own);
      });
      await Promise.all(victims);
    }
    const figures = await cluster.end({ mayOverlap });
    return { ...figures, ...countSaid(cluster) };
  } finally {
    clearInterval(waking);
  }
}

function makeLastingWishes(): MakeJobOptions {
  const others = makeMixedJobOptions();
  return (random) =>
    random() < LASTING_SHARE ? { sleep_ms: between(random, ...lastingMs) } : others(random);
}

function drawPlaces(random: Random): number[] {
  const places = Array.from({ length: HOSTS }, (_, place) => ({ place, order: random() }));
  const drawn = places.toSorted((a, b) => a.order - b.order).slice(0, VICTIMS);
  return drawn.map(({ place }) => place);
}

/** A host that reaches its point only now has stopped itself, and must be continued here. */
function wakeLate({ cluster, held }: Freezing): void {
  for (const { isAlive, pid } of cluster.servers) {
    if (!isAlive || held.has(pid) || readState(pid) !== 'T') continue;
    void cluster.disturb('late', async () => process.kill(pid, 'SIGCONT'), WAKE_MS);
  }
}

async function freezeSomehow(
  freezing: Freezing,
  place: number,
  withSpawner: boolean,
  random: Random,
): Promise<void> {
  const kind = random();
  const forMs = leaseMs * (leases[0] + random() ** 2 * (leases[1] - leases[0]));
  if (kind < 0.65) await freeze(freezing, place, forMs, withSpawner && kind < 0.35, random);
  else await freezeAtPoint(freezing, place, forMs, random);
}

async function freeze(
  freezing: Freezing,
  place: number,
  forMs: number,
  withSpawner: boolean,
  random: Random,
): Promise<void> {
  const { cluster } = freezing;
  const { pid } = await cluster.ready(place);
  const spawners = withSpawner
    ? [await eventually('there is a helper', () => findSpawner(pid))]
    : [];
  await cluster.work(between(random, ...requests), between(random, ...workMs));
  await hold(freezing, withSpawner ? 'freezesOfAll' : 'freezes', [pid, ...spawners], forMs);
}

/** Starts a host that freezes itself at a point; if it never reaches it, it is frozen from outside. */
async function freezeAtPoint(
  freezing: Freezing,
  place: number,
  forMs: number,
  random: Random,
): Promise<void> {
  const { cluster, held } = freezing;
  const point = pick(points, random);
  const nth = between(random, 1, NTH_MAX);
  await cluster.kill(place);
  cluster.launch(place, `${point}:stop:${nth}`);
  const { pid, ready } = cluster.hosts[place] ?? (await cluster.ready(place));
  held.add(pid);
  const isStopped = (): boolean => readState(pid) === 'T';
  const isThere = ready.then(() => true);
  await Promise.race([isThere, eventually('it has stopped itself', isStopped, STARTED_MS)]);
  const came = await eventually('it comes there', isStopped, POINT_MS).catch(() => false);
  await hold(freezing, came ? 'freezesAtPoints' : 'freezes', [pid], forMs);
}

async function hold(
  { cluster, held }: Freezing,
  kind: string,
  pids: readonly number[],
  forMs: number,
): Promise<void> {
  const tell = (signal: NodeJS.Signals): void => pids.forEach((pid) => process.kill(pid, signal));
  await cluster.disturb(kind, async () => {
    for (const pid of pids) held.add(pid);
    tell('SIGSTOP');
    await sleep(forMs);
    tell('SIGCONT');
    for (const pid of pids) held.delete(pid);
  });
}

/** The log lines of the hosts about it. */
function countSaid({ servers }: Cluster): Figures {
  const records = servers.flatMap((server) => server.records);
  const count = (words: string): number =>
    records.filter(({ message }) => message.includes(words)).length;
  return { fenced: count('after its claim was lost'), presumedDead: count('was presumed dead') };
}
