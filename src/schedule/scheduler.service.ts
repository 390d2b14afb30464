import { setImmediate as turn } from 'node:timers/promises';
import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Loop } from '../base/service.ts';
import type { CancelAnswer } from '../job/job.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { DueSchedule, Fired, Firing, ScheduleKey } from './types.ts';
import { makeFiring, type Held } from './fire.service.ts';
import { makeScheduleRows, type ScheduleRowsOptions } from './sync-rows.service.ts';
import { keyOf, type Timetable } from './timetable.service.ts';

export type SchedulerLedger = ScheduleRowsOptions['ledger'] &
  Pick<Ledger, 'now' | 'dueSchedules' | 'fire'>;

export interface SchedulerOptions extends ScheduleRowsOptions {
  readonly ledger: SchedulerLedger;
  /** Why nothing of a plugin is to be fired now. */
  readonly holdOf: (plugin: string) => Held | undefined;
  /** The database's clock, unless a test brings its own. */
  readonly now?: () => Promise<number>;
  readonly onFired: () => void;
  readonly onCancelled: (jobId: string, answer: CancelAnswer) => void;
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
  const { ledger, config, log } = options;
  const now = options.now ?? (async () => fromTimestamp(await ledger.now()));
  const rows = makeScheduleRows(options);
  /** Schedules that another host defines otherwise, and how. */
  const otherwise = new Map<string, string>();
  let nextInMs = 0;
  let isStopping = false;
  /** Somebody asked for a look while one was under way. */
  let isWanted = false;

  const tick = async (): Promise<Tick> => {
    isWanted = false;
    const nowMs = await now();
    const { timetable, reviewMs } = await rows.fit(nowMs);
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
