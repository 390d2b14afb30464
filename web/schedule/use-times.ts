import type { Coming, Job, Output, Schedule } from '../api/types.ts';
import type { Route } from '../route.ts';
import { useCall, type CallState } from '../ui/use-call.ts';
import type { Span } from './axis.ts';
import { stateOf } from './state.ts';

export const ranges: readonly (readonly [value: string, text: string])[] = [
  ['', '6 hours'],
  ['24', '1 day'],
  ['168', '7 days'],
];

/** Maximum number of past jobs that are loaded. */
export const PAST_JOBS = 500;

const HOUR_MS = 60 * 60 * 1000;
const MINUTE_MS = 60 * 1000;

export interface ScheduleTimes {
  readonly now: number;
  readonly span: Span;
  readonly past: CallState<Output<'job.list'>>;
  readonly coming: CallState<Output<'schedule.preview'>>;
}

/** Loads past jobs and coming times of schedules within the chosen range. */
export function useTimes({ query }: Route, plugin?: string): ScheduleTimes {
  const half = Number(query['range'] ?? '6') * HOUR_MS;
  // Round to the minute, so that renders within a minute use the same request.
  const now = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
  const span = { from: now - half, to: now + half };
  const only = plugin === undefined ? {} : { plugin };
  return {
    now,
    span,
    past: useCall(
      'job.list',
      { submitted_by: 'scheduler', from: toStamp(span.from), limit: PAST_JOBS, ...only },
      ['job.'],
    ),
    coming: useCall('schedule.preview', { from: toStamp(now), to: toStamp(span.to), ...only }, [
      'directive.',
    ]),
  };
}

interface ScheduleKey {
  readonly plugin: string;
  readonly schedule_id: string;
}

export function pastOf({ past }: ScheduleTimes, { plugin, schedule_id }: ScheduleKey): Job[] {
  const jobs = past.data?.jobs ?? [];
  return jobs.filter((job) => job.plugin === plugin && job.schedule_id === schedule_id);
}

/** Returns the coming times of a schedule. Times before its next start are marked as skipped. */
export function comingOf({ coming }: ScheduleTimes, row: Schedule): Coming[] {
  const { plugin, schedule_id, held_by: hold, next_start_at: start } = row;
  const isHeld = stateOf(row) === 'held';
  const times = coming.data?.times ?? [];
  return times
    .filter((time) => time.plugin === plugin && time.schedule_id === schedule_id)
    .map((time) => {
      const isBefore = start === null || time.until < start;
      return isHeld && isBefore && time.fires && hold !== null
        ? { ...time, fires: false, reason: hold.message }
        : time;
    });
}

function toStamp(ms: number): string {
  return new Date(ms).toISOString();
}
