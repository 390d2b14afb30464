import { setImmediate as turn } from 'node:timers/promises';
import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Loop } from '../base/service.ts';
import type { Config } from '../config/config.ts';
import type { CancelAnswer } from '../job/state.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { DueSchedule, Fired, Firing, ScheduleKey } from '../ledger/schedules.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { makeFiring, type Held } from './firing.ts';
import { keyOf, makeTimetable, toDraft, type Entry, type Timetable } from './timetable.ts';

export type SchedulerLedger = Pick<
  Ledger,
  | 'now'
  | 'syncSchedules'
  | 'retireSchedules'
  | 'dueSchedules'
  | 'fire'
  | 'schedules'
  | 'livePlugins'
  | 'lastLoaded'
>;

export interface SchedulerOptions {
  readonly ledger: SchedulerLedger;
  readonly processId: string;
  /** Those in force now. When one of them is another one, the rows are made to fit it. */
  readonly config: () => Config;
  readonly catalog: () => Catalog;
  /** Why nothing of a plugin is to be fired now. */
  readonly holdOf: (plugin: string) => Held | undefined;
  /** The database's clock, unless a test brings its own. */
  readonly now?: () => Promise<number>;
  readonly onFired: () => void;
  readonly onCancelled: (jobId: string, answer: CancelAnswer) => void;
  readonly log: Log;
}

/** What one look did, and when the next one is due. */
export interface Tick {
  readonly fired: number;
  readonly nextInMs: number;
}

export interface Scheduler extends Loop {
  /** One look at all that is due, in slices between which the event loop turns. */
  tick(): Promise<Tick>;
}

/**
 * Fires what is due. The rows in the ledger own the due times, so a look costs what is due and not
 * what is configured, and any number of hosts may look: each due time is passed once.
 */
export function makeScheduler(options: SchedulerOptions): Scheduler {
  const { ledger, config, catalog, log } = options;
  const now = options.now ?? (async () => fromTimestamp(await ledger.now()));
  let known: { readonly config: Config; readonly catalog: Catalog } | undefined;
  let timetable: Timetable = new Map();
  /** Plugins that were left to other hosts, and when to see whether those are still there. */
  let left: ReadonlySet<string> = new Set();
  let reviewMs = Infinity;
  /** When it was last asked who was loaded last, and what that was when the rows were made to fit. */
  let askedMs = 0;
  let latest: string | undefined;
  /** Schedules that another host defines otherwise, and how. */
  const otherwise = new Map<string, string>();
  let nextInMs = 0;
  let isStopping = false;
  /** Somebody asked for a look while one was under way. */
  let isWanted = false;

  const isStale = (): boolean => known?.config !== config() || known.catalog !== catalog();

  /**
   * Whoever is loaded makes the rows its own, and no other host fires them then. When it is gone they
   * are those of the live host that was loaded last, be it long before.
   */
  const isHeir = async (nowMs: number): Promise<boolean> => {
    const { reapAfterMs } = config().service;
    if (isStale() || nowMs - askedMs < reapAfterMs) return false;
    askedMs = nowMs;
    const { snapshotId, liveProcessId } = await ledger.lastLoaded(reapAfterMs);
    if (liveProcessId !== options.processId || snapshotId === latest) return false;
    latest = snapshotId;
    return true;
  };

  const adopt = async (nowMs: number, unfired?: ReadonlyMap<string, number>): Promise<void> => {
    const taken = { config: config(), catalog: catalog() };
    if (isStale()) {
      timetable = await makeTimetable(taken.config, taken.catalog);
      askedMs = nowMs;
    }
    // A review is only of what was left: the rest may be what a host that was loaded later has made it.
    const plugins = isStale() || unfired !== undefined ? undefined : left;
    const seenAt = (entry: Entry): number => unfired?.get(keyOf(nameOf(entry))) ?? nowMs;
    left = await sync(options, { timetable, plugins, seenAt }, taken);
    reviewMs = left.size > 0 ? nowMs + taken.config.service.reapAfterMs : Infinity;
    known = taken;
  };

  const tick = async (): Promise<Tick> => {
    isWanted = false;
    const nowMs = await now();
    if (await isHeir(nowMs)) await adopt(nowMs, await readUnfired(ledger, nowMs));
    else if (isStale() || nowMs >= reviewMs) await adopt(nowMs);
    const { tickIntervalMs } = config().service;
    const graceMs = Math.max(limits.scheduleGraceMs, tickIntervalMs);
    let fired = 0;
    let dueMs = Math.min(nowMs + tickIntervalMs, reviewMs);
    let after: (ScheduleKey & { readonly dueAt: string }) | undefined;
    for (;;) {
      const page = { now: toTimestamp(nowMs), limit: limits.scheduleSliceMax };
      const { due, nextAt } = await ledger.dueSchedules({ ...page, ...(after && { after }) });
      after = due.at(-1);
      for (const row of due) tellOtherwise(row, timetable, otherwise, log);
      const passed = await pass(options, timetable, due, { nowMs, graceMs });
      fired += passed.jobs;
      dueMs = Math.min(dueMs, passed.nextMs);
      if (due.length < limits.scheduleSliceMax || isStopping) {
        if (nextAt !== undefined) dueMs = Math.min(dueMs, fromTimestamp(nextAt));
        nextInMs = Math.max(1, dueMs - nowMs);
        return { fired, nextInMs };
      }
      await turn();
    }
  };

  const loop = makeLoop({
    name: 'scheduler',
    everyMs: () => (isWanted ? 0 : nextInMs),
    atOnce: true,
    runOnce: async () => void (await tick()),
    onError: (error) => {
      nextInMs = limits.scheduleRetryMs;
      log.error('looking at the schedules failed', { error: messageOf(error) });
    },
  });
  return {
    ...loop,
    tick,
    soon() {
      isWanted = true;
      loop.soon();
    },
    stop() {
      isStopping = true;
      return loop.stop();
    },
  };
}

interface Passed {
  readonly jobs: number;
  /** When the first of them is due again. */
  readonly nextMs: number;
}

async function pass(
  { ledger, catalog, holdOf, onFired, onCancelled, log }: SchedulerOptions,
  timetable: Timetable,
  due: readonly DueSchedule[],
  times: { readonly nowMs: number; readonly graceMs: number },
): Promise<Passed> {
  const firings = due.flatMap((row) => {
    const entry = timetable.get(keyOf(row));
    // Somebody else's schedule, or one that a newer configuration has changed: not ours to fire.
    if (entry === undefined || entry.invalid !== undefined) return [];
    if (entry.timed.generation !== row.generation || !catalog().plugins.has(row.plugin)) return [];
    return [makeFiring(entry, row, times, holdOf(row.plugin))];
  });
  if (firings.length === 0) return { jobs: 0, nextMs: Infinity };
  const passed = await ledger.fire({ now: toTimestamp(times.nowMs), firings });
  for (const one of passed) {
    tell(one, log);
    for (const { jobId, answer } of one.cancelled) onCancelled(jobId, answer);
  }
  const jobs = passed.reduce((sum, { jobIds }) => sum + jobIds.length, 0);
  if (jobs > 0) onFired();
  const next = passed.map((one, index) => nextOf(one, firings[index], times.nowMs));
  return { jobs, nextMs: Math.min(...next) };
}

/** The ledger answers in the order in which it was asked. */
function nextOf({ verdict }: Fired, firing: Firing | undefined, nowMs: number): number {
  if (verdict === 'lost' || firing === undefined) return nowMs + limits.scheduleRetryMs;
  if (verdict === 'moved' && firing.act.kind === 'fire') {
    const { ifBusy } = firing.act;
    // Its last job was completed while we looked; the due time that follows from it is to be seen.
    return ifBusy === undefined ? nowMs : fromTimestamp(ifBusy.dueAt);
  }
  const next = verdict === 'skipped' ? firing.nextIfSkipped : firing.next;
  return next === undefined ? Infinity : fromTimestamp(next.dueAt);
}

function tell({ plugin, scheduleId, verdict, reason, jobIds }: Fired, log: Log): void {
  const fields = { plugin, schedule: scheduleId };
  if (verdict === 'fired') log.debug('fired', { ...fields, jobs: jobIds.join(' ') });
  if (verdict === 'skipped') log.info('a due time passed without a job', { ...fields, reason });
}

/** Once for each definition: hosts that are reloaded one after the other differ for a while. */
function tellOtherwise(
  row: DueSchedule,
  timetable: Timetable,
  told: Map<string, string>,
  log: Log,
): void {
  const key = keyOf(row);
  const mine = timetable.get(key)?.timed.generation;
  if (mine === undefined || mine === row.generation || told.get(key) === row.generation) return;
  told.set(key, row.generation);
  const fields = { plugin: row.plugin, schedule: row.scheduleId };
  log.warn('another host that was loaded later defines this schedule otherwise', fields);
}

interface Scope {
  readonly timetable: Timetable;
  /** All unless told. */
  readonly plugins: ReadonlySet<string> | undefined;
  /** When a schedule counts as first seen, if it is new or another one. */
  readonly seenAt: (entry: Entry) => number;
}

function nameOf({ timed: { plugin, schedule } }: Entry): ScheduleKey {
  return { plugin, scheduleId: schedule.id };
}

/** Just before the times that nobody met: as if they had been ours, they are met or missed here. */
async function readUnfired(
  ledger: SchedulerOptions['ledger'],
  nowMs: number,
): Promise<Map<string, number>> {
  const now = toTimestamp(nowMs);
  const { due } = await ledger.dueSchedules({ now, limit: limits.scheduleSliceMax });
  return new Map(due.map((row) => [keyOf(row), fromTimestamp(row.slotAt) - 1]));
}

/** Makes the rows those of the configuration, in slices; gives the plugins that others speak for. */
async function sync(
  { ledger, log }: SchedulerOptions,
  { timetable, plugins, seenAt }: Scope,
  { config, catalog }: { readonly config: Config; readonly catalog: Catalog },
): Promise<Set<string>> {
  const live = new Set(await ledger.livePlugins(config.service.reapAfterMs));
  const others = new Set<string>();
  // What another host knows how to run is not invalid because this one does not.
  const mayJudge = (plugin: string): boolean => {
    if (plugins?.has(plugin) === false) return false;
    const isMine = catalog.plugins.has(plugin) || !live.has(plugin);
    if (!isMine) others.add(plugin);
    return isMine;
  };
  const own = [...timetable.values()].filter(({ timed }) => mayJudge(timed.plugin));
  for (let at = 0; at < own.length; at += limits.scheduleSliceMax) {
    const slice = own.slice(at, at + limits.scheduleSliceMax);
    await ledger.syncSchedules(slice.map((entry) => toDraft(entry, seenAt(entry))));
    await turn();
  }
  for (const { timed, invalid } of own) {
    if (invalid === undefined) continue;
    const fields = { plugin: timed.plugin, schedule: timed.schedule.id, reason: invalid };
    log.error('a schedule is invalid and does not fire', fields);
  }
  await retire({ ledger, timetable, log }, mayJudge);
  return others;
}

/** What is in no configuration that this host may speak for does not fire any more. */
async function retire(
  { ledger, timetable, log }: Pick<SchedulerOptions, 'ledger' | 'log'> & { timetable: Timetable },
  mayJudge: (plugin: string) => boolean,
): Promise<void> {
  let after: ScheduleKey | undefined;
  for (;;) {
    const rows = await ledger.schedules({
      status: ['active', 'paused', 'exhausted', 'invalid'],
      limit: limits.pageRowsMax,
      ...(after && { after }),
    });
    const gone = rows.filter((row) => !timetable.has(keyOf(row)) && mayJudge(row.plugin));
    if (gone.length > 0) {
      await ledger.retireSchedules(gone);
      log.info('schedules are not configured any more', { schedules: gone.map(keyOf).join(' ') });
    }
    after = rows.at(-1);
    if (rows.length < limits.pageRowsMax) return;
    await turn();
  }
}
