/** The states of a job and the moves between them. A state without moves is terminal for ever. */
export const jobStatuses = [
  'queued',
  'running',
  'succeeded',
  'failed',
  'timed_out',
  'dead',
  'cancelled',
  'skipped',
] as const;

export type JobStatus = (typeof jobStatuses)[number];

const moves: Readonly<Record<JobStatus, readonly JobStatus[]>> = {
  queued: ['running', 'cancelled', 'skipped', 'dead'],
  running: ['queued', 'succeeded', 'failed', 'timed_out', 'dead', 'cancelled', 'skipped'],
  succeeded: [],
  failed: [],
  timed_out: [],
  dead: [],
  cancelled: [],
  skipped: [],
};

export function canMove(from: JobStatus, to: JobStatus): boolean {
  return moves[from].includes(to);
}

export function isTerminal(status: JobStatus): boolean {
  return moves[status].length === 0;
}

/** What came of asking for a job's end. `requested`: it runs, and whoever runs it is told. */
export type CancelAnswer = 'cancelled' | 'requested' | 'terminal' | 'unknown';
