import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Log } from '../../src/base/log.ts';
import type { Generation } from '../../src/engine/generation.ts';
import { makeLiveness, SpawnLease } from '../../src/job/heartbeat.service.ts';
import type { HeartbeatResult } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import type { Host } from '../../src/plugin/process.ts';
import { makeContext } from '../support/context.ts';

const heartbeatIntervalMs = 100;
const reapAfterMs = 1000;
const others = { self: 'me', staleMs: reapAfterMs };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A process whose heartbeats are answered after a time that the test sets. */
function makeProcess() {
  const renewed: number[] = [];
  const judged: unknown[] = [];
  const answers = { afterMs: 0, known: true, schemaVersion };
  const woken: number[] = [];
  const ledger = {
    kind: 'postgres',
    processes: {
      heartbeat: async (): Promise<HeartbeatResult> => {
        const { afterMs, ...answer } = answers;
        await new Promise((resolve) => setTimeout(resolve, afterMs));
        return { ...answer, running: [] };
      },
      listOrphans: (asked: object) => Promise.resolve((judged.push(asked), [])),
      listLivePlugins: () => Promise.resolve([]),
    },
    jobs: {
      listExpiredClaims: () => Promise.resolve([]),
      listUnrunnable: () => Promise.resolve([]),
    },
  } as unknown as Ledger;
  const log: Log = {
    debug: () => {},
    info: () => {},
    warn: () => {},
    error: () => {},
    child: () => log,
  } as unknown as Log;
  const service = { heartbeatIntervalMs, reapAfterMs, maxWorkers: 1, runnerGraceMs: 1000 };
  const generation = {
    config: { service, file: '/etc/ductile/config.yaml', files: [] },
    catalog: { plugins: new Map(), unloaded: new Map() },
    rules: {},
  };
  const lease = new SpawnLease(ledger.kind);
  const host = { kind: 'native', renew: (ms: number) => void renewed.push(ms) } as Host;
  const context = makeContext({ ledger, log, generation: generation as unknown as Generation });
  const dispatcher = {
    stopAll: () => {},
    stopJob: () => {},
    hasClaim: () => true,
    close: () => {},
    retryNow: () => void woken.push(renewed.length),
  };
  const liveness = makeLiveness(context, { host, version: '1' }, lease, dispatcher, undefined);
  return { liveness, lease, renewed, judged, answers, woken };
}

describe('the permission of a process to run', () => {
  test('is renewed for the time that the others wait, less one heartbeat', async () => {
    const { liveness, renewed } = makeProcess();
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(0);
    await starting;
    expect(renewed).toEqual([reapAfterMs - heartbeatIntervalMs]);
    await liveness.heartbeat.stop();
  });

  test('counts from when the heartbeat was asked for, not from when it was answered', async () => {
    const { liveness, renewed, answers } = makeProcess();
    answers.afterMs = 300;
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(300);
    await starting;
    expect(renewed).toEqual([reapAfterMs - heartbeatIntervalMs - 300]);
    // By then somebody else may have it.
    answers.afterMs = 5000;
    await vi.advanceTimersByTimeAsync(heartbeatIntervalMs + 5000);
    expect(renewed).toHaveLength(1);
    answers.afterMs = 0;
    await vi.advanceTimersByTimeAsync(heartbeatIntervalMs + 1);
    expect(renewed).toHaveLength(2);
    await liveness.heartbeat.stop();
  });
});

describe('the claims of a process', () => {
  test('may be started for as long as it is believed to live', async () => {
    const { liveness, lease, answers, woken } = makeProcess();
    expect(lease.isValid).toBe(false);
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(0);
    await starting;
    expect(lease.isValid).toBe(true);
    expect(woken).toEqual([1]);
    answers.afterMs = 5000;
    await vi.advanceTimersByTimeAsync(reapAfterMs - heartbeatIntervalMs - 1);
    expect(lease.isValid).toBe(true);
    await vi.advanceTimersByTimeAsync(1);
    expect(lease.isValid).toBe(false);
    await vi.advanceTimersByTimeAsync(5000);
    expect(lease.isValid).toBe(false);
    expect(woken).toEqual([1]);
    const stopping = liveness.heartbeat.stop();
    await vi.advanceTimersByTimeAsync(5000);
    await stopping;
  });

  test('are checked at once when its heartbeat is back, and not with every heartbeat', async () => {
    const { liveness, lease, renewed, answers, woken } = makeProcess();
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(0);
    await starting;
    await vi.advanceTimersByTimeAsync(3 * heartbeatIntervalMs);
    expect(renewed.length).toBeGreaterThan(2);
    expect(woken).toEqual([1]);
    answers.afterMs = 5000;
    await vi.advanceTimersByTimeAsync(5000);
    answers.afterMs = 0;
    await vi.advanceTimersByTimeAsync(2 * heartbeatIntervalMs + 1);
    expect(lease.isValid).toBe(true);
    expect(woken).toHaveLength(2);
    await liveness.heartbeat.stop();
  });
});

describe('a process that was well for as long as it waits for others', () => {
  test('judges them, and not again right after a heartbeat that came late', async () => {
    const { liveness, judged, answers } = makeProcess();
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(0);
    await starting;
    await liveness.reaper.start();
    await vi.advanceTimersByTimeAsync(reapAfterMs - heartbeatIntervalMs);
    expect(judged).toEqual([]);
    await vi.advanceTimersByTimeAsync(2 * heartbeatIntervalMs);
    expect(judged).toContainEqual(others);
    // The database stood still for everybody: whoever is first must not take the others for dead.
    answers.afterMs = 5000;
    await vi.advanceTimersByTimeAsync(5000);
    answers.afterMs = 0;
    await vi.advanceTimersByTimeAsync(heartbeatIntervalMs + 1);
    judged.length = 0;
    await vi.advanceTimersByTimeAsync(reapAfterMs - 2 * heartbeatIntervalMs);
    expect(judged).toEqual([]);
    await vi.advanceTimersByTimeAsync(3 * heartbeatIntervalMs);
    expect(judged).toContainEqual(others);
    await liveness.reaper.stop();
    await liveness.heartbeat.stop();
  });
});

test('a process is outgrown by a newer schema than its own, and by no other', async () => {
  const { liveness, answers } = makeProcess();
  const told: number[] = [];
  void liveness.outgrown.then((version) => told.push(version));
  const starting = liveness.heartbeat.start();
  await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
  await starting;
  answers.schemaVersion = schemaVersion - 1;
  await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
  expect(told).toEqual([]);
  answers.schemaVersion = schemaVersion + 1;
  await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
  expect(told).toEqual([schemaVersion + 1]);
  await liveness.heartbeat.stop();
});
