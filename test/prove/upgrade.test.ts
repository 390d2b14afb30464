/**
 * A newer version of the program replaces an older one under load. On PostgreSQL, host after host:
 * the older ones stop by themselves when the schema is newer than theirs. On SQLite, one dies or
 * stops, and the other continues with its file. A program older than the ledger is refused.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect } from 'vitest';
import { settlesWithin } from '../../src/base/timer.ts';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import { between, pick, type Random } from '../support/crash/random.ts';
import type { Server } from '../support/crash/server.ts';
import type { CrashTest } from '../support/crash/crash-test.ts';
import type { Database } from '../support/instance.ts';
import { TEMPLATE } from '../support/postgres-template.ts';
import { campaign, isShort, type Trial } from './support/campaign.ts';
import { findPrograms, makeUpPrograms, type Programs } from './support/programs.ts';
import { openCluster, type Cluster } from './support/cluster.ts';

const HOSTS = isShort ? 1 : 3;
const requests = [1, 6] as const;
const workMs = [0, 300] as const;
/** The time until a migrating server is killed, and the rate of such kills. */
const earlyMs = [20, 700] as const;
const EARLY = isShort ? 0 : 0.4;
const KILLED = isShort ? 0 : 0.4;
const REFUSED = isShort ? 1 : 0.5;
const EXIT_CONFIG = 78;
const PATIENCE_MS = 60_000;
/** A version that doesn't know newer ones continues as if nothing had happened. */
const unawareMs = 2000;

/** The ways in which an older host ends; most end by themselves. */
const ways = ['drain', 'drain', 'kill', 'stop'] as const;

const pairs: Programs[] = [];

beforeAll(async () => {
  pairs.push(await makeUpPrograms(), ...(isShort ? [] : await findPrograms()));
});

campaign(
  'an upgrade under load: nothing is lost, nothing done twice',
  { trials: 1, timeoutMs: 600_000 },
  async (trial) => {
    const isRolling = trial.index % 2 === 0;
    const programs = pick(pairs, trial.random);
    const upgrade = await begin(trial, programs, isRolling ? 'postgres' : 'sqlite');
    await (isRolling ? rollOver(upgrade) : replace(upgrade));
    return { ...(await upgrade.cluster.end()), ...upgrade.tally };
  },
);

interface Upgrade {
  readonly cluster: Cluster;
  readonly programs: Programs;
  readonly random: Random;
  readonly tally: Record<'drains' | 'refusals', number>;
}

/** The older program runs on a ledger that it has created itself. */
async function begin(
  { seed, random }: Trial,
  programs: Programs,
  database: Database,
): Promise<Upgrade> {
  const { older, commit } = programs;
  const isMadeUp = commit === undefined;
  const cluster = await openCluster({
    database,
    hosts: database === 'postgres' ? HOSTS : 1,
    seed,
    program: older,
    ...(isMadeUp ? { after: forgetNewer } : { before: dropLedger }),
  });
  const upgrade = { cluster, programs, random, tally: { drains: 0, refusals: 0 } };
  await work(upgrade);
  return upgrade;
}

/** Replaces host after host; the first new one makes the older ones stop. */
async function rollOver(upgrade: Upgrade): Promise<void> {
  const { cluster, programs, random } = upgrade;
  if (random() < KILLED) await restart(cluster, between(random, 0, HOSTS - 1));
  const first = between(random, 0, HOSTS - 1);
  const older = [...cluster.hosts];
  // The newer host joins all the others, or replaces one that ended.
  if (!isShort && random() < 0.5) await end(upgrade, first, pick(['kill', 'stop'], random));
  const left = older.filter(({ isAlive }) => isAlive);
  const goings = left.map((host) => cluster.disturb('goings', () => host.exited));
  await bringNewer(upgrade, first);
  for (const [place, host] of older.entries()) {
    if (place !== first) await end(upgrade, place, pick(ways, random));
    else if (left.includes(host)) await letGo(upgrade, host);
    if (random() < REFUSED) await expectOlderRefused(upgrade);
    if (place === first) continue;
    cluster.launch(place, undefined, programs.newer);
    await cluster.ready(place);
    await work(upgrade);
    if (random() < KILLED) await restart(cluster, pick([place, first], random));
  }
  await Promise.all(goings);
}

/** The host that has the file dies or stops, with queued and running work. */
async function replace(upgrade: Upgrade): Promise<void> {
  const { cluster, random } = upgrade;
  await end(upgrade, 0, pick(['kill', 'kill', 'stop'], random));
  await bringNewer(upgrade, 0);
  await work(upgrade);
  await cluster.kill(0);
  await expectOlderRefused(upgrade);
  cluster.launch(0);
  await cluster.ready(0);
  await work(upgrade);
}

/** The databases of tests are copies of a ledger of the current program. */
async function dropLedger({ place }: CrashTest): Promise<void> {
  if (place.config.state.kind === 'postgres')
    await place.sql(`drop schema "${TEMPLATE.schema}" cascade`);
}

/** Removes the number of the synthetic migration; its additions don't affect the checks. */
async function forgetNewer({ place }: CrashTest): Promise<void> {
  await place.sql('delete from schema_migrations where version > ?', schemaVersion);
  if (place.config.state.kind === 'sqlite')
    await place.sql(`pragma user_version = ${schemaVersion}`);
}

function work({ cluster, random }: Upgrade): Promise<void> {
  return cluster.work(between(random, ...requests), between(random, ...workMs));
}

async function restart(cluster: Cluster, place: number): Promise<void> {
  await cluster.kill(place);
  cluster.launch(place);
  await cluster.ready(place);
}

/** Some hosts are killed during their migration, or shortly before or after it. */
async function bringNewer({ cluster, programs, random }: Upgrade, place: number): Promise<void> {
  const isCut = random() < EARLY;
  const ms = between(random, ...earlyMs);
  cluster.launch(place, undefined, programs.newer);
  if (isCut) {
    await sleep(ms);
    await cluster.kill(place);
    cluster.launch(place);
  }
  await cluster.ready(place);
}

type Way = (typeof ways)[number];

async function end(upgrade: Upgrade, place: number, way: Way): Promise<void> {
  const { cluster } = upgrade;
  const host = cluster.hosts[place];
  if (host === undefined) throw new Error(`there is nobody in place ${place}`);
  if (way === 'kill') await cluster.kill(place);
  else if (way === 'drain') await letGo(upgrade, host);
  else await cluster.disturb('stops', () => host.stop());
}

/** An older host stops by itself when it learns of the newer schema. */
async function letGo({ cluster, programs, tally }: Upgrade, host: Server): Promise<void> {
  const isAware = programs.commit === undefined;
  const gone = host.exited.then(() => undefined);
  if (await settlesWithin(gone, isAware ? PATIENCE_MS : unawareMs)) {
    await expectRefusal(host);
    tally.drains += 1;
    return;
  }
  if (isAware) throw new Error('an older host goes on with a newer ledger');
  await cluster.disturb('stops', () => host.stop());
}

/** An older program must refuse to start, and change nothing. */
async function expectOlderRefused({ cluster, programs, tally }: Upgrade): Promise<void> {
  await expectRefusal(cluster.crashTest.launch(undefined, undefined, programs.older));
  tally.refusals += 1;
}

async function expectRefusal(server: Server): Promise<void> {
  const exit = await server.exited;
  expect({ ...exit, said: server.complaints }).toEqual({
    code: EXIT_CONFIG,
    signal: null,
    said: expect.stringContaining('LEDGER_NEWER'),
  });
}
