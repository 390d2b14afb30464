import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { makeLogger } from '../../src/base/log.ts';
import type { LedgerContext } from '../../src/engine/context.ts';
import type { Generation } from '../../src/engine/generation.ts';
import { type Liveness, makeLiveness, SpawnLease } from '../../src/job/heartbeat.service.ts';
import type { Job } from '../../src/job/job.ts';
import type { HeartbeatResult, Orphan, ProcessBeat, RunningClaim } from '../../src/job/types.ts';
import type { Closing, ReapRequest } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import { noRunEvents } from '../../src/pipeline/run/changes.ts';
import type { Host } from '../../src/plugin/process.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';
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

interface GivenProcess {
  readonly kind?: Ledger['kind'];
  readonly tenant?: LedgerContext['tenant'];
}

/** The responses of a ledger to heartbeats. */
interface Responses {
  afterMs: number;
  known: boolean;
  schemaVersion: number | undefined;
  running: RunningClaim[];
  error: Error | undefined;
}

/** A process whose heartbeats take a time that the test sets. */
function makeProcess({ kind = 'postgres', tenant }: GivenProcess = {}) {
  const renewed: number[] = [];
  const orphanRequests: unknown[] = [];
  const answers: Responses = {
    afterMs: 0,
    known: true,
    schemaVersion,
    running: [],
    error: undefined,
  };
  const woken: number[] = [];
  const stops: string[] = [];
  const closed: Closing[] = [];
  const beats: ProcessBeat[] = [];
  const jobs = new Map<string, Job>();
  const orphans: Orphan[] = [];
  const lines: Record<string, unknown>[] = [];
  const ledger = {
    kind,
    processes: {
      heartbeat: async (beat: ProcessBeat): Promise<HeartbeatResult> => {
        const { afterMs, error, schemaVersion: version, ...answer } = answers;
        beats.push(beat);
        await new Promise((resolve) => setTimeout(resolve, afterMs));
        if (error !== undefined) throw error;
        return { ...answer, ...(version === undefined ? {} : { schemaVersion: version }) };
      },
      listOrphans: (request: object) => Promise.resolve((orphanRequests.push(request), orphans)),
      listLivePlugins: () => Promise.resolve([]),
      reap: ({ closings }: ReapRequest) =>
        Promise.resolve({
          verdicts: new Map(closings.map(({ job }) => [job.id, 'settled'])),
          enqueued: [],
          runEvents: noRunEvents,
        }),
    },
    jobs: {
      find: (id: string) =>
        id === 'unreadable' ? Promise.reject(new Error('away')) : Promise.resolve(jobs.get(id)),
      listExpiredClaims: () => Promise.resolve([]),
      listUnrunnable: () => Promise.resolve([]),
    },
  } as unknown as Ledger;
  const write = (line: string): unknown => lines.push(JSON.parse(line) as Record<string, unknown>);
  const log = makeLogger({ level: 'warn', format: 'json', destination: { write } });
  const service = { heartbeatIntervalMs, reapAfterMs, maxWorkers: 1, runnerGraceMs: 1000 };
  const generation = {
    config: { service, file: '/etc/ductile/config.yaml', files: [] },
    catalog: { plugins: new Map(), unloaded: new Map() },
    rules: {},
  };
  const lease = new SpawnLease(ledger.kind);
  const host = { kind: 'native', renew: (ms: number) => void renewed.push(ms) } as Host;
  const context = makeContext({
    ledger,
    log,
    tenant,
    generation: generation as unknown as Generation,
  });
  const dispatcher = {
    stopAll: (reason: string) => void stops.push(`all ${reason}`),
    stopJob: (id: string, reason: string) => void stops.push(`${id} ${reason}`),
    hasClaim: (id: string) => id === 'held',
    close: (closings: readonly Closing[]) => void closed.push(...closings),
    retryNow: () => void woken.push(renewed.length),
  };
  const liveness = makeLiveness(context, { host, version: '1' }, lease, dispatcher, undefined);
  const seen = { renewed, orphanRequests, woken, stops, closed, beats, lines };
  return { liveness, lease, answers, jobs, orphans, ...seen };
}

/** Starts the heartbeat and waits for its first response. */
async function startHeartbeat({ heartbeat }: Liveness): Promise<void> {
  const starting = heartbeat.start();
  await vi.advanceTimersByTimeAsync(0);
  await starting;
  await vi.advanceTimersByTimeAsync(0);
}

describe('the permission of a process to run', () => {
  test('is renewed for the reap threshold, less one heartbeat', async () => {
    const { liveness, renewed } = makeProcess();
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(0);
    await starting;
    expect(renewed).toEqual([reapAfterMs - heartbeatIntervalMs]);
    await liveness.heartbeat.stop();
  });

  test('counts from the request of the heartbeat, not from its response', async () => {
    const { liveness, renewed, answers } = makeProcess();
    answers.afterMs = 300;
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(300);
    await starting;
    expect(renewed).toEqual([reapAfterMs - heartbeatIntervalMs - 300]);
    // By then another process may have the claim.
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
  test('may start as long as other processes presume it alive', async () => {
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

describe('a process with unbroken heartbeats for the reap threshold', () => {
  test('reaps others, and not again right after a heartbeat that came late', async () => {
    const { liveness, orphanRequests, answers } = makeProcess();
    const starting = liveness.heartbeat.start();
    await vi.advanceTimersByTimeAsync(0);
    await starting;
    await liveness.reaper.start();
    await vi.advanceTimersByTimeAsync(reapAfterMs - heartbeatIntervalMs);
    expect(orphanRequests).toEqual([]);
    await vi.advanceTimersByTimeAsync(2 * heartbeatIntervalMs);
    expect(orphanRequests).toContainEqual(others);
    // After an outage for all processes, the first one must not presume the others dead.
    answers.afterMs = 5000;
    await vi.advanceTimersByTimeAsync(5000);
    answers.afterMs = 0;
    await vi.advanceTimersByTimeAsync(heartbeatIntervalMs + 1);
    orphanRequests.length = 0;
    await vi.advanceTimersByTimeAsync(reapAfterMs - 2 * heartbeatIntervalMs);
    expect(orphanRequests).toEqual([]);
    await vi.advanceTimersByTimeAsync(3 * heartbeatIntervalMs);
    expect(orphanRequests).toContainEqual(others);
    await liveness.reaper.stop();
    await liveness.heartbeat.stop();
  });
});

test('a process is outgrown by a newer schema than its own, and by no other', async () => {
  const { liveness, answers } = makeProcess();
  const versions: number[] = [];
  void liveness.outgrown.then((version) => versions.push(version));
  const starting = liveness.heartbeat.start();
  await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
  await starting;
  answers.schemaVersion = schemaVersion - 1;
  await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
  expect(versions).toEqual([]);
  answers.schemaVersion = schemaVersion + 1;
  await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
  expect(versions).toEqual([schemaVersion + 1]);
  await liveness.heartbeat.stop();
});

test('a process that was presumed dead stops all its attempts', async () => {
  const { liveness, answers, stops, lines } = makeProcess();
  await startHeartbeat(liveness);
  answers.known = false;
  await vi.advanceTimersByTimeAsync(heartbeatIntervalMs + 1);
  expect(stops).toEqual(['all shutdown']);
  expect(lines).toMatchObject([
    { message: 'this process was presumed dead; its claims were released' },
  ]);
  await liveness.heartbeat.stop();
});

describe('the claims that the ledger has for a process', () => {
  const claim = (jobId: string, cancelRequested = false): RunningClaim => ({
    jobId,
    claimToken: 'token',
    cancelRequested,
  });

  test('are stopped if their cancellation was requested', async () => {
    const { liveness, answers, stops, closed } = makeProcess();
    answers.running = [claim('held', true)];
    await startHeartbeat(liveness);
    expect(stops).toEqual(['held cancelled']);
    expect(closed).toEqual([]);
    await liveness.heartbeat.stop();
  });

  test('are released if the process does not hold them', async () => {
    const { liveness, answers, jobs, closed } = makeProcess();
    answers.running = ['held', 'lost', 'reclaimed', 'pruned'].map((id) => claim(id));
    for (const id of ['held', 'lost']) jobs.set(id, makeClaimedJob({ id }));
    jobs.set('reclaimed', makeClaimedJob({ id: 'reclaimed', claimToken: 'another' }));
    await startHeartbeat(liveness);
    expect(closed).toMatchObject([
      {
        job: { id: 'lost' },
        claimToken: 'token',
        report: { status: 'released', cause: 'unheld' },
        ending: { status: 'queued', delayMs: 0 },
      },
    ]);
    await liveness.heartbeat.stop();
  });

  test('stay until the next heartbeat if their jobs cannot be read', async () => {
    const { liveness, answers, closed, lines } = makeProcess();
    answers.running = [claim('unreadable')];
    await startHeartbeat(liveness);
    expect(closed).toEqual([]);
    expect(lines).toMatchObject([{ message: 'unheld claims were not released', error: 'away' }]);
    await liveness.heartbeat.stop();
  });
});

describe('a heartbeat that fails', () => {
  test('is reported until one succeeds, and ends the permission to reap', async () => {
    const { liveness, answers, lines } = makeProcess();
    await startHeartbeat(liveness);
    await vi.advanceTimersByTimeAsync(reapAfterMs);
    expect(liveness.mayReap()).toBe(true);
    answers.error = new Error('away');
    await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
    expect(liveness.heartbeat.trouble).toBe('away');
    expect(liveness.mayReap()).toBe(false);
    expect(liveness.isBeating()).toBe(true);
    expect(lines).toMatchObject([{ message: 'the heartbeat could not be recorded' }]);
    answers.error = undefined;
    await vi.advanceTimersByTimeAsync(heartbeatIntervalMs);
    expect(liveness.heartbeat.trouble).toBeUndefined();
    await liveness.heartbeat.stop();
  });

  test('is not the same as a heartbeat that never returns', async () => {
    const { liveness, answers } = makeProcess();
    await startHeartbeat(liveness);
    answers.afterMs = 100 * reapAfterMs;
    await vi.advanceTimersByTimeAsync(heartbeatIntervalMs + reapAfterMs);
    expect(liveness.isBeating()).toBe(false);
    const stopping = liveness.heartbeat.stop();
    await vi.advanceTimersByTimeAsync(100 * reapAfterMs);
    await stopping;
  });
});

describe('a process at its start', () => {
  test('recovers the work of the process before it on SQLite', async () => {
    const { liveness, orphanRequests, orphans, lines } = makeProcess({ kind: 'sqlite' });
    const job = makeClaimedJob({ cancelRequestedAt: '2030-01-01T00:00:00.000Z' });
    orphans.push({ processId: 'dead', jobs: [job], directives: [] });
    await liveness.recover();
    expect(orphanRequests).toEqual([{ self: 'me', staleMs: 0 }]);
    expect(lines).toMatchObject([
      { message: 'job given up' },
      { message: 'work of a crashed process recovered', jobs: 1 },
    ]);
  });

  test('recovers nothing on PostgreSQL, where other processes may be alive', async () => {
    const { liveness, orphanRequests } = makeProcess();
    await liveness.recover();
    expect(orphanRequests).toEqual([]);
  });

  test('may start plugins at once on SQLite, and renews no lease', async () => {
    const { liveness, lease, renewed } = makeProcess({ kind: 'sqlite' });
    expect(lease.isValid).toBe(true);
    await startHeartbeat(liveness);
    expect(renewed).toEqual([]);
    await liveness.heartbeat.stop();
  });
});

describe('the process of a tenant', () => {
  const makeTenant = (mayReap: boolean) =>
    ({ slug: 'acme', mayReap: () => mayReap }) as LedgerContext['tenant'];

  test('may reap as soon as the root may, after its first heartbeat', async () => {
    const { liveness } = makeProcess({ tenant: makeTenant(true) });
    expect(liveness.mayReap()).toBe(false);
    await startHeartbeat(liveness);
    expect(liveness.mayReap()).toBe(true);
    await liveness.heartbeat.stop();
  });

  test('waits for its own heartbeats while the root may not reap', async () => {
    const { liveness } = makeProcess({ tenant: makeTenant(false) });
    await startHeartbeat(liveness);
    expect(liveness.mayReap()).toBe(false);
    await vi.advanceTimersByTimeAsync(reapAfterMs);
    expect(liveness.mayReap()).toBe(true);
    await liveness.heartbeat.stop();
  });

  test('does not name the files of the operator', async () => {
    const root = makeProcess();
    const tenant = makeProcess({ tenant: makeTenant(false) });
    for (const { liveness } of [root, tenant]) {
      await startHeartbeat(liveness);
      await vi.advanceTimersByTimeAsync(heartbeatIntervalMs + 1);
      await liveness.heartbeat.stop();
    }
    expect(root.beats.at(-1)).toMatchObject({ configFile: '/etc/ductile/config.yaml' });
    expect(tenant.beats.at(-1)).not.toHaveProperty('configFile');
  });
});

test('a process that the ledger did not know yet says nothing about the schema', async () => {
  const { liveness, answers, stops } = makeProcess();
  Object.assign(answers, { known: false, schemaVersion: undefined });
  await startHeartbeat(liveness);
  expect(stops).toEqual([]);
  await liveness.heartbeat.stop();
});
