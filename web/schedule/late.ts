import type { Schedule } from '../api/types.ts';

/** A schedule is late when nothing came of its time for this long. */
const LATE_MS = 60_000;

/** How a schedule is, in the word that matters most. */
export function stateOf(schedule: Schedule): Schedule['status'] | 'overdue' {
  return isLate(schedule) ? 'overdue' : schedule.status;
}

/** Its time came and nothing was done; one whose last job is still open waits for that. */
export function isLate({ status, next_run_at: at, last_job_status: last }: Schedule): boolean {
  if (status !== 'active' || at === null || last === 'queued' || last === 'running') return false;
  return Date.parse(at) < Date.now() - LATE_MS;
}
