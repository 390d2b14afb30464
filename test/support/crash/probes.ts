/** The service is killed at each of its fault points, and the next one finishes its work. */
import { describe, expect, test } from 'vitest';
import { probes, type Probe } from '../../../src/base/probe.ts';
import { eventually, type Database } from '../instance.ts';
import type { Counts } from './checker.ts';
import type { Server } from './server.ts';
import type { Operation } from './client.ts';
import { makeCrashTest, type CrashTest } from './crash-test.ts';

/** How a fault point is reached, and the expected counts after a crash there. */
interface Scenario {
  readonly drive: (crashTest: CrashTest, probe: string) => Promise<Server>;
  /** Number of the pass at which the service is killed. */
  readonly nth?: number;
  readonly expect?: (counts: Counts) => void;
}

const JOBS = 6;
const REQUESTS_MAX = 20;

const crashedSome = ({ crashed }: Counts): void => expect(crashed).toBeGreaterThan(0);
const crashedNone = ({ crashed }: Counts): void => expect(crashed).toBe(0);

/** Fault points whose tests are in other files. */
const testedElsewhere = [
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
type TestedProbe = Exclude<Probe, (typeof testedElsewhere)[number]>;
const tested = probes.filter(
  (probe): probe is TestedProbe => !testedElsewhere.some((other) => other === probe),
);

const scenarios: Readonly<Record<TestedProbe, Scenario>> = {
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
    expect(Object.keys(scenarios)).toEqual(tested);
  });

  describe(`a server on ${database} that is killed at`, () => {
    test.each(tested)('%s loses nothing and does nothing twice', async (probe) => {
      const { drive, nth = 1, expect: expectCounts } = scenarios[probe];
      const crashTest = await makeCrashTest(database, { shutdown_timeout: '50ms', max_workers: 3 });
      const victim = await drive(crashTest, `${probe}:kill:${nth}`);
      expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
      await crashTest.start();
      await crashTest.drain();
      const { faults, counts } = await crashTest.verify();
      expect(faults).toEqual([]);
      expect(counts.acknowledged).toBeGreaterThan(0);
      expectCounts?.(counts);
    });
  });
}

/** Kills while there is work for all slots from the first claim on. */
async function whileWorking(crashTest: CrashTest, probe: string): Promise<Server> {
  await crashTest.withLedger((ledger) => ledger.meta.write('paused', '1'));
  const server = await crashTest.start(probe);
  for (let job = 0; job < JOBS; job += 1) await crashTest.client.enqueue();
  await crashTest.client.post('/system/resume').catch(() => 'it may die before it answers');
  return server;
}

async function whileAsking(crashTest: CrashTest, probe: string): Promise<Server> {
  const server = await crashTest.start(probe);
  for (let count = 0; count < REQUESTS_MAX; count += 1) {
    const { outcome } = await crashTest.client.enqueue({ sleep_ms: 20 });
    if (outcome !== 'acknowledged') break;
  }
  return server;
}

/** Kills while the jobs of an earlier service are recovered. */
async function whileRecovering(crashTest: CrashTest, probe: string): Promise<Server> {
  const first = await crashTest.start();
  for (let job = 0; job < JOBS; job += 1)
    await crashTest.recorded(await crashTest.client.enqueue(job < 2 ? { hang_before: 2 } : {}), {});
  await first.kill();
  return crashTest.launch(probe);
}

async function whileReloading(crashTest: CrashTest, probe: string): Promise<Server> {
  const server = await crashTest.start(probe);
  // This job is still running when the service reloads, however long that takes.
  const running = await crashTest.client.enqueue({ hang_before: 2 });
  for (let job = 1; job < JOBS; job += 1) await crashTest.client.enqueue({ sleep_ms: 300 });
  await crashTest.recorded(running, { attempt: 1, phase: 'start' });
  server.signal('SIGHUP');
  return server;
}

async function whileStopping(crashTest: CrashTest, probe: string): Promise<Server> {
  const server = await crashTest.start(probe);
  const operations: Operation[] = [];
  for (let job = 0; job < JOBS; job += 1)
    operations.push(await crashTest.client.enqueue(job < 2 ? { hang_before: 2 } : {}));
  // On a busy machine a claimed job may find no slot in time. Its release is the fault point, too.
  await eventually('all jobs have started, or the service is dead', async () => {
    const started = new Set((await crashTest.record()).map((line) => line.job_id));
    return !server.isAlive || operations.every(({ jobId }) => started.has(jobId ?? ''));
  });
  server.signal('SIGTERM');
  return server;
}
