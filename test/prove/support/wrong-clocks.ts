/**
 * Servers on machines whose time of day is wrong and is changed repeatedly: by hours, forward and back, or
 * fast and slow. On PostgreSQL each of two hosts has its own clock; on SQLite the ledger uses that clock.
 * No attempt is released, timed out or repeated because of a clock.
 */
import { writeFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { between, pick, type Random } from '../../support/crash/random.ts';
import type { Database } from '../../support/instance.ts';
import { preload, preloadLack } from '../native/preload.ts';
import type { Trial } from './campaign.ts';
import type { Figures } from './report.ts';
import { openCluster, type Cluster } from './cluster.ts';

const JUMPS = 6;
const JUMPS_SHORT = 2;
const requests = [1, 6] as const;
const workMs = [0, 400] as const;
const HOUR_S = 3600;
const aheadS = [-5 * HOUR_S, 5 * HOUR_S] as const;
/** The gain of a clock in a thousand seconds. */
const speeds = [0, 0, 100, 1000, -100, -900] as const;
const NS_PER_MS = 1_000_000n;
const MS_PER_S = 1000;
/** Longer than other jobs of the load, so that a plugin runs when the clock is set. */
const LONG_MS = 900;

export async function tryWrongClocks(trial: Trial, database: Database): Promise<Figures> {
  if (preloadLack !== undefined) {
    console.warn(`wrong clocks were left out: ${preloadLack}`);
    return { leftOut: 1 };
  }
  const { random, seed, isShort } = trial;
  const clocks = new Map<string, Clock>();
  const hosts = database === 'postgres' ? 2 : 1;
  const cluster = await openCluster({
    database,
    hosts,
    seed,
    async configOf({ place: { directory } }, host) {
      const config = join(directory, `host-${host}.yaml`);
      await copyFile(join(directory, 'config.yaml'), config);
      const clock = makeClock(join(directory, `clock-${host}`));
      clock.set(between(random, ...aheadS), pick(speeds, random));
      clocks.set(config, clock);
      return config;
    },
    environmentOf: (config = '') => clocks.get(config)?.environment ?? {},
  });
  const jumps = isShort ? JUMPS_SHORT : JUMPS;
  for (let done = 0; done < jumps; done += 1) await jump(cluster, [...clocks.values()], random);
  // A job that is due at a time that the clock once showed is due when it shows that time again.
  if (database === 'sqlite') for (const clock of clocks.values()) clock.set(2 * aheadS[1], 0);
  const { starved = 0, ...figures } = await cluster.end({ clockWasSet: database === 'sqlite' });
  return { ...figures, starved, clocksSet: jumps * hosts };
}

async function jump(cluster: Cluster, clocks: readonly Clock[], random: Random): Promise<void> {
  await cluster.work(between(random, ...requests), between(random, ...workMs));
  const long = cluster.crashTest.client.enqueue({ sleep_ms: LONG_MS });
  await cluster.work(1, between(random, ...workMs));
  for (const clock of clocks) clock.set(between(random, ...aheadS), pick(speeds, random));
  await long;
}

interface Clock {
  /** The environment of a program with such a clock. */
  readonly environment: Readonly<Record<string, string>>;
  set(aheadS: number, gainsPerMille: number): void;
}

function makeClock(file: string): Clock {
  writeFileSync(file, new BigInt64Array(3));
  return {
    environment: { ...preload('clock'), CLOCK_FILE: file },
    set(seconds, gainsPerMille) {
      const since = BigInt(Date.now());
      const aheadMs = BigInt(seconds * MS_PER_S);
      const error = [aheadMs * NS_PER_MS, since * NS_PER_MS, BigInt(gainsPerMille)];
      // In place: programs have mapped the file.
      writeFileSync(file, new BigInt64Array(error), { flag: 'r+' });
    },
  };
}
