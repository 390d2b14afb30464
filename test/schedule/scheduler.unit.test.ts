import { expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { makeScheduler } from '../../src/schedule/scheduler.service.ts';
import type { ScheduleDraft, ScheduleKey, ScheduleRow } from '../../src/schedule/types.ts';
import type { Catalog } from '../../src/plugin/catalog.ts';
import { makeMemorySchedules, type MemorySchedules } from '../support/memory-schedules.ts';
import { at, schedule } from './support.ts';
import { makeContext } from '../support/context.ts';
import type { Log } from '../../src/base/log.ts';

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

interface Conditions {
  readonly jobMs: number;
  readonly tickMs: number;
  /** The periods without ticks. */
  readonly sleeps: readonly (readonly [string, string])[];
  /** From when to when the plugin is not well. */
  readonly unwell: readonly [string, string];
}

interface SchedulerHistory extends MemorySchedules {
  readonly ticks: number;
}

/** Lets time pass from one look to the next, as the scheduler asks for them. */
async function live(
  entries: readonly Readonly<Record<string, unknown>>[],
  from: string,
  to: string,
  conditions: Partial<Conditions> = {},
): Promise<SchedulerHistory> {
  let nowMs = at(from);
  const memory = makeMemorySchedules(() => nowMs, conditions.jobMs ?? 1000);
  const scheduler = makeScheduler(
    makeContext({
      ledger: memory.ledger,
      processId: 'me',
      log: { child: () => quiet } as unknown as Log,
      get generation() {
        return { config, catalog };
      },
    }),
    () => (isUnwell() ? 'plugin_unhealthy' : undefined),
    () => Promise.resolve(nowMs),
  );
  const isUnwell = (): boolean => {
    const [since, until] = conditions.unwell ?? [from, from];
    return nowMs >= at(since) && nowMs < at(until);
  };
  const settings = {
    enabled: true,
    schedules: entries.map(schedule),
    retry: { maxAttempts: 1, backoffBaseMs: 1 },
    circuitBreaker: { threshold: 3, resetAfterMs: 1 },
    maxOutstandingPolls: 1,
  };
  const service = {
    tickIntervalMs: conditions.tickMs ?? 60_000,
    timezone: 'Europe/Berlin',
    quietHours: {},
    reapAfterMs: 1000,
  };
  const config = { service, plugins: { echo: settings } } as unknown as Config;
  const plugins = new Map([['echo', { manifest: { commands: { poll: {} } } }]]);
  const catalog = { plugins, problems: [] } as unknown as Catalog;
  let ticks = 0;
  while (nowMs <= at(to)) {
    nowMs += (await scheduler.tick()).nextInMs;
    for (const [down, up] of conditions.sleeps ?? []) {
      if (nowMs > at(down) && nowMs < at(up)) nowMs = at(up);
    }
    ticks += 1;
  }
  return { ...memory, ticks };
}

function countOf({ jobs }: MemorySchedules, id: string): number {
  return jobs.filter(({ key }) => key === `echo/${id}`).length;
}

test('a year passes in seconds, and each schedule fires as often as it says', async () => {
  const life = await live(
    [
      { id: 'nightly', cron: '30 2 * * *' },
      { id: 'weekdays', cron: '0 9 * * mon-fri' },
      { id: 'often', cron: '*/30 * * * *' },
      { id: 'daily', every: 'daily' },
      { id: 'hourly', every: '1h', jitter: '10m' },
      { id: 'monthly', every: 'monthly' },
      { id: 'once', at: '2026-07-01T12:00:00+02:00' },
      { id: 'soon', after: '3d' },
      { id: 'office', every: '1h', only_between: '08:00-18:00', not_on: ['sat', 'sun'] },
    ],
    '2026-01-01T00:00:00+01:00',
    '2026-12-31T23:59:59+01:00',
    { tickMs: 30 * 60_000 },
  );
  expect(countOf(life, 'nightly')).toBe(365);
  expect(countOf(life, 'weekdays')).toBe(261);
  // The first moment is not later than itself.
  expect(countOf(life, 'often')).toBe(365 * 48 - 1);
  expect(countOf(life, 'daily')).toBe(365);
  expect(countOf(life, 'monthly')).toBe(12);
  expect(countOf(life, 'once')).toBe(1);
  expect(countOf(life, 'soon')).toBe(1);
  // Each run is a second long, and the interval counts from its end.
  expect(countOf(life, 'hourly')).toBeGreaterThan(8700);
  expect(countOf(life, 'hourly')).toBeLessThan(8780);
  expect(countOf(life, 'office') / 261).toBeCloseTo(10, 0);
  expect(new Set(life.jobs.map(({ key, slot }) => `${key} ${slot}`)).size).toBe(life.jobs.length);
  const lateMs = life.jobs
    .filter(({ key }) => key === 'echo/often')
    .map(({ atMs }) => atMs % (30 * 60_000));
  expect(Math.max(...lateMs)).toBeLessThan(10);
});

test('an interval counts from the completion, and a long job is not overtaken', async () => {
  const life = await live([{ every: '10m' }], '2026-01-01T00:00:00Z', '2026-01-01T03:00:00Z', {
    jobMs: 25 * 60_000,
  });
  const starts = life.jobs.map(({ atMs }) => (atMs - at('2026-01-01T00:00:00Z')) / 60_000);
  expect(starts.map(Math.round)).toEqual([0, 35, 70, 105, 140, 175]);
  expect(life.skipped).toContain('echo/default already_running');
});

test('slots that were missed while no host ran follow catch_up', async () => {
  const life = await live(
    [
      { id: 'skip', cron: '0 * * * *' },
      { id: 'once', cron: '0 * * * *', catch_up: 'run_once' },
      { id: 'all', cron: '0 * * * *', catch_up: 'run_all' },
    ],
    '2026-01-01T00:30:00Z',
    '2026-01-01T12:30:00Z',
    { sleeps: [['2026-01-01T03:30:00Z', '2026-01-01T08:30:00Z']] },
  );
  // Seven times are met (1, 2, 3 and 9 to 12), five are missed (4 to 8).
  expect(['skip', 'once', 'all'].map((id) => countOf(life, id))).toEqual([7, 8, 12]);
});

function timesOf({ jobs }: MemorySchedules, id: string): string[] {
  const own = jobs.filter(({ key }) => key === `echo/${id}`);
  return own.map(({ atMs }) => new Date(atMs).toISOString().slice(11, 16));
}

test('a catch-up waits for an open job and is not lost', async () => {
  const life = await live(
    [
      { id: 'skip', cron: '0 * * * *' },
      { id: 'once', cron: '0 * * * *', catch_up: 'run_once' },
      { id: 'all', cron: '0 * * * *', catch_up: 'run_all', if_running: 'queue' },
      { id: 'interval', every: '1h', catch_up: 'run_all' },
    ],
    '2026-01-01T02:50:00Z',
    '2026-01-01T09:10:00Z',
    { sleeps: [['2026-01-01T03:30:00Z', '2026-01-01T06:30:00Z']], jobMs: 225 * 60_000 },
  );
  // The job of 3 o'clock ends at 6:45; the times from 4 to 6 were missed.
  expect(timesOf(life, 'skip')).toEqual(['03:00', '07:00']);
  expect(timesOf(life, 'once')).toEqual(['03:00', '06:45']);
  expect(timesOf(life, 'all')).toEqual(['03:00', '06:45', '06:45', '06:45']);
  // An interval counts from the completion: none of it was missed.
  expect(timesOf(life, 'interval')).toEqual(['02:50', '07:35']);
});

test('a slot that is due while its plugin is broken fires later or is skipped', async () => {
  const life = await live(
    [
      { id: 'clock', cron: '0 * * * *' },
      { id: 'once', cron: '0 * * * *', catch_up: 'run_once' },
      { id: 'all', cron: '0 * * * *', catch_up: 'run_all' },
      { id: 'interval', every: '2h' },
      { id: 'office', every: '2h', only_between: '00:00-03:30', timezone: 'UTC' },
      { id: 'one-shot', at: '2026-01-01T03:30:00Z' },
    ],
    '2026-01-01T00:30:00Z',
    '2026-01-01T06:10:00Z',
    { unwell: ['2026-01-01T01:30:00Z', '2026-01-01T05:15:00Z'] },
  );
  expect(timesOf(life, 'clock')).toEqual(['01:00', '06:00']);
  expect(timesOf(life, 'once')).toEqual(['01:00', '05:15', '06:00']);
  expect(timesOf(life, 'all')).toEqual(['01:00', '05:15', '05:15', '05:15', '05:15', '06:00']);
  expect(timesOf(life, 'interval')).toEqual(['00:30', '05:15']);
  expect(timesOf(life, 'office')).toEqual(['00:30']);
  expect(timesOf(life, 'one-shot')).toEqual(['05:15']);
  expect(life.skipped.filter((one) => one.startsWith('echo/clock'))).toEqual(
    Array.from({ length: 4 }, () => 'echo/clock plugin_unhealthy'),
  );
});

test('a time with jitter is not missed before its jitter is over', async () => {
  const spread = { id: 'spread', cron: '0 3 * * *', jitter: '20m', timezone: 'UTC' };
  const free = await live([spread], '2026-01-01T02:30:00Z', '2026-01-01T04:00:00Z');
  const [dueAt = 0] = free.jobs.map(({ atMs }) => atMs);
  // Else the test would not tell the two apart.
  expect(dueAt).toBeGreaterThan(at('2026-01-01T03:01:10Z'));
  const well = new Date(dueAt + 5000).toISOString();
  const life = await live([spread], '2026-01-01T02:30:00Z', '2026-01-01T04:00:00Z', {
    unwell: ['2026-01-01T02:40:00Z', well],
  });
  expect(life.skipped).toEqual([]);
  expect(countOf(life, 'spread')).toBe(1);
});

test('jitter that is longer than the distance of two times loses none of them', async () => {
  const often = { cron: '*/5 * * * *', jitter: '20m' };
  const life = await live([often], '2026-01-01T00:00:00Z', '2026-01-02T00:20:00Z', { jobMs: 1 });
  expect(life.skipped).toEqual([]);
  expect(life.jobs.length).toBeGreaterThanOrEqual(287);
});

test('the scheduler sleeps until something is due, and no longer than a tick', async () => {
  const life = await live([{ cron: '0 12 * * *' }], '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z');
  expect(life.ticks).toBeLessThan(24 * 60 + 5);
});

test('a schedule that was left to a host that is gone is retired', async () => {
  let nowMs = at('2026-01-01T00:00:00Z');
  const memory = makeMemorySchedules(() => nowMs, 1000);
  const retired: ScheduleKey[] = [];
  let known = ['gone'];
  const row = { plugin: 'gone', scheduleId: 'default' } as ScheduleRow;
  const service = { tickIntervalMs: 60_000, timezone: 'UTC', quietHours: {}, reapAfterMs: 5000 };
  const config = { service, plugins: {} } as unknown as Config;
  const catalog = { plugins: new Map(), problems: [] } as unknown as Catalog;
  const scheduler = makeScheduler(
    makeContext({
      ledger: {
        ...memory.ledger,
        processes: { ...memory.ledger.processes, listLivePlugins: () => Promise.resolve(known) },
        schedules: {
          ...memory.ledger.schedules,
          list: () => Promise.resolve(retired.length === 0 ? [row] : []),
          retire(keys) {
            retired.push(...keys);
            return Promise.resolve();
          },
        },
      },
      processId: 'me',
      log: { child: () => quiet } as unknown as Log,
      get generation() {
        return { config, catalog };
      },
    }),
    () => undefined,
    () => Promise.resolve(nowMs),
  );
  expect(await scheduler.tick()).toMatchObject({ nextInMs: 5000 });
  nowMs += 5000;
  expect(await scheduler.tick()).toMatchObject({ nextInMs: 5000 });
  expect(retired).toEqual([]);
  known = [];
  nowMs += 5000;
  expect(await scheduler.tick()).toMatchObject({ nextInMs: 60_000 });
  expect(retired).toEqual([row]);
});

test('the live host that was loaded last owns the rows, whichever host owned them before', async () => {
  let nowMs = at('2026-01-01T00:00:00Z');
  const memory = makeMemorySchedules(() => nowMs, 1000);
  let loaded = { snapshotId: 'mine', liveProcessId: 'me' };
  let synced = 0;
  let isAway = false;
  const service = { tickIntervalMs: 60_000, timezone: 'UTC', quietHours: {}, reapAfterMs: 5000 };
  const settings = {
    enabled: true,
    schedules: [schedule({ cron: '0 12 * * *', timezone: 'UTC' })],
    retry: { maxAttempts: 1 },
    maxOutstandingPolls: 1,
  };
  const config = { service, plugins: { echo: settings } } as unknown as Config;
  const plugins = new Map([['echo', { manifest: { commands: { poll: {} } } }]]);
  const catalog = { plugins, problems: [] } as unknown as Catalog;
  const scheduler = makeScheduler(
    makeContext({
      ledger: {
        ...memory.ledger,
        processes: { ...memory.ledger.processes, findLastLoaded: () => Promise.resolve(loaded) },
        schedules: {
          ...memory.ledger.schedules,
          sync(drafts) {
            if (isAway) return Promise.reject(new Error('away'));
            synced += 1;
            return memory.ledger.schedules.sync(drafts);
          },
        },
      },
      processId: 'me',
      log: { child: () => quiet } as unknown as Log,
      get generation() {
        return { config, catalog };
      },
    }),
    () => undefined,
    () => Promise.resolve(nowMs),
  );
  const tick = async (passedMs: number): Promise<number> => {
    nowMs += passedMs;
    await scheduler.tick();
    return synced;
  };
  expect(await tick(0)).toBe(1);
  expect(await tick(1000)).toBe(1);
  // Once more, since two that were loaded at the same time may have come in another order.
  expect(await tick(5000)).toBe(2);
  expect(await tick(60_000)).toBe(2);
  loaded = { snapshotId: 'theirs', liveProcessId: 'other' };
  expect(await tick(60_000)).toBe(2);
  loaded = { snapshotId: 'theirs', liveProcessId: 'me' };
  isAway = true;
  await expect(tick(60_000)).rejects.toThrow('away');
  isAway = false;
  expect(await tick(60_000)).toBe(3);
  expect(await tick(60_000)).toBe(3);
  // The other host came and went between two checks, and left a due time that no host handled.
  loaded = { snapshotId: 'theirs again', liveProcessId: 'me' };
  const noon = '2026-01-01T12:00:00.000Z';
  nowMs = at(noon);
  const theirs = { plugin: 'echo', scheduleId: 'default', generation: 'theirs' };
  await memory.ledger.schedules.sync([
    { ...theirs, next: { slotAt: noon, dueAt: noon } } as ScheduleDraft,
  ]);
  expect(await tick(20_000)).toBe(4);
  expect(memory.jobs).toMatchObject([{ atMs: nowMs }]);
});
