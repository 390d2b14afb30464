/**
 * A host is frozen for a half to five times as long as the others wait for it, at random moments and at
 * named points, while they take over its work; then it goes on: nothing that it still does may count.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { probes } from '../../src/base/probe.ts';
import { between, pick, type Random } from '../crash/support/random.ts';
import { findHelper } from '../crash/support/server.ts';
import { readState } from '../support/hosts.ts';
import { eventually } from '../support/instance.ts';
import { campaign, type Trial } from './support/campaign.ts';
import type { Figures } from './support/report.ts';
import { openScene, type Scene } from './support/scene.ts';

const HOSTS = 3;
const FREEZES = 3;
const leaseMs = 1500;
const leases = [0.5, 5] as const;
const requests = [1, 6] as const;
const workMs = [0, 400] as const;
const NTH_MAX = 8;
/** A point that is not reached in this time is not waited for. */
const POINT_MS = 3000;
const STARTED_MS = 60_000;
const WAKE_MS = 200;

/** Between what was read or claimed and what is done with it. */
const points = probes.filter((name) =>
  /^(claim|spawn|run|settle|advance|fire|heartbeat|reap)\./.test(name),
);

campaign(
  'hosts that are frozen and go on: nothing that they still do counts',
  { trials: 1, timeoutMs: 600_000 },
  tryFreezes,
);

async function tryFreezes({ seed, random, isShort }: Trial): Promise<Figures> {
  const service = { reap_after: `${leaseMs}ms` };
  const scene = await openScene({ database: 'postgres', hosts: HOSTS, seed, service });
  let whole = 0;
  for (let done = 0; done < (isShort ? 1 : FREEZES); done += 1) {
    const kind = random();
    const place = between(random, 0, HOSTS - 1);
    const forMs = leaseMs * (leases[0] + random() ** 2 * (leases[1] - leases[0]));
    if (kind < 0.5) await freeze(scene, place, forMs, random);
    else if (kind < 0.85) await freezeAtPoint(scene, place, forMs, random);
    else {
      whole += 1;
      await freezeWhole(scene, place, forMs, random);
    }
  }
  // Where the spawner is frozen too, nobody can end what it had started.
  const waking = setInterval(() => wakeAll(scene), WAKE_MS);
  try {
    const figures = await scene.end({ mayOverlap: whole > 0 });
    return { ...figures, ...countSaid(scene) };
  } finally {
    clearInterval(waking);
  }
}

/** One that comes to its point only now would stop itself, and nobody would let it go on. */
function wakeAll({ servers }: Scene): void {
  for (const server of servers) if (server.isAlive) server.signal('SIGCONT');
}

async function freeze(scene: Scene, place: number, forMs: number, random: Random): Promise<void> {
  const server = await scene.ready(place);
  await scene.work(between(random, ...requests), between(random, ...workMs));
  await hold(scene, 'freezes', [server.pid], forMs);
}

async function freezeWhole(
  scene: Scene,
  place: number,
  forMs: number,
  random: Random,
): Promise<void> {
  const { pid } = await scene.ready(place);
  const helper = await eventually('there is a helper', () => findHelper(pid));
  await scene.work(between(random, ...requests), between(random, ...workMs));
  await hold(scene, 'freezesOfAll', [pid, helper], forMs);
}

/** A new one in the place, which stops itself; if it never comes there, it is stopped. */
async function freezeAtPoint(
  scene: Scene,
  place: number,
  forMs: number,
  random: Random,
): Promise<void> {
  const point = pick(points, random);
  const nth = between(random, 1, NTH_MAX);
  await scene.kill(place);
  scene.launch(place, `${point}:stop:${nth}`);
  const { pid, ready } = scene.hosts[place] ?? (await scene.ready(place));
  const isStopped = (): boolean => readState(pid) === 'T';
  const isThere = ready.then(() => true);
  await Promise.race([isThere, eventually('it has stopped itself', isStopped, STARTED_MS)]);
  const came = await eventually('it comes there', isStopped, POINT_MS).catch(() => false);
  await hold(scene, came ? 'freezesAtPoints' : 'freezes', [pid], forMs);
}

async function hold(scene: Scene, kind: string, pids: readonly number[], forMs: number) {
  const tell = (signal: NodeJS.Signals): void => pids.forEach((pid) => process.kill(pid, signal));
  await scene.disturb(kind, async () => {
    tell('SIGSTOP');
    await sleep(forMs);
    tell('SIGCONT');
  });
}

/** What the hosts themselves noticed of it. */
function countSaid({ servers }: Scene): Figures {
  const records = servers.flatMap((server) => server.records);
  const count = (words: string): number =>
    records.filter(({ message }) => message.includes(words)).length;
  return { fenced: count('after its claim was lost'), presumedDead: count('was presumed dead') };
}
