import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { makeLogger } from '../../src/base/log.ts';
import type { Directive } from '../../src/directive/directive.ts';
import type { CommitEvents } from '../../src/engine/commit-events.ts';
import type { Generation } from '../../src/engine/generation.ts';
import type { Job } from '../../src/job/job.ts';
import { makeReaper, type Reaper } from '../../src/job/reaper.service.ts';
import type { Orphan } from '../../src/job/types.ts';
import type { Closing, ReapRequest, Settlement } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { FollowRules } from '../../src/pipeline/follow-rules.ts';
import { noRunEvents } from '../../src/pipeline/run/changes.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';
import { makeContext } from '../support/context.ts';

const EVERY_MS = 100;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Two other processes are dead. `mayReap` can change between any two steps of the reaper. */
function makeDead(mayReap: () => boolean): { reaper: Reaper; reaped: string[] } {
  const reaped: string[] = [];
  const orphan = (processId: string): Orphan => ({ processId, jobs: [], directives: [] });
  const ledger = {
    processes: {
      listOrphans: () => Promise.resolve([orphan('one'), orphan('two')]),
      reap: ({ processId }: { readonly processId: string }) => {
        reaped.push(processId);
        return Promise.resolve({ verdicts: new Map() });
      },
      listLivePlugins: () => Promise.resolve([]),
    },
    jobs: {
      listExpiredClaims: () => Promise.resolve([]),
      listUnrunnable: () => Promise.resolve([]),
    },
  } as unknown as Ledger;
  const service = { reapAfterMs: 1000, runnerGraceMs: 1000, heartbeatIntervalMs: EVERY_MS };
  const catalog = { plugins: new Map(), unloaded: new Map() };
  const generation = { config: { service }, catalog } as unknown as Generation;
  const reaper = makeReaper(makeContext({ ledger, generation }), mayReap, undefined);
  return { reaper, reaped };
}

test.for([
  { times: Infinity, reaped: ['one', 'two'] },
  // The list came after an outage of the database, during which no process recorded a heartbeat.
  { times: 1, reaped: [] },
  { times: 2, reaped: ['one'] },
  { times: 0, reaped: [] },
])('a process that may reap $times times reaps $reaped', async ({ times, reaped }) => {
  let checks = 0;
  const dead = makeDead(() => (checks += 1) <= times);
  await dead.reaper.start();
  // The first round comes at once.
  await vi.advanceTimersByTimeAsync(EVERY_MS - 1);
  await dead.reaper.stop();
  expect(dead.reaped).toEqual(reaped);
});

test('a process that is proven dead is reaped without that permission', async () => {
  const { reaper, reaped } = makeDead(() => false);
  await reaper.recover();
  expect(reaped).toEqual(['one', 'two']);
});

const rules: FollowRules = { targetsOf: () => [], hopsMax: 9, dedupeTtlMs: 1000 };

/** A ledger with work for the reaper. Jobs in `broken` can't be closed; `away` is an outage. */
class World {
  orphans: Orphan[] = [];
  expired: Job[] = [];
  unrunnable: Job[] = [];
  queued: Job[] = [];
  livePlugins: string[] = [];
  readonly broken = new Set<string>();
  away = false;
  readonly settled: Closing[] = [];
  readonly reaps: ReapRequest[] = [];
  readonly published: CommitEvents[] = [];
  readonly lines: Record<string, unknown>[] = [];
  readonly plugins = new Map<string, Plugin>();
  mourned = 0;
  readonly reaper: Reaper;

  constructor(kind: Ledger['kind'] = 'sqlite') {
    const settle = (closings: readonly Closing[]): Promise<Settlement> => this.#settle(closings);
    const ledger = {
      kind,
      processes: {
        listOrphans: () => Promise.resolve(this.orphans),
        reap: (request: ReapRequest) => {
          this.reaps.push(request);
          return settle(request.closings);
        },
        listLivePlugins: () => Promise.resolve(this.livePlugins),
      },
      jobs: {
        settle,
        listExpiredClaims: () => Promise.resolve(this.expired),
        listUnrunnable: () => Promise.resolve(this.unrunnable),
        listQueued: (plugin: string) =>
          Promise.resolve(this.queued.filter((job) => job.plugin === plugin)),
      },
    } as unknown as Ledger;
    const service = {
      reapAfterMs: 1000,
      runnerGraceMs: 5000,
      heartbeatIntervalMs: EVERY_MS,
      maxCrashes: 3,
    };
    const catalog = { plugins: this.plugins, unloaded: new Map() };
    const generation = { config: { service }, catalog, rules } as unknown as Generation;
    const write = (line: string): unknown =>
      this.lines.push(JSON.parse(line) as Record<string, unknown>);
    const log = makeLogger({ level: 'warn', format: 'json', destination: { write } });
    const context = makeContext({ ledger, generation, log });
    context.commits.subscribe((events) => this.published.push(events));
    const makeAllDue = (): Promise<void> => Promise.resolve(void (this.mourned += 1));
    this.reaper = makeReaper(context, () => true, { makeAllDue });
  }

  #settle(closings: readonly Closing[]): Promise<Settlement> {
    if (this.away) return Promise.reject(new DuctileError('LEDGER_UNAVAILABLE', 'away'));
    if (closings.some(({ job }) => this.broken.has(job.id))) {
      return Promise.reject(new Error('cannot be stored'));
    }
    const ids = new Set(closings.map(({ job }) => job.id));
    this.settled.push(...closings);
    this.queued = this.queued.filter(({ id }) => !ids.has(id));
    return Promise.resolve({
      verdicts: new Map([...ids].map((id) => [id, 'settled'])),
      enqueued: [],
      claimed: [],
      runEvents: noRunEvents,
    });
  }

  /** Runs rounds of the reaper for so long. */
  async run(ms = EVERY_MS - 1): Promise<void> {
    await this.reaper.start();
    await vi.advanceTimersByTimeAsync(ms);
    await this.reaper.stop();
  }
}

function orphanOf(jobs: readonly Job[], directives: readonly Directive[] = []): Orphan {
  return { processId: 'dead', jobs, directives };
}

describe('the jobs of a dead process', () => {
  test('are queued again, logged and published', async () => {
    const world = new World();
    world.orphans = [orphanOf([makeClaimedJob({ id: 'a' }), makeClaimedJob({ id: 'b' })])];
    expect(await world.reaper.recover()).toBe(2);
    expect(world.mourned).toBe(1);
    expect(world.settled).toMatchObject([
      { claimToken: 'token', report: { status: 'crashed', cause: 'engine_crash' } },
      { ending: { status: 'queued', crashCount: 0, interruptCount: 1 } },
    ]);
    expect(world.lines).toMatchObject([{ message: 'job recovered' }, { message: 'job recovered' }]);
    expect(world.published).toMatchObject([{ claimable: true, endedJobs: world.settled }]);
  });

  test('end as cancelled if that was requested', async () => {
    const world = new World();
    world.orphans = [orphanOf([makeClaimedJob({ cancelRequestedAt: '2030-01-01T00:00:00.000Z' })])];
    await world.reaper.recover();
    expect(world.settled).toMatchObject([{ ending: { status: 'cancelled' }, signals: [] }]);
    expect(world.lines).toMatchObject([{ message: 'job given up', reason: 'cancelled' }]);
  });

  test('end as dead when the crash budget is used up, and are reported', async () => {
    const world = new World();
    world.orphans = [orphanOf([makeClaimedJob({ crashCount: 2 })])];
    await world.reaper.recover();
    expect(world.settled).toMatchObject([
      { ending: { status: 'dead', reason: 'crashes_exhausted' }, signals: [{ type: 'job.dead' }] },
    ]);
  });

  test('are closed one by one if one of them cannot be closed', async () => {
    const world = new World();
    world.orphans = [orphanOf([makeClaimedJob({ id: 'bad' }), makeClaimedJob({ id: 'good' })])];
    world.broken.add('bad');
    expect(await world.reaper.recover()).toBe(1);
    expect(world.settled.map(({ job }) => job.id)).toEqual(['good']);
    expect(world.lines).toMatchObject([
      { message: 'a job could not be recovered', job_id: 'bad' },
      { message: 'job recovered', job_id: 'good' },
    ]);
  });

  test('wait while the ledger is away, and other processes are still tried', async () => {
    const world = new World();
    world.orphans = [orphanOf([makeClaimedJob()]), { ...orphanOf([]), processId: 'other' }];
    world.away = true;
    expect(await world.reaper.recover()).toBe(0);
    expect(world.reaps).toHaveLength(2);
    expect(world.lines).toMatchObject([
      { message: 'a dead process could not be reaped', process_id: 'dead' },
      { message: 'a dead process could not be reaped', process_id: 'other' },
    ]);
  });

  test('wait if the ledger goes away between them', async () => {
    const world = new World();
    world.orphans = [orphanOf([makeClaimedJob({ id: 'bad' }), makeClaimedJob({ id: 'good' })])];
    world.broken.add('bad');
    const { push } = world.reaps;
    world.reaps.push = (...requests) => {
      world.away = world.reaps.length > 0;
      return push.apply(world.reaps, requests);
    };
    expect(await world.reaper.recover()).toBe(0);
    expect(world.reaps).toHaveLength(2);
    expect(world.lines).toMatchObject([{ message: 'a dead process could not be reaped' }]);
  });
});

test('the directives of a dead process are released, or fail after their last attempt', async () => {
  const world = new World();
  const draft = {
    type: 'job.cancel',
    target: 'x',
    params: '{}',
    actor: 'cli:ann',
    actorRole: null,
    signalId: 'signal',
    correlationId: 'correlation',
    processId: 'dead',
    attempt: 2,
    maxAttempts: 2,
    progress: null,
  };
  const directive = (id: string, more: Partial<Directive>): Directive =>
    ({ ...draft, id, ...more }) as Directive;
  world.orphans = [
    orphanOf(
      [],
      [
        directive('again', { attempt: 1 }),
        directive('over', {}),
        directive('replay', { type: 'signal.replay', progress: '{}' }),
      ],
    ),
  ];
  await world.reaper.recover();
  expect(world.reaps[0]?.released).toMatchObject([{ id: 'again' }]);
  expect(world.reaps[0]?.directives).toMatchObject([
    { id: 'over', end: { status: 'failed', error: 'the process that executed it died' } },
    { id: 'replay', end: { error: expect.stringContaining('signal replay --resume replay') } },
  ]);
});

test('expired claims of other processes are closed, and those of this process are not', async () => {
  const world = new World();
  world.expired = [
    makeClaimedJob({ id: 'mine', claimedBy: 'me' }),
    makeClaimedJob({ id: 'other' }),
  ];
  await world.run();
  expect(world.settled).toMatchObject([
    { job: { id: 'other' }, report: { cause: 'claim_expired' } },
  ]);
});

test('a job ends when no process has had its plugin for the grace time', async () => {
  const world = new World();
  world.unrunnable = [
    makeClaimedJob({ id: 'lost', plugin: 'gone' }),
    makeClaimedJob({ id: 'kept' }),
  ];
  world.livePlugins = ['worker'];
  await world.run(4900);
  expect(world.settled).toEqual([]);
  const later = new World();
  later.unrunnable = world.unrunnable;
  later.livePlugins = ['worker'];
  await later.run(5050);
  expect(later.settled).toMatchObject([
    {
      job: { id: 'lost' },
      claimToken: null,
      report: { error: 'no process has had the plugin gone for 5 s' },
      ending: { status: 'dead', reason: 'no_runner' },
    },
  ]);
});

test('a failure of a round is logged, and the next round follows', async () => {
  const world = new World();
  world.expired = [makeClaimedJob()];
  world.away = true;
  await world.run(EVERY_MS + 50);
  expect(world.lines).toMatchObject([{ message: 'reaping failed' }, { message: 'reaping failed' }]);
});

describe('the queued jobs of a removed plugin', () => {
  test('end, as do those that are queued later', async () => {
    const world = new World();
    world.queued = [makeClaimedJob({ id: 'a' })];
    await world.reaper.endJobsOf(['worker']);
    world.queued = [makeClaimedJob({ id: 'b' })];
    await world.reaper.endLateJobs();
    expect(world.settled.map(({ job, ending }) => [job.id, ending.status])).toEqual([
      ['a', 'dead'],
      ['b', 'dead'],
    ]);
  });

  test('wait on PostgreSQL, where another host may have the plugin', async () => {
    const world = new World('postgres');
    world.queued = [makeClaimedJob()];
    await world.reaper.endJobsOf(['worker']);
    await world.reaper.endLateJobs();
    expect(world.settled).toEqual([]);
  });

  test('stay when the plugin is back', async () => {
    const world = new World();
    await world.reaper.endJobsOf(['worker']);
    world.plugins.set('worker', {} as Plugin);
    world.queued = [makeClaimedJob()];
    await world.reaper.endLateJobs();
    world.plugins.clear();
    await world.reaper.endLateJobs();
    expect(world.settled).toEqual([]);
  });

  test('are not tried forever if they cannot be closed', async () => {
    const world = new World();
    world.queued = [makeClaimedJob({ id: 'bad' })];
    world.broken.add('bad');
    await world.reaper.endJobsOf(['worker']);
    expect(world.lines).toMatchObject([{ message: 'a job could not be recovered' }]);
  });
});
