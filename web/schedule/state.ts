import type { Schedule } from '../api/types.ts';

/** A schedule is overdue when its due time passed this long ago without a job. */
const LATE_MS = 60_000;

/** Holds that are part of the normal life of a schedule: its windows, and its own running job. */
const usual = new Set(['hours', 'job']);

/** The state of a schedule in one word: what holds it back says more than that it is overdue. */
export function stateOf(schedule: Schedule): Schedule['status'] | 'held' | 'overdue' {
  const { status, held_by: hold } = schedule;
  if (status === 'active' && hold !== null && !usual.has(hold.kind)) return 'held';
  return isLate(schedule) ? 'overdue' : status;
}

/** Its due time has passed and its last job has ended. */
function isLate({ status, next_run_at: at, last_job_status: last }: Schedule): boolean {
  if (status !== 'active' || at === null || last === 'queued' || last === 'running') return false;
  return Date.parse(at) < Date.now() - LATE_MS;
}
