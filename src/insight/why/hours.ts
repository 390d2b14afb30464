import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import { findNextStart } from '../../schedule/preview.ts';
import { deferred, quietEnd, type Slot, type Timed } from '../../schedule/plan.ts';
import { findObstacle, type DayWindow, type Obstacle } from '../../schedule/window.ts';
import type { Cause } from './explanation.ts';

export interface Hours {
  readonly timed: Timed;
  readonly now: Timestamp;
  readonly seq: number;
  readonly slotAt: Timestamp;
  readonly dueAt: Timestamp;
}

/** Why a schedule does not fire at this hour, or will not at its next time; undefined when it may. */
export function findHours(hours: Hours): Cause | undefined {
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

function quietCause(hours: Hours, end: Timestamp): Cause {
  const { timed, seq, slotAt, dueAt } = hours;
  const evidence = `${namedHours(timed)} (${timed.zone.name})`;
  const slot: Slot = { slotMs: fromTimestamp(slotAt), dueMs: fromTimestamp(dueAt) };
  const putOff = deferred(timed, seq, slot);
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

function namedHours({ schedule: { quiet }, usualQuiet }: Timed): string {
  const isOwn = quiet.start !== undefined || quiet.end !== undefined;
  const [start = 0, end = 0] = [quiet.start ?? usualQuiet.start, quiet.end ?? usualQuiet.end];
  const from = isOwn ? 'quiet_start and quiet_end' : 'service.quiet_hours';
  return `${from}: ${clock(start * 60)}-${clock(end * 60)}`;
}

function windowOf({ schedule, zone }: Timed, obstacle: Obstacle): string {
  if (obstacle === 'outside_day_constraint') return `not_on (${zone.name})`;
  const isOnly = obstacle === 'outside_time_window';
  const window = isOnly ? schedule.onlyBetween : schedule.preferredWindow;
  return `${isOnly ? 'only_between' : 'preferred_window'}: ${spell(window)} (${zone.name})`;
}

function spell(window: DayWindow | undefined): string {
  return window === undefined ? '' : `${clock(window.start)}-${clock(window.end)}`;
}

function clock(minutes: number): string {
  const two = (count: number): string => String(count).padStart(2, '0');
  return `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}
