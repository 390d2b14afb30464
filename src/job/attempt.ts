import type { Timestamp } from '../base/clock.ts';

/** How one attempt ended, in its own row of job_log whatever becomes of the job. */
export const attemptStatuses = [
  'succeeded',
  'failed',
  'timed_out',
  'crashed',
  'released',
  'cancelled',
] as const;

export type AttemptStatus = (typeof attemptStatuses)[number];

/** The closed list of what ended an attempt. */
export const causes = [
  'ok',
  'plugin_error',
  'exit',
  'signal',
  'timeout',
  'protocol',
  'out_of_memory',
  'process_limit',
  'cpu_limit',
  'file_size_limit',
  'spawn',
  'unknown_command',
  'credential',
  'state_too_large',
  'settle_error',
  'engine_crash',
  'claim_expired',
  'spawner_died',
  'host_full',
  'shutdown',
  'unheld',
  'not_started',
  'fenced',
  'cancelled',
] as const;

export type Cause = (typeof causes)[number];

/** The story of one attempt, as it is told in job_log. */
export interface AttemptReport {
  readonly status: AttemptStatus;
  readonly cause: Cause;
  readonly error: string | null;
  /** What the plugin printed, verbatim. */
  readonly result: string | null;
  readonly stderr: string | null;
  readonly stderrTruncated: boolean;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly pid: number | null;
  readonly queueMs: number | null;
  readonly spawnMs: number | null;
  readonly runMs: number | null;
  /** User and system time; null where the spawner can't tell. */
  readonly cpuMs: number | null;
  readonly memoryPeakBytes: number | null;
  readonly settleMs: number | null;
}

/** A row of job_log. */
export interface Attempt extends AttemptReport {
  readonly id: string;
  readonly jobId: string;
  readonly plugin: string;
  readonly command: string;
  readonly attempt: number;
  readonly submittedBy: string;
  readonly createdAt: Timestamp;
  readonly startedAt: Timestamp | null;
  readonly completedAt: Timestamp;
  readonly processId: string | null;
  readonly claimToken: string | null;
  readonly parentJobId: string | null;
  readonly sourceEventId: string | null;
  /** What it ran with. */
  readonly configSnapshotId: string | null;
}

/** A report of an attempt that left nothing behind but its end. */
export function bareReport(status: AttemptStatus, cause: Cause, error: string): AttemptReport {
  return {
    status,
    cause,
    error,
    result: null,
    stderr: null,
    stderrTruncated: false,
    exitCode: null,
    signal: null,
    pid: null,
    queueMs: null,
    spawnMs: null,
    runMs: null,
    cpuMs: null,
    memoryPeakBytes: null,
    settleMs: null,
  };
}
