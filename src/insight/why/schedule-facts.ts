import type { Timestamp } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import type { Engine } from '../../engine/engine.ts';
import { isOtherwise } from '../../schedule/timetable.service.ts';
import type { JobStatus } from '../../job/job.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import { makeTimed, type Timed } from '../../schedule/plan.ts';
import type { Cause } from './explanation.ts';
import { readBy, readHouse, readPlugins } from './facts.ts';
import { findHours } from './hours.ts';
import type { ScheduleFacts } from './schedule-holds.ts';

/** Reads once what holds schedules, and returns the facts of any of them. */
export async function readScheduleFacts(
  engine: Engine,
): Promise<(row: ScheduleRow) => ScheduleFacts> {
  const { ledger, config } = engine;
  const [now, house, plugins, breakers] = await Promise.all([
    ledger.now(),
    readHouse(engine),
    readPlugins(engine),
    ledger.breakers({}),
  ]);
  const byCommand = new Map(breakers.map((one) => [`${one.plugin} ${one.command}`, one]));
  return (row) => {
    const timed = findTimed(config, row);
    return {
      row,
      now,
      house,
      plugin: plugins(row.plugin),
      isOtherwise: isOtherwise(config, row),
      timed,
      hours: describeHours(timed, row, now),
      lastJob: lastJobOf(row),
      breaker: byCommand.get(`${row.plugin} ${row.command}`),
    };
  };
}

/** Reads what is only told about one schedule: who paused it, and its last job. */
export async function readOneSchedule(engine: Engine, row: ScheduleRow): Promise<ScheduleFacts> {
  const { ledger } = engine;
  const { plugin, scheduleId, lastJobId } = row;
  const [factsOf, lastJob, pausedBy] = await Promise.all([
    readScheduleFacts(engine),
    lastJobId === null ? undefined : ledger.job(lastJobId),
    row.status === 'paused'
      ? readBy(ledger, 'schedule.pause', `schedule:${plugin}/${scheduleId}`)
      : undefined,
  ]);
  return { ...factsOf(row), lastJob, pausedBy };
}

function findTimed({ plugins, service }: Config, row: ScheduleRow): Timed | undefined {
  const schedule = plugins[row.plugin]?.schedules.find(({ id }) => id === row.scheduleId);
  return schedule === undefined ? undefined : makeTimed(row.plugin, schedule, service);
}

/** The hours of a schedule that is in the configuration and due some time. */
function describeHours(
  timed: Timed | undefined,
  { seq, nextSlotAt: slotAt, nextDueAt: dueAt }: ScheduleRow,
  now: Timestamp,
): Cause | undefined {
  if (timed === undefined || slotAt === null || dueAt === null) return undefined;
  return findHours({ timed, now, seq, slotAt, dueAt });
}

function lastJobOf({ lastJobId, lastJobStatus, lastFiredAt }: ScheduleRow) {
  if (lastJobId === null || lastJobStatus === null || lastFiredAt === null) return undefined;
  const status = lastJobStatus as JobStatus;
  return { id: lastJobId, status, startedAt: null, createdAt: lastFiredAt };
}
