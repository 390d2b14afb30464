import { type Timestamp, fromTimestamp, toTimestamp } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import type { Engine } from '../../engine/engine.ts';
import { isDefinedElsewhere } from '../../schedule/timetable.service.ts';
import type { JobStatus } from '../../job/job.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import {
  makeTimedSchedule,
  type TimedSchedule,
  deferSlot,
  quietEnd,
  type ScheduleSlot,
} from '../../schedule/plan.ts';
import type { ExplanationCause } from './explanation.ts';
import { readDirectiveAuthor, readServiceFacts, readAllPluginFacts } from './facts.ts';
import type { ScheduleFacts } from './schedule.ts';
import { findNextStart } from '../../schedule/preview.ts';
import { findObstacle, type DayWindow, type Obstacle } from '../../schedule/window.ts';

/** Reads once what holds schedules, and returns the facts of any of them. */
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
      lastJob: lastJobOf(row),
      breaker: byCommand.get(`${row.plugin} ${row.command}`),
    };
  };
}

/** Reads what is only told about one schedule: who paused it, and its last job. */
export async function readOneScheduleFacts(
  engine: Engine,
  row: ScheduleRow,
): Promise<ScheduleFacts> {
  const { ledger } = engine;
  const { plugin, scheduleId, lastJobId } = row;
  const [factsOf, lastJob, pausedBy] = await Promise.all([
    readScheduleFacts(engine),
    lastJobId === null ? undefined : ledger.jobs.find(lastJobId),
    row.status === 'paused'
      ? readDirectiveAuthor(ledger, 'schedule.pause', `schedule:${plugin}/${scheduleId}`)
      : undefined,
  ]);
  return { ...factsOf(row), lastJob, pausedBy };
}

function findTimed({ plugins, service }: Config, row: ScheduleRow): TimedSchedule | undefined {
  const schedule = plugins[row.plugin]?.schedules.find(({ id }) => id === row.scheduleId);
  return schedule === undefined ? undefined : makeTimedSchedule(row.plugin, schedule, service);
}

/** The hours of a schedule that is in the configuration and due some time. */
function describeHours(
  timed: TimedSchedule | undefined,
  { seq, nextSlotAt: slotAt, nextDueAt: dueAt }: ScheduleRow,
  now: Timestamp,
): ExplanationCause | undefined {
  if (timed === undefined || slotAt === null || dueAt === null) return undefined;
  return describeScheduleHours({ timed, now, seq, slotAt, dueAt });
}

function lastJobOf({ lastJobId, lastJobStatus, lastFiredAt }: ScheduleRow) {
  if (lastJobId === null || lastJobStatus === null || lastFiredAt === null) return undefined;
  const status = lastJobStatus as JobStatus;
  return { id: lastJobId, status, startedAt: null, createdAt: lastFiredAt };
}

export interface ScheduleHours {
  readonly timed: TimedSchedule;
  readonly now: Timestamp;
  readonly seq: number;
  readonly slotAt: Timestamp;
  readonly dueAt: Timestamp;
}

/** Why a schedule does not fire at this hour, or will not at its next time; undefined when it may. */
export function describeScheduleHours(hours: ScheduleHours): ExplanationCause | undefined {
  const { timed, now, dueAt } = hours;
  const end = quietEnd(timed, fromTimestamp(dueAt));
  if (end !== undefined) return quietCause(hours, toTimestamp(end));
  const nowMs = fromTimestamp(now);
  const quiet = quietEnd(timed, nowMs);
  const evidence = `${namedHours(timed)} (${timed.zone.name})`;
  const moves = { at: dueAt, movesAt: dueAt, movesBy: 'it fires then' };
  if (quiet !== undefined && fromTimestamp(dueAt) >= quiet) {
    const fact = `its quiet hours last until ${toTimestamp(quiet)}, and it is due after them`;
    return { fact, evidence, ...moves };
  }
  const obstacle = findObstacle(timed.schedule, nowMs, timed.zone);
  if (obstacle === undefined) return undefined;
  return { fact: outside[obstacle], evidence: windowOf(timed, obstacle), ...moves };
}

const outside: Readonly<Record<Obstacle, string>> = {
  outside_day_constraint: 'it does not fire on this day of the week',
  outside_time_window: 'it is outside of the hours in which it fires',
  outside_preferred_window: 'it is outside of the hours that it prefers',
};

function quietCause(hours: ScheduleHours, end: Timestamp): ExplanationCause {
  const { timed, seq, slotAt, dueAt } = hours;
  const evidence = `${namedHours(timed)} (${timed.zone.name})`;
  const slot: ScheduleSlot = { slotMs: fromTimestamp(slotAt), dueMs: fromTimestamp(dueAt) };
  const putOff = deferSlot(timed, seq, slot);
  if (putOff !== slot) {
    const movesAt = toTimestamp(putOff.dueMs);
    const fact = 'its next time is in quiet hours, and is put off to their end';
    return { fact, evidence, at: dueAt, movesAt, movesBy: 'it fires then' };
  }
  const loud = findNextStart(timed, { ...slot, seq }, slot.dueMs);
  return {
    fact: `its next time is in quiet hours, which last until ${end}, and is left out`,
    evidence,
    at: dueAt,
    movesAt: loud === undefined ? null : toTimestamp(loud),
    movesBy:
      loud === undefined
        ? 'it fires when a due time comes that is not in quiet hours; none is near'
        : 'it fires then, at the first due time that is not in quiet hours',
  };
}

function namedHours({ schedule: { quiet }, defaultQuiet }: TimedSchedule): string {
  const isOwn = quiet.start !== undefined || quiet.end !== undefined;
  const [start = 0, end = 0] = [quiet.start ?? defaultQuiet.start, quiet.end ?? defaultQuiet.end];
  const from = isOwn ? 'quiet_start and quiet_end' : 'service.quiet_hours';
  return `${from}: ${formatMinutes(start * 60)}-${formatMinutes(end * 60)}`;
}

function windowOf({ schedule, zone }: TimedSchedule, obstacle: Obstacle): string {
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
