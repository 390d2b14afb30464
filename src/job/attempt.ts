import type { Timestamp } from '../base/clock.ts';
import { columnNamed, columnOf, table, type RowOf, type RowOfColumns } from '../ledger/table.ts';

/** The ways in which one attempt can end. Each attempt has its own row in `job_log`. */
export const attemptStatuses = [
  'succeeded',
  'failed',
  'timed_out',
  'crashed',
  'released',
  'cancelled',
] as const;

export type AttemptStatus = (typeof attemptStatuses)[number];

/** The closed list of reasons for the end of an attempt. */
export const attemptCauses = [
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

export type AttemptCause = (typeof attemptCauses)[number];

/** The facts about one attempt that its end reports. */
const reportColumns = {
  status: columnOf<AttemptStatus>('text'),
  cause: columnOf<AttemptCause>('text'),
  error: columnNamed('last_error', 'text?'),
  /** The plugin's output, verbatim. */
  result: 'text?',
  stderr: 'text?',
  stderrTruncated: 'flag',
  exitCode: 'int?',
  signal: 'text?',
  pid: 'int?',
  queueMs: 'int?',
  spawnMs: 'int?',
  runMs: 'int?',
  /** User and system time. Null if the spawner can't measure it. */
  cpuMs: 'int?',
  memoryPeakBytes: 'int?',
  settleMs: 'int?',
} as const;

export type AttemptReport = RowOfColumns<typeof reportColumns>;

export const attemptTable = table('job_log', {
  id: 'text',
  jobId: 'text',
  plugin: 'text',
  command: 'text',
  attempt: 'int',
  ...reportColumns,
  submittedBy: 'text',
  createdAt: 'time',
  startedAt: 'time?',
  completedAt: 'time',
  processId: 'text?',
  claimToken: 'text?',
  parentJobId: 'text?',
  sourceEventId: 'text?',
  /** The configuration that the attempt ran with. */
  configSnapshotId: 'text?',
});

export type Attempt = RowOf<typeof attemptTable>;

/** Creates the report of an attempt of which nothing but its end is known. */
export function createBareReport(
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

/** The position of an attempt in the order of their ends. */
export interface AttemptPosition {
  readonly completedAt: Timestamp;
  readonly logId: string;
}

export interface AttemptFilter {
  readonly plugin?: string;
  /** Only attempts of jobs that one of these jobs caused. */
  readonly parentJobIds?: readonly string[];
  readonly jobId?: string;
  /** Only attempts of the chain that this job or signal started. */
  readonly correlationId?: string;
  readonly status?: AttemptStatus;
  /** Only attempts that ended at or after this time. Sorts the oldest first. */
  readonly since?: Timestamp;
  /** Only attempts that ended in [from, to). Doesn't change the order. */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  /** Keyset page, oldest first: only attempts that ended after this one. */
  readonly after?: AttemptPosition;
  /** Keyset page, newest first: only attempts that ended before this one. */
  readonly before?: AttemptPosition;
  readonly limit: number;
}

export interface AttemptPageFilter extends AttemptFilter {
  readonly command?: string;
  readonly submittedBy?: string;
  /** Part of the error, stderr or result. Case is ignored. */
  readonly query?: string;
}

export interface AttemptPage {
  readonly attempts: readonly Attempt[];
  /** The last row that was read, if the page ended there before it was full. */
  readonly cut: AttemptPosition | undefined;
}
