/** The server is killed at each of its own fault points, and what it left behind is finished. */
import { describe, expect, test } from 'vitest';
import { probes, type Probe } from '../../../src/base/probe.ts';
import type { Database } from '../instance.ts';
import type { Counts } from './checker.ts';
import type { Server } from './server.ts';
import { makeCrashTest, type CrashTest } from './crash-test.ts';

/** How the point is reached, and what the crash there must have led to. */
interface Scenario {
  readonly drive: (stage: CrashTest, probe: string) => Promise<Server>;
  /** At which time it is reached. */
  readonly nth?: number;
  readonly expect?: (counts: Counts) => void;
}

const JOBS = 6;
const ASKED_MAX = 20;
const timeout = 90_000;

const crashedSome = ({ crashed }: Counts): void => expect(crashed).toBeGreaterThan(0);
const crashedNone = ({ crashed }: Counts): void => expect(crashed).toBe(0);

/** Reached by what a stage does not do: their tests are in files of their own. */
const elsewhere = [
  'fire.before-commit',
  'fire.after-commit',
  'advance.before-commit',
  'advance.after-commit',
  'install.before-commit',
  'install.after-commit',
  'rotate.after-key',
  'rotate.after-step',
  'tenant.before-ledger',
  'tenant.after-ledger',
  'tenant.before-removal',
  'tenant.after-removal',
] as const;
type Here = Exclude<Probe, (typeof elsewhere)[number]>;
const here = probes.filter((probe): probe is Here => !elsewhere.some((one) => one === probe));

const scenarios: Readonly<Record<Here, Scenario>> = {
  'enqueue.before-commit': {
    drive: whileAsking,
    nth: 3,
    expect: ({ acknowledged, unknown, recovered }) =>
      expect({ acknowledged, unknown, recovered }).toEqual({
        acknowledged: 2,
        unknown: 1,
        recovered: 0,
      }),
  },
  'enqueue.after-commit': {
    drive: whileAsking,
    nth: 3,
    expect: ({ acknowledged, unknown, recovered }) =>
      expect({ acknowledged, unknown, recovered }).toEqual({
        acknowledged: 2,
        unknown: 1,
        recovered: 1,
      }),
  },
  'claim.before-commit': { drive: whileWorking, expect: crashedNone },
  'claim.after-commit': { drive: whileWorking, expect: crashedSome },
  'spawn.before': { drive: whileWorking, expect: crashedSome },
  'spawn.after': { drive: whileWorking, nth: 2, expect: crashedSome },
  'run.after-exit': { drive: whileWorking, nth: 2, expect: crashedSome },
  'settle.before-commit': { drive: whileWorking, nth: 2, expect: crashedSome },
  'settle.after-commit': { drive: whileWorking, nth: 2, expect: crashedSome },
  'heartbeat.after-commit': { drive: whileAsking, nth: 10 },
  'reap.before-commit': { drive: whileRecovering, expect: crashedSome },
  'reap.after-commit': { drive: whileRecovering, expect: crashedSome },
  'release.before-commit': { drive: whileStopping, expect: crashedSome },
  'release.after-commit': {
    drive: whileStopping,
    expect: ({ released }) => expect(released).toBeGreaterThan(0),
  },
  'prune.after-commit': { drive: whileRecovering, nth: 2, expect: crashedSome },
  'reload.before-swap': { drive: whileReloading, expect: crashedSome },
};

export function testProbes(database: Database): void {
  test('every fault point of the program has its test', () => {
    expect(Object.keys(scenarios)).toEqual(here);
  });

  describe(`a server on ${database} that is killed at`, () => {
    test.each(here)('%s loses nothing and does nothing twice', { timeout }, async (probe) => {
      const { drive, nth = 1, expect: expectCounts } = scenarios[probe];
      const stage = await makeCrashTest(database, { shutdown_timeout: '50ms', max_workers: 3 });
      const victim = await drive(stage, `${probe}:kill:${nth}`);
      expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
      await stage.start();
      await stage.drain();
      const { faults, counts } = await stage.judge();
      expect(faults).toEqual([]);
      expect(counts.acknowledged).toBeGreaterThan(0);
      expectCounts?.(counts);
    });
  });
}

/** There is work for all workers from the very first claim. */
async function whileWorking(stage: CrashTest, probe: string): Promise<Server> {
  await stage.withLedger((ledger) => ledger.meta.write('paused', '1'));
  const server = await stage.start(probe);
  for (let job = 0; job < JOBS; job += 1) await stage.client.enqueue();
  await stage.client.post('/system/resume').catch(() => 'it may die before it answers');
  return server;
}

async function whileAsking(stage: CrashTest, probe: string): Promise<Server> {
  const server = await stage.start(probe);
  for (let asked = 0; asked < ASKED_MAX; asked += 1) {
    const { outcome } = await stage.client.enqueue({ sleep_ms: 20 });
    if (outcome !== 'acknowledged') break;
  }
  return server;
}

/** An earlier server was killed while jobs ran. */
async function whileRecovering(stage: CrashTest, probe: string): Promise<Server> {
  const first = await stage.start();
  for (let job = 0; job < JOBS; job += 1)
    await stage.recorded(await stage.client.enqueue(job < 2 ? { hang_before: 2 } : {}), {});
  await first.kill();
  return stage.launch(probe);
}

async function whileReloading(stage: CrashTest, probe: string): Promise<Server> {
  const server = await stage.start(probe);
  for (let job = 0; job < JOBS; job += 1) await stage.client.enqueue({ sleep_ms: 300 });
  server.signal('SIGHUP');
  return server;
}

async function whileStopping(stage: CrashTest, probe: string): Promise<Server> {
  const server = await stage.start(probe);
  const operations = [];
  for (let job = 0; job < JOBS; job += 1)
    operations.push(await stage.client.enqueue(job < 2 ? { hang_before: 2 } : {}));
  for (const operation of operations) await stage.recorded(operation, {});
  server.signal('SIGTERM');
  return server;
}
