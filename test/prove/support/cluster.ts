/** Hosts under a mixed load; the caller disturbs them and records when. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JsonObject } from '../../../src/base/json.ts';
import type { Disturbance, Evidence } from '../../support/crash/evidence.ts';
import { startLoad, type LoadPace, type MakeJobOptions } from '../../support/crash/load.ts';
import { makeMixedJobOptions, mixed } from '../../support/crash/mixed-work.ts';
import { makeRandom } from '../../support/crash/random.ts';
import type { Server } from '../../support/crash/server.ts';
import {
  makeCrashTest,
  type Circumstances,
  type EnvironmentOf,
  type CrashTest,
} from '../../support/crash/crash-test.ts';
import { eventually, type Database } from '../../support/instance.ts';
import { makeJournal } from './journal.ts';
import { makePlaces, type Places } from './places.ts';
import type { Figures } from './report.ts';
import { watchTime } from './starved.ts';

const evidenceDirectory = resolve(import.meta.dirname, '../../../build/prove');
/** The load has its own random numbers, so that its speed doesn't change the disturbances. */
const LOAD_SEED = 1_000_000_007;
const FAULTS_SHOWN = 20;
const PATIENCE_MS = 60_000;
/** The lease of a host: long enough that a busy machine doesn't make a host look dead. */
const leaseMs = 3000;

export interface ClusterOptions {
  readonly database: Database;
  readonly hosts: number;
  readonly seed: number;
  readonly service?: JsonObject;
  /** The configuration of each host, if they differ. */
  readonly configOf?: (crashTest: CrashTest, place: number) => Promise<string>;
  readonly environmentOf?: EnvironmentOf;
  /** The directory of another version of the program. */
  readonly program?: string;
  /** Changes of the ledger before its first use and after its last one. */
  readonly before?: (crashTest: CrashTest) => Promise<void>;
  readonly after?: (crashTest: CrashTest) => Promise<void>;
  /** The load, and its rate. */
  readonly makeJobOptions?: MakeJobOptions;
  readonly load?: LoadPace;
}

export interface Cluster extends Omit<Places, 'settle'> {
  readonly crashTest: CrashTest;
  /** Waits until the hosts have accepted this many more requests, and then for this long. */
  work(requests: number, ms: number): Promise<void>;
  /** Records a disturbance from its beginning to its end. */
  disturb<T>(kind: string, work: () => Promise<T>, aftermathMs?: number): Promise<T>;
  /** Like `disturb`, for a fault that stops all hosts; the time to recover is measured. */
  outage<T>(kind: string, work: () => Promise<T>): Promise<T>;
  /** Waits until all work is done, and throws when a promise was broken. */
  end(known?: Omit<Circumstances, 'disturbances'>): Promise<Figures>;
}

export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { database, hosts, seed, service, configOf, environmentOf, program, before, after } =
    options;
  const usual = {
    max_workers: 3,
    ...(database === 'postgres' ? { reap_after: `${leaseMs}ms` } : {}),
  };
  const crashTest = await makeCrashTest(database, { ...usual, ...service }, mixed, environmentOf);
  const configs: string[] = [];
  for (let place = 0; place < hosts; place += 1)
    configs.push((await configOf?.(crashTest, place)) ?? crashTest.place.directory);
  await before?.(crashTest);
  const journal = makeJournal();
  const places = makePlaces(crashTest, configs, journal);
  for (const place of configs.keys()) places.launch(place, undefined, program);
  await Promise.race([...configs.keys()].map((place) => places.ready(place)));
  const watch = watchTime(places.servers, (fromMs) => journal.note('starved', fromMs, 'other'));
  const { makeJobOptions = makeMixedJobOptions(), load: pace } = options;
  const load = startLoad(crashTest.client, makeRandom(seed + LOAD_SEED), makeJobOptions, pace);
  return {
    ...places,
    crashTest,
    async work(requests, ms) {
      const { client } = crashTest;
      const target = client.acknowledged + requests;
      await eventually('requests were taken', () => client.acknowledged >= target, PATIENCE_MS);
      await sleep(ms);
    },
    disturb: (kind, work, aftermathMs) => journal.during(kind, work, 'other', aftermathMs),
    outage: (kind, work) => journal.during(kind, work, 'standstill'),
    async end(known = {}) {
      await places.settle();
      await load.stop();
      await stopSchedule(crashTest);
      await crashTest.drain();
      watch.stop();
      const disturbances = journal.entries;
      const { faults, counts, evidence } = await crashTest.verify({ disturbances, ...known }, () =>
        Promise.resolve(after?.(crashTest)),
      );
      if (faults.length > 0) {
        keepEvidence(seed, { faults, disturbances, evidence }, places.servers);
        throw new Error(faults.slice(0, FAULTS_SHOWN).join('\n'));
      }
      return { ...journal.tell(evidence), ...counts, readyMs: await timeStarts(places.servers) };
    },
  };
}

/** A job that starts after all work is done would be left over. */
export async function stopSchedule({ client }: CrashTest): Promise<void> {
  const isPaused = async (): Promise<boolean> => {
    const { status } = await client.post('/schedules/ticker/pause').catch(() => ({ status: 0 }));
    return status === 200;
  };
  await eventually('the schedule is paused', isPaused, PATIENCE_MS);
}

/** The durations of the starts so far. */
async function timeStarts(servers: readonly Server[]): Promise<number[]> {
  const starts = await Promise.allSettled(servers.map(({ ready }) => ready));
  return starts.flatMap((start) =>
    start.status === 'fulfilled' ? [Math.round(start.value.ms)] : [],
  );
}

interface Findings {
  readonly faults: readonly string[];
  readonly disturbances: readonly Disturbance[];
  readonly evidence: Evidence;
}

/** Saves the evidence for a later analysis, because the installation is removed after the trial. */
function keepEvidence(seed: number, found: Findings, servers: readonly Server[]): void {
  mkdirSync(evidenceDirectory, { recursive: true });
  const logs = servers.map(({ pid, records, complaints }) => ({ pid, complaints, records }));
  const text = JSON.stringify({ ...found, logs }, undefined, 1);
  writeFileSync(join(evidenceDirectory, `evidence-${seed}.json`), text);
}
