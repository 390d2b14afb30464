import { setImmediate as turn } from 'node:timers/promises';
import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Loop } from '../base/service.ts';
import type { JobDraft } from '../job/job.ts';
import type { DueSchedule, FireResult, Firing, ScheduleKey, NextDue } from './types.ts';
import {
  makeScheduleRows,
  toScheduleKey,
  toNextDue,
  type Timetable,
  type TimetableEntry,
} from './timetable.service.ts';
import { makeId } from '../base/ids.ts';
import type { SkipReason } from './schedule.ts';
import { allowedFrom, planDue, type DuePlan, type DueState } from './plan.ts';
import type { LedgerContext } from '../engine/context.ts';

/** The result of one tick, and when the next one is due. */
interface Tick {
  readonly fired: number;
  readonly nextInMs: number;
}

export interface Scheduler extends Loop {
  /** Fires everything that is due, in slices that yield to the event loop. */
  tick(): Promise<Tick>;
}

/**
 * Fires schedules that are due. The due times are in the ledger, so a tick costs as much as is due
 * and not as much as is configured. Any number of hosts can run it: each due time is handled once.
 */
export function makeScheduler(
  context: LedgerContext,
  holdOf: (plugin: string) => HoldReason | undefined,
  readNow?: () => Promise<number>,
): Scheduler {
  const { ledger } = context;
  const log = context.log.child('scheduler');
  const now = readNow ?? (async () => fromTimestamp(await ledger.now()));
  const rows = makeScheduleRows(context, log);
  /** The foreign generation of schedules that another host defines differently. Each is logged once. */
  const logged = new Map<string, string>();
  let nextInMs = 0;
  let isStopping = false;
  /** A tick was requested while one was in progress. */
  let isWanted = false;

  const tick = async (): Promise<Tick> => {
    isWanted = false;
    const nowMs = await now();
    const { timetable, reviewMs } = await rows.sync(nowMs);
    const { tickIntervalMs } = context.config.service;
    const graceMs = Math.max(limits.scheduleGraceMs, tickIntervalMs);
    let fired = 0;
    let dueMs = Math.min(nowMs + tickIntervalMs, reviewMs);
    let after: (ScheduleKey & { readonly dueAt: string }) | undefined;
    for (;;) {
      const page = { now: toTimestamp(nowMs), limit: limits.scheduleSliceMax };
      const { due, nextAt } = await ledger.schedules.listDue({ ...page, ...(after && { after }) });
      after = due.at(-1);
      for (const row of due) logForeignDefinition(row, timetable, logged, log);
      const result = await fireDue({ context, holdOf, log }, timetable, due, { nowMs, graceMs });
      fired += result.jobs;
      dueMs = Math.min(dueMs, result.nextMs);
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
      log.error('a tick of the scheduler failed', { error: messageOf(error) });
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

interface Firer {
  readonly context: LedgerContext;
  /** Returns why no schedule of a plugin fires now. */
  readonly holdOf: (plugin: string) => HoldReason | undefined;
  readonly log: Log;
}

interface PageResult {
  readonly jobs: number;
  /** When the first schedule of the page is due again. */
  readonly nextMs: number;
}

/** Handles one page of due schedules. */
async function fireDue(
  { context, holdOf, log }: Firer,
  timetable: Timetable,
  due: readonly DueSchedule[],
  times: Times,
): Promise<PageResult> {
  const firings = due.flatMap((row) => {
    const entry = timetable.get(toScheduleKey(row));
    // The schedule belongs to another host or to a newer configuration, so this host doesn't fire
    // it.
    if (entry === undefined || entry.invalid !== undefined) return [];
    if (entry.timed.generation !== row.generation || !context.catalog.plugins.has(row.plugin))
      return [];
    return [makeFiring(entry, row, times, holdOf(row.plugin))];
  });
  if (firings.length === 0) return { jobs: 0, nextMs: Infinity };
  const results = await context.ledger.schedules.fire({ now: toTimestamp(times.nowMs), firings });
  for (const result of results) logResult(result, log);
  const jobs = results.reduce((sum, { jobIds }) => sum + jobIds.length, 0);
  const cancelled = results.flatMap((result) => result.cancelled);
  const cancelling = cancelled.flatMap(({ jobId, answer }) =>
    answer === 'requested' ? [jobId] : [],
  );
  context.commits.publish({ queued: jobs > 0, cancelling });
  // The ledger returns results in the order of the firings.
  const next = results.map((result, index) => nextOf(result, firings[index], times.nowMs));
  return { jobs, nextMs: Math.min(...next) };
}

function nextOf({ verdict }: FireResult, firing: Firing | undefined, nowMs: number): number {
  if (verdict === 'lost' || firing === undefined) return nowMs + limits.scheduleRetryMs;
  if (verdict === 'moved' && firing.act.kind === 'fire') {
    const { ifBusy } = firing.act;
    // Its last job was completed during this tick. The next tick computes the due time from that.
    return ifBusy === undefined ? nowMs : fromTimestamp(ifBusy.dueAt);
  }
  const next = verdict === 'skipped' ? firing.nextIfSkipped : firing.next;
  return next === undefined ? Infinity : fromTimestamp(next.dueAt);
}

function logResult({ plugin, scheduleId, verdict, reason, jobIds }: FireResult, log: Log): void {
  const fields = { plugin, schedule: scheduleId };
  if (verdict === 'fired') log.debug('fired', { ...fields, jobs: jobIds.join(' ') });
  if (verdict === 'skipped') log.info('a due time was skipped', { ...fields, reason });
}

/** Logs each foreign definition once: hosts that are reloaded one after the other differ for a while. */
function logForeignDefinition(
  row: DueSchedule,
  timetable: Timetable,
  logged: Map<string, string>,
  log: Log,
): void {
  const key = toScheduleKey(row);
  const own = timetable.get(key)?.timed.generation;
  if (own === undefined || own === row.generation || logged.get(key) === row.generation) return;
  logged.set(key, row.generation);
  const fields = { plugin: row.plugin, schedule: row.scheduleId };
  log.warn('another host that was loaded later defines this schedule differently', fields);
}

/** The reason why no schedule of a plugin fires for now. */
type HoldReason = Extract<
  SkipReason,
  'plugin_disabled' | 'plugin_unhealthy' | 'tenant_limit' | 'tenant_suspended'
>;

interface Times {
  readonly nowMs: number;
  readonly graceMs: number;
}

/** Drafts the request to the ledger for a schedule that has come due. */
function makeFiring(
  entry: TimetableEntry,
  due: DueSchedule,
  times: Times,
  held?: HoldReason,
): Firing {
  const plan = planDue(entry.timed, toDueState(due), times.nowMs, times.graceMs);
  if (held === 'plugin_unhealthy' && plan.kind === 'fire') {
    return waitForPlugin(entry, due, times.nowMs);
  }
  const { command } = entry.timed.schedule;
  const next = plan.next === undefined ? undefined : toNextDue(plan.next);
  const again = { slotAt: due.slotAt, dueAt: toNextDueAt(times.nowMs + times.graceMs) };
  return {
    due,
    command,
    next,
    nextIfSkipped: next ?? again,
    act:
      held === undefined || plan.kind === 'wait'
        ? decideAct(entry, due, plan, times.nowMs)
        : skip(held),
  };
}

function decideAct(
  entry: TimetableEntry,
  due: DueSchedule,
  plan: DuePlan,
  nowMs: number,
): Firing['act'] {
  if (plan.kind === 'wait') {
    return { kind: 'wait', ...(plan.reason === undefined ? {} : { reason: plan.reason }) };
  }
  if (plan.kind === 'skip') return skip(plan.reason);
  const { timed, settings } = entry;
  return {
    kind: 'fire',
    jobs: plan.slots.map((_, index) => toJobDraft(entry, due.seq + index)),
    guard: {
      ifRunning: timed.schedule.ifRunning,
      outstandingMax: settings.maxOutstandingPolls,
    },
    breaker: settings.circuitBreaker,
    needsLastUnchanged: timed.schedule.timing.mode === 'every',
    ifBusy: plan.isMissed === true ? retrySoon(due, nowMs) : undefined,
  };
}

function skip(reason: SkipReason): Firing['act'] {
  return { kind: 'skip', reason };
}

/**
 * Waits until the plugin is set up. A schedule with `catch_up` and a cron schedule keep their slot;
 * without `catch_up`, a cron slot is skipped once it counts as missed. An interval without
 * `catch_up` continues from the moment at which the plugin is healthy.
 */
function waitForPlugin({ timed }: TimetableEntry, due: DueSchedule, nowMs: number): Firing {
  const { timing, command, catchUp } = timed.schedule;
  const allowedMs = allowedFrom(timed, nowMs + limits.scheduleRetryMs);
  const next =
    timing.mode === 'every' && catchUp === 'skip'
      ? toNextDue({ slotMs: allowedMs, dueMs: allowedMs })
      : retrySoon(due, nowMs);
  const reason = 'plugin_unhealthy';
  return { due, command, next, nextIfSkipped: next, act: { kind: 'wait', reason } };
}

/** Returns the same slot with a due time in a moment. */
function retrySoon({ slotAt }: DueSchedule, nowMs: number): NextDue {
  return { slotAt, dueAt: toNextDueAt(nowMs + limits.scheduleRetryMs) };
}

function toNextDueAt(ms: number): string {
  return toNextDue({ slotMs: ms, dueMs: ms }).dueAt;
}

function toDueState(due: DueSchedule): DueState {
  const { seq, slotAt, dueAt, lastCompletedAt } = due;
  return {
    seq,
    slotMs: fromTimestamp(slotAt),
    dueMs: fromTimestamp(dueAt),
    completedMs: lastCompletedAt === null ? undefined : fromTimestamp(lastCompletedAt),
  };
}

function toJobDraft({ timed, payload, maxAttempts }: TimetableEntry, seq: number): JobDraft {
  const { plugin, schedule, generation } = timed;
  return {
    id: makeId(),
    plugin,
    command: schedule.command,
    payload,
    submittedBy: 'scheduler',
    actor: `schedule:${plugin}/${schedule.id}`,
    maxAttempts,
    schedule: { id: schedule.id, slot: `${generation}:${seq}` },
    ...(schedule.dependency === undefined ? {} : { dependencyKey: schedule.dependency }),
  };
}
