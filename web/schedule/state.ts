import type { Schedule } from '../api/types.ts';

/** A schedule is overdue when its due time passed this long ago without a job. */
const LATE_MS = 60_000;

/** Holds that are normal for a schedule: its windows, and its own running job. */
const normalHolds = new Set(['hours', 'job']);

/** Returns the state of a schedule in one word; `held` takes precedence over `overdue`. */
export function stateOf(schedule: Schedule): Schedule['status'] | 'held' | 'overdue' {
  const { status, held_by: heldBy } = schedule;
  if (status === 'active' && heldBy !== null && !normalHolds.has(heldBy.kind)) return 'held';
  return isLate(schedule) ? 'overdue' : status;
}

/** True if its due time has passed and its last job has ended. */
function isLate({ status, next_run_at: at, last_job_status: last }: Schedule): boolean {
  if (status !== 'active' || at === null || last === 'queued' || last === 'running') return false;
  return Date.parse(at) < Date.now() - LATE_MS;
}
