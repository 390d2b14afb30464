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

export type AttemptCause = (typeof causes)[number];

/** The story of one attempt, as it is told in job_log. */
export interface AttemptReport {
  readonly status: AttemptStatus;
  readonly cause: AttemptCause;
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
export function bareReport(
  status: AttemptStatus,
  cause: AttemptCause,
  error: string,
): AttemptReport {
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

/** Among attempts in the order of their ends. */
export interface AttemptPosition {
  readonly completedAt: Timestamp;
  readonly logId: string;
}

export interface AttemptFilter {
  readonly plugin?: string;
  /** Only attempts of jobs that follow from one of these. */
  readonly parentJobIds?: readonly string[];
  readonly jobId?: string;
  /** Only attempts of the chain that began with this job or signal. */
  readonly correlationId?: string;
  readonly status?: AttemptStatus;
  /** Ended at or after this moment; oldest first then. */
  readonly since?: Timestamp;
  /** Ended not before, and before; they don't change the order. */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  /** Keyset page, oldest first: what ended after this one. */
  readonly after?: AttemptPosition;
  /** Keyset page, newest first: what ended before this one. */
  readonly before?: AttemptPosition;
  readonly limit: number;
}

export interface AttemptPageFilter extends AttemptFilter {
  readonly command?: string;
  readonly submittedBy?: string;
  /** Part of its error, its stderr or its result, whatever the case. */
  readonly query?: string;
}

export interface AttemptPage {
  readonly attempts: readonly Attempt[];
  /** The last row that was looked at, if the page ended there before it was full. */
  readonly cut: AttemptPosition | undefined;
}
