import type { AttemptReport } from './attempt.ts';
import type { JobStatus } from './job.ts';

/** The next state of a job after the end of an attempt. */
export interface Ending {
  readonly status: JobStatus;
  /** The reason in one searchable word. Null if the job succeeded or is retried. */
  readonly reason: string | null;
  /** For `queued`: the delay until it can be claimed again. */
  readonly delayMs: number;
  readonly retryCount: number;
  readonly crashCount: number;
  readonly interruptCount: number;
  readonly suspect: boolean;
}

/** The counts of a job that decide its next state. */
interface Counts {
  readonly retryCount: number;
  readonly crashCount: number;
  readonly interruptCount: number;
  readonly suspect: boolean;
  readonly maxAttempts: number;
}

/** The kind of a failure. `final`: no further attempt can help (exit 78, `retry: false`). */
export type Failure = 'retryable' | 'final';

export function endAsSucceeded(job: Counts): Ending {
  return endJob(job, 'succeeded', null);
}

export function endAsCancelled(job: Counts): Ending {
  return endJob(job, 'cancelled', 'cancelled');
}

/**
 * Ends an attempt with a failure that is charged to the job. While attempts are left, the job is
 * queued again after a growing delay, or later if the policy requires it. `random` in [0, 1)
 * spreads retries of jobs that failed together.
 */
export function endAsFailed(
  job: Counts,
  report: AttemptReport,
  failure: Failure,
  policy: RetryPolicy,
  random: number,
): Ending {
  const retryCount = job.retryCount + 1;
  const charged = { ...job, retryCount, interruptCount: 0, suspect: false };
  if (failure === 'final') return endJob(charged, 'failed', report.cause);
  if (retryCount < job.maxAttempts) {
    const { backoffBaseMs, atLeastMs = 0 } = policy;
    return requeueJob(charged, Math.max(backoffMs(retryCount, backoffBaseMs, random), atLeastMs));
  }
  // A job with a single attempt was never retried.
  const reason = job.maxAttempts === 1 ? 'attempt_failed' : 'retries_exhausted';
  return endJob(charged, report.status === 'timed_out' ? 'timed_out' : 'dead', reason);
}

/**
 * Ends an attempt that Ductile or the host cut short. It isn't charged to the job, which is ready
 * again soon.
 */
export function endAsReleased(job: Counts, delayMs = 0): Ending {
  return requeueJob(job, delayMs);
}

export interface CrashRules {
  readonly crashesMax: number;
  readonly suspectAfter: number;
}

/**
 * Ends an attempt during which the service crashed. A job is charged with the crash if it ran alone
 * or was the only suspect. Other jobs become suspects after several crashes in a row.
 */
export function endAsCrashed(job: Counts, charged: boolean, rules: CrashRules): Ending {
  if (!charged) {
    const interruptCount = job.interruptCount + 1;
    const suspect = interruptCount >= rules.suspectAfter;
    return requeueJob({ ...job, interruptCount, suspect }, 0);
  }
  const crashCount = job.crashCount + 1;
  const counted = { ...job, crashCount, suspect: true };
  if (crashCount >= rules.crashesMax) return endJob(counted, 'dead', 'crashes_exhausted');
  return requeueJob(counted, crashDelayMs(crashCount, rules.crashesMax));
}

/** Returns the ids of the jobs that are charged with a crash of the service. */
export function findChargedJobs(
  jobs: readonly { readonly id: string; readonly suspect: boolean }[],
): Set<string> {
  if (jobs.length === 1) return new Set(jobs.map((job) => job.id));
  const suspects = jobs.filter((job) => job.suspect);
  return new Set(suspects.length === 1 ? suspects.map((job) => job.id) : []);
}

function endJob(job: Counts, status: JobStatus, reason: string | null): Ending {
  return { ...pickCounts(job), status, reason, delayMs: 0 };
}

function requeueJob(job: Counts, delayMs: number): Ending {
  return { ...pickCounts(job), status: 'queued', reason: null, delayMs };
}

function pickCounts(job: Counts): Omit<Ending, 'status' | 'reason' | 'delayMs'> {
  const { retryCount, crashCount, interruptCount, suspect } = job;
  return { retryCount, crashCount, interruptCount, suspect };
}

export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly backoffBaseMs: number;
  /** The minimum delay until the next attempt. */
  readonly atLeastMs?: number | undefined;
}

const DELAY_MS_MAX = 24 * 60 * 60 * 1000;
const DOUBLINGS_MAX = 40;
const CRASH_STEP_MS = 10_000;

/** Returns the delay after the nth failure: base·2^(n-1) + random(0, base). */
export function backoffMs(failures: number, baseMs: number, random: number): number {
  // Without a bound the power becomes infinite, and infinity times a base of 0 is NaN.
  const doublings = Math.min(failures - 1, DOUBLINGS_MAX);
  const delay = baseMs * 2 ** doublings + random * baseMs;
  return Math.min(Math.round(delay), DELAY_MS_MAX);
}

/** Returns the delay after the nth crash: none for the first third of the budget, then it grows. */
export function crashDelayMs(crashes: number, crashesMax: number): number {
  return crashes <= Math.ceil(crashesMax / 3) ? 0 : crashes * CRASH_STEP_MS;
}
