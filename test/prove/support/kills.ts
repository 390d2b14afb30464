/**
 * A trial of a campaign of kills: a few of every kind, at moments and points that the seed chooses.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { probes } from '../../../src/base/probe.ts';
import { makeMixedJobOptions } from '../../support/crash/mixed-work.ts';
import { between, pick, type Random } from '../../support/crash/random.ts';
import { findSpawner } from '../../support/crash/server.ts';
import type { Database } from '../../support/instance.ts';
import type { Trial } from './campaign.ts';
import type { Figures } from './report.ts';
import { openCluster, type Cluster, type ClusterOptions } from './cluster.ts';

const short = { faults: 6, requestsMax: { sqlite: 8, postgres: 8 } };
/** About a hundred jobs per kill: on PostgreSQL, two other hosts work while one is down. */
const long = { faults: 40, requestsMax: { sqlite: 40, postgres: 28 } };
/** The long form has a backlog of hundreds, so a killed server has much work in progress. */
const heavy: Pick<ClusterOptions, 'service' | 'load'> = {
  service: { max_workers: 8 },
  load: { clients: 4, backlogMax: 300, pauseMs: [20, 100] },
};
const BREADTH = 10;
const earlyMs = [20, 400] as const;
/** The time between the requests and the fault. */
const workMs = [0, 400] as const;
const stoppingMs = [0, 200] as const;
/**
 * The share of started servers with a point at which they kill themselves, and its maximum
 * repetition.
 */
const ARMED = 0.4;
const NTH_MAX = 12;

/** The points that this load never reaches. */
const unreached = /^(install|reload|rotate|tenant|prune)\./;
const points = probes.filter((probe) => !unreached.test(probe));

interface Course {
  readonly cluster: Cluster;
  readonly random: Random;
  /** The maximum number of requests between two faults. */
  readonly requestsMax: number;
}

type Fault = (course: Course, place: number) => Promise<void>;

/** The kinds of faults, with their weights. */
const kinds: readonly (readonly [share: number, fault: Fault, on?: Database])[] = [
  [45, killAtWork],
  [15, killOnItsWay],
  [10, killWhileStopping],
  [20, killSpawner],
  [20, cutConnections, 'postgres'],
];

export async function tryKills(
  { seed, random, isShort }: Trial,
  database: Database,
  hosts: number,
): Promise<Figures> {
  const { faults, requestsMax } = isShort ? short : long;
  const denser = isShort ? {} : { ...heavy, makeJobOptions: makeMixedJobOptions('key', BREADTH) };
  const cluster = await openCluster({ database, hosts, seed, ...denser });
  const course = { cluster, random, requestsMax: requestsMax[database] };
  const possible = kinds.filter(([, , on = database]) => on === database);
  for (let done = 0; done < faults; done += 1) {
    const place = between(random, 0, hosts - 1);
    await pickKind(possible, random)(course, place);
  }
  return cluster.end();
}

function pickKind(possible: typeof kinds, random: Random): Fault {
  let left = random() * possible.reduce((sum, [share]) => sum + share, 0);
  return possible.find(([share]) => (left -= share) < 0)?.[1] ?? killAtWork;
}

function work({ cluster, random, requestsMax }: Course): Promise<void> {
  return cluster.work(between(random, 1, requestsMax), between(random, ...workMs));
}

async function killAtWork(course: Course, place: number): Promise<void> {
  const { cluster } = course;
  await work(course);
  await cluster.ready(place);
  await cluster.kill(place);
  launch(course, place);
}

async function killOnItsWay(course: Course, place: number): Promise<void> {
  const { cluster, random } = course;
  const ms = between(random, ...earlyMs);
  await cluster.kill(place);
  launch(course, place);
  await sleep(ms);
  await cluster.kill(place);
  launch(course, place);
}

async function killWhileStopping(course: Course, place: number): Promise<void> {
  const { cluster, random } = course;
  const ms = between(random, ...stoppingMs);
  const server = await cluster.ready(place);
  await cluster.disturb('stops', async () => {
    server.signal('SIGTERM');
    await sleep(ms);
  });
  await cluster.kill(place);
  launch(course, place);
}

async function killSpawner(course: Course, place: number): Promise<void> {
  const { cluster } = course;
  await work(course);
  await cluster.ready(place);
  const spawner = await findSpawner(cluster.hosts[place]?.pid ?? 0);
  if (spawner === undefined) return;
  await cluster.disturb('spawnerKills', async () => void process.kill(spawner, 'SIGKILL'));
}

/** Ends some of the database's connections, regardless of their owner and activity. */
async function cutConnections(course: Course): Promise<void> {
  const { cluster, random } = course;
  await work(course);
  const chosen = between(random, 0, 2);
  const terminate = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and (pid % 3) = ?`;
  await cluster.disturb('connectionCuts', () => cluster.crashTest.place.sql(terminate, chosen));
}

/** Starts the next server; some kill themselves at a point. */
function launch({ cluster, random }: Course, place: number): void {
  const isArmed = random() < ARMED;
  const point = pick(points, random);
  const nth = between(random, 1, NTH_MAX);
  cluster.launch(place, isArmed ? `${point}:kill:${nth}` : undefined);
}
