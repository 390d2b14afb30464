/** One trial of a campaign of kills: a few of every kind, at moments and points that the seed chooses. */
import { setTimeout as sleep } from 'node:timers/promises';
import { probes } from '../../../src/base/probe.ts';
import { between, pick, type Random } from '../../crash/support/random.ts';
import { findHelper } from '../../crash/support/server.ts';
import type { Database } from '../../support/instance.ts';
import type { Trial } from './campaign.ts';
import type { Figures } from './report.ts';
import { openScene, type Scene } from './scene.ts';

const FAULTS = 6;
const earlyMs = [20, 400] as const;
/** What is done between two faults: requests that were taken, and a while after. */
const requests = [1, 8] as const;
const workMs = [0, 400] as const;
const stoppingMs = [0, 200] as const;
/** How many of those that are started have a point at which they kill themselves, and how soon. */
const ARMED = 0.4;
const NTH_MAX = 12;

/** What this load never does. */
const unreached = /^(install|reload|rotate|tenant|prune)\./;
const points = probes.filter((probe) => !unreached.test(probe));

type Fault = (scene: Scene, place: number, random: Random) => Promise<void>;

/** Which kinds there are, and how often in a hundred. */
const kinds: readonly (readonly [share: number, fault: Fault, on?: Database])[] = [
  [45, killAtWork],
  [15, killOnItsWay],
  [10, killWhileStopping],
  [20, killSpawner],
  [20, cutConnections, 'postgres'],
];

export async function tryKills(
  { seed, random }: Trial,
  database: Database,
  hosts: number,
): Promise<Figures> {
  const scene = await openScene({ database, hosts, seed });
  const possible = kinds.filter(([, , on = database]) => on === database);
  for (let done = 0; done < FAULTS; done += 1) {
    const place = between(random, 0, hosts - 1);
    await pickKind(possible, random)(scene, place, random);
  }
  return scene.end();
}

function pickKind(possible: typeof kinds, random: Random): Fault {
  let left = random() * possible.reduce((sum, [share]) => sum + share, 0);
  return possible.find(([share]) => (left -= share) < 0)?.[1] ?? killAtWork;
}

function work(scene: Scene, random: Random): Promise<void> {
  return scene.work(between(random, ...requests), between(random, ...workMs));
}

async function killAtWork(scene: Scene, place: number, random: Random): Promise<void> {
  await work(scene, random);
  await scene.ready(place);
  await scene.kill(place);
  launch(scene, place, random);
}

async function killOnItsWay(scene: Scene, place: number, random: Random): Promise<void> {
  const ms = between(random, ...earlyMs);
  await scene.kill(place);
  launch(scene, place, random);
  await sleep(ms);
  await scene.kill(place);
  launch(scene, place, random);
}

async function killWhileStopping(scene: Scene, place: number, random: Random): Promise<void> {
  const ms = between(random, ...stoppingMs);
  const server = await scene.ready(place);
  await scene.disturb('stops', async () => {
    server.signal('SIGTERM');
    await sleep(ms);
  });
  await scene.kill(place);
  launch(scene, place, random);
}

async function killSpawner(scene: Scene, place: number, random: Random): Promise<void> {
  await work(scene, random);
  await scene.ready(place);
  const helper = await findHelper(scene.hosts[place]?.pid ?? 0);
  if (helper === undefined) return;
  await scene.disturb('spawnerKills', async () => void process.kill(helper, 'SIGKILL'));
}

/** Some of the database's connections end, whoever they belong to and whatever they do. */
async function cutConnections(scene: Scene, _: number, random: Random): Promise<void> {
  await work(scene, random);
  const chosen = between(random, 0, 2);
  const terminate = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and (pid % 3) = ?`;
  await scene.disturb('connectionCuts', () => scene.stage.place.sql(terminate, chosen));
}

/** Starts the next one; some end themselves at a point that they reach. */
function launch(scene: Scene, place: number, random: Random): void {
  const isArmed = random() < ARMED;
  const point = pick(points, random);
  const nth = between(random, 1, NTH_MAX);
  scene.launch(place, isArmed ? `${point}:kill:${nth}` : undefined);
}
