import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import { quoteShell } from '../../base/text.ts';
import type { Config } from '../../config/config.ts';
import type { Engine } from '../../engine/engine.ts';
import { isTerminal, type Job, type JobStatus } from '../../job/job.ts';
import type { BreakerRow } from '../../schedule/breaker.ts';
import {
  deferSlot,
  makeTimedSchedule,
  quietEnd,
  type ScheduleSlot,
  type TimedSchedule,
} from '../../schedule/plan.ts';
import { findNextStart } from '../../schedule/preview.ts';
import { isDefinedElsewhere, toScheduleKey } from '../../schedule/timetable.service.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import { findObstacle, type DayWindow, type Obstacle } from '../../schedule/window.ts';
import { partPaused, readDirectiveAuthor, type DirectiveAuthor } from '../findings/paused.ts';
import { breakerOpen } from '../findings/plugins.ts';
import { scheduleNeverFires, scheduleRedefined } from '../findings/schedules.ts';
import type { ExplanationCause } from './explanation.ts';
import { toFindingCause } from './finding.ts';
import {
  readAllPluginFacts,
  readServiceFacts,
  type PluginFacts,
  type ServiceFacts,
} from './facts.ts';
import { listPluginCauses, listServiceCauses, orderRepairs } from './waits.ts';

/** The records about a schedule and everything that can hold it back. */
export interface ScheduleFacts {
  readonly row: ScheduleRow;
  readonly now: Timestamp;
  readonly service: ServiceFacts;
  readonly plugin: PluginFacts;
  /** Another host that loaded its configuration later defines it differently. */
  readonly isDefinedElsewhere: boolean;
  /** Its due times by the configuration. Undefined if it isn't configured here. */
  readonly timed?: TimedSchedule | undefined;
  /** How its windows and quiet hours hold it back. Undefined if they don't. */
  readonly hours?: ExplanationCause | undefined;
  readonly pausedBy?: DirectiveAuthor | undefined;
  readonly lastJob?: Pick<Job, 'id' | 'status' | 'startedAt' | 'createdAt'> | undefined;
  readonly breaker?: BreakerRow | undefined;
}

export const holdKinds = [
  'status',
  'service',
  'tenant',
  'plugin',
  'configuration',
  'breaker',
  'hours',
  'job',
] as const;

/** A reason why a schedule does not start a job at its due time. */
export interface ScheduleHold {
  readonly kind: (typeof holdKinds)[number];
  readonly cause: ExplanationCause;
}

/** Lists what keeps a schedule from starting, in the order of repair. */
export function listScheduleHolds(facts: ScheduleFacts): ScheduleHold[] {
  if (facts.row.status !== 'active') return [{ kind: 'status', cause: describeInactive(facts) }];
  const of = (kind: ScheduleHold['kind'], causes: readonly ExplanationCause[]): ScheduleHold[] =>
    causes.map((cause) => ({ kind, cause }));
  return [
    ...orderHolds([
      ...of('service', listServiceCauses(facts.service)),
      ...of('tenant', listTenantCauses(facts.service)),
      ...of('plugin', listPluginCauses(facts.plugin)),
    ]),
    ...of('configuration', listConfigCauses(facts)),
    ...of('breaker', listBreakerCauses(facts)),
    ...of('hours', facts.hours === undefined ? [] : [facts.hours]),
    ...of('job', listOpenJobCauses(facts)),
  ];
}

function orderHolds(holds: readonly ScheduleHold[]): ScheduleHold[] {
  const kinds = new Map(holds.map(({ kind, cause }) => [cause.fact, kind]));
  const causes = orderRepairs(holds.map(({ cause }) => cause));
  return causes.map((cause) => ({ kind: kinds.get(cause.fact) ?? 'service', cause }));
}

/** Computes when the schedule really starts next. Null if that depends on a hold without an end. */
export function computeNextStart({ row, now }: ScheduleFacts, holds: readonly ScheduleHold[]) {
  if (row.status !== 'active') return null;
  const times = holds.map(({ cause }) => cause.movesAt ?? null);
  if (times.includes(null)) return null;
  const latest = times.flatMap((at) => at ?? []).toSorted();
  return latest.at(-1) ?? (row.nextDueAt === null || row.nextDueAt > now ? row.nextDueAt : now);
}

function describeInactive({ row, pausedBy }: ScheduleFacts): ExplanationCause {
  const reason = row.reason ?? row.status;
  if (row.status === 'paused') {
    const part = { noun: 'schedule', name: toScheduleKey(row), author: pausedBy } as const;
    const cause = toFindingCause(partPaused.describe(part));
    // A list of schedules doesn't read who paused them.
    return pausedBy === undefined ? { ...cause, evidence: reason } : cause;
  }
  if (row.status === 'exhausted') {
    return {
      fact: 'it was due only once, and that time has passed',
      evidence: row.timing,
      at: row.lastFiredAt,
    };
  }
  if (row.status === 'retired') {
    return {
      fact: 'it is no longer in the configuration',
      evidence: reason,
      commands: ['ductile config show'],
    };
  }
  return toFindingCause(scheduleNeverFires.describe(row));
}

function listConfigCauses({ row, isDefinedElsewhere: isElsewhere }: ScheduleFacts) {
  return isElsewhere ? [toFindingCause(scheduleRedefined.describe(row))] : [];
}

function listOpenJobCauses({ row, lastJob }: ScheduleFacts): ExplanationCause[] {
  if (row.mode !== 'every' || lastJob === undefined || isTerminal(lastJob.status)) return [];
  return [
    {
      fact: `its interval counts from the end of its last job, which is ${lastJob.status}`,
      evidence: `job ${lastJob.id}`,
      at: lastJob.startedAt ?? lastJob.createdAt,
      movesBy: 'it is due one interval after that job has ended',
      commands: [`ductile why ${lastJob.id}`],
    },
  ];
}

function listTenantCauses({ tenant }: ServiceFacts): ExplanationCause[] {
  if (tenant?.held !== 'tenant_limit') return [];
  return [
    {
      fact: `the tenant ${tenant.slug} has reached a limit`,
      evidence: 'its ledger accepts no new work',
      movesBy: 'it continues when the tenant is below the limit',
      commands: [`ductile tenant show ${quoteShell(tenant.slug)}`],
    },
  ];
}

function listBreakerCauses(facts: ScheduleFacts): ExplanationCause[] {
  const { breaker, now } = facts;
  if (breaker === undefined || breaker.state === 'closed') return [];
  const { state, openedAt, resetAfterMs, probeJobId } = breaker;
  if (state === 'half_open' && probeJobId === null) return [];
  const cause = toFindingCause(breakerOpen.describe({ row: breaker, now }));
  if (state === 'half_open' || openedAt === null) return [cause];
  return [{ ...cause, movesAt: startAfter(facts, fromTimestamp(openedAt) + resetAfterMs) }];
}

/** Finds the first start from a moment on. A schedule that isn't configured here keeps its due time. */
function startAfter({ row, timed, now }: ScheduleFacts, untilMs: number): Timestamp | null {
  const { nextSlotAt: slotAt, nextDueAt: dueAt, seq } = row;
  if (dueAt === null) return null;
  const notBefore = Math.max(untilMs, fromTimestamp(now));
  if (timed === undefined || slotAt === null) {
    return fromTimestamp(dueAt) >= notBefore ? dueAt : toTimestamp(notBefore);
  }
  const state = { seq, slotMs: fromTimestamp(slotAt), dueMs: fromTimestamp(dueAt) };
  const start = findNextStart(timed, state, notBefore);
  return start === undefined ? null : toTimestamp(start);
}

/** Reads the facts that all schedules share, and returns a function for the facts of one. */
export async function readScheduleFacts(
  engine: Engine,
): Promise<(row: ScheduleRow) => ScheduleFacts> {
  const { ledger, config } = engine;
  const [now, service, plugins, breakers] = await Promise.all([
    ledger.now(),
    readServiceFacts(engine),
    readAllPluginFacts(engine),
    ledger.breakers.list({}),
  ]);
  const byCommand = new Map(breakers.map((one) => [`${one.plugin} ${one.command}`, one]));
  return (row) => {
    const timed = findTimed(config, row);
    return {
      row,
      now,
      service,
      plugin: plugins(row.plugin),
      isDefinedElsewhere: isDefinedElsewhere(config, row),
      timed,
      hours: describeHours(timed, row, now),
      lastJob: toLastJob(row),
      breaker: byCommand.get(`${row.plugin} ${row.command}`),
    };
  };
}

/** Reads the facts of one schedule, including who paused it and its last job. */
export async function readOneScheduleFacts(
  engine: Engine,
  row: ScheduleRow,
): Promise<ScheduleFacts> {
  const { ledger } = engine;
  const { lastJobId } = row;
  const [factsOf, lastJob, pausedBy] = await Promise.all([
    readScheduleFacts(engine),
    lastJobId === null ? undefined : ledger.jobs.find(lastJobId),
    row.status === 'paused'
      ? readDirectiveAuthor(ledger, `schedule:${toScheduleKey(row)}`, 'schedule.pause')
      : undefined,
  ]);
  return { ...factsOf(row), lastJob, pausedBy };
}

function findTimed({ plugins, service }: Config, row: ScheduleRow): TimedSchedule | undefined {
  const schedule = plugins[row.plugin]?.schedules.find(({ id }) => id === row.scheduleId);
  return schedule === undefined ? undefined : makeTimedSchedule(row.plugin, schedule, service);
}

function describeHours(
  timed: TimedSchedule | undefined,
  { seq, nextSlotAt: slotAt, nextDueAt: dueAt }: ScheduleRow,
  now: Timestamp,
): ExplanationCause | undefined {
  if (timed === undefined || slotAt === null || dueAt === null) return undefined;
  return describeScheduleHours({ timed, now, seq, slotAt, dueAt });
}

function toLastJob({ lastJobId, lastJobStatus, lastFiredAt }: ScheduleRow) {
  if (lastJobId === null || lastJobStatus === null || lastFiredAt === null) return undefined;
  const status = lastJobStatus as JobStatus;
  return { id: lastJobId, status, startedAt: null, createdAt: lastFiredAt };
}

/** A configured schedule and its next due time. */
interface ScheduleHours {
  readonly timed: TimedSchedule;
  readonly now: Timestamp;
  readonly seq: number;
  readonly slotAt: Timestamp;
  readonly dueAt: Timestamp;
}

/**
 * Explains why windows or quiet hours hold a schedule back, now or at its next due time. Undefined if
 * they don't.
 */
export function describeScheduleHours(hours: ScheduleHours): ExplanationCause | undefined {
  const { timed, now, dueAt } = hours;
  const end = quietEnd(timed, fromTimestamp(dueAt));
  if (end !== undefined) return describeQuietHours(hours, toTimestamp(end));
  const nowMs = fromTimestamp(now);
  const quiet = quietEnd(timed, nowMs);
  const evidence = `${formatQuietHours(timed)} (${timed.zone.name})`;
  const moves = { at: dueAt, movesAt: dueAt, movesBy: 'it fires then' };
  if (quiet !== undefined && fromTimestamp(dueAt) >= quiet) {
    const fact = `its quiet hours last until ${toTimestamp(quiet)}, and it is due after them`;
    return { fact, evidence, ...moves };
  }
  const obstacle = findObstacle(timed.schedule, nowMs, timed.zone);
  if (obstacle === undefined) return undefined;
  return { fact: obstacleFacts[obstacle], evidence: describeWindow(timed, obstacle), ...moves };
}

const obstacleFacts: Readonly<Record<Obstacle, string>> = {
  outside_day_constraint: 'it does not fire on this day of the week',
  outside_time_window: 'it is outside the hours in which it fires',
  outside_preferred_window: 'it is outside the hours that it prefers',
};

function describeQuietHours(hours: ScheduleHours, end: Timestamp): ExplanationCause {
  const { timed, seq, slotAt, dueAt } = hours;
  const evidence = `${formatQuietHours(timed)} (${timed.zone.name})`;
  const slot: ScheduleSlot = { slotMs: fromTimestamp(slotAt), dueMs: fromTimestamp(dueAt) };
  const deferred = deferSlot(timed, seq, slot);
  if (deferred !== slot) {
    const movesAt = toTimestamp(deferred.dueMs);
    const fact = 'its next time is in quiet hours, and is deferred to their end';
    return { fact, evidence, at: dueAt, movesAt, movesBy: 'it fires then' };
  }
  const nextMs = findNextStart(timed, { ...slot, seq }, slot.dueMs);
  return {
    fact: `its next time is in quiet hours, which last until ${end}, and is skipped`,
    evidence,
    at: dueAt,
    movesAt: nextMs === undefined ? null : toTimestamp(nextMs),
    movesBy:
      nextMs === undefined
        ? 'it fires at the first due time outside quiet hours; none is near'
        : 'it fires then, at the first due time outside quiet hours',
  };
}

function formatQuietHours({ schedule: { quiet }, defaultQuiet }: TimedSchedule): string {
  const isOwn = quiet.start !== undefined || quiet.end !== undefined;
  const [start = 0, end = 0] = [quiet.start ?? defaultQuiet.start, quiet.end ?? defaultQuiet.end];
  const from = isOwn ? 'quiet_start and quiet_end' : 'service.quiet_hours';
  return `${from}: ${formatMinutes(start * 60)}-${formatMinutes(end * 60)}`;
}

function describeWindow({ schedule, zone }: TimedSchedule, obstacle: Obstacle): string {
  if (obstacle === 'outside_day_constraint') return `not_on (${zone.name})`;
  const isOnly = obstacle === 'outside_time_window';
  const window = isOnly ? schedule.onlyBetween : schedule.preferredWindow;
  return `${isOnly ? 'only_between' : 'preferred_window'}: ${formatDayWindow(window)} (${zone.name})`;
}

function formatDayWindow(window: DayWindow | undefined): string {
  return window === undefined ? '' : `${formatMinutes(window.start)}-${formatMinutes(window.end)}`;
}

function formatMinutes(minutes: number): string {
  const two = (count: number): string => String(count).padStart(2, '0');
  return `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}
