import type { Attempt, AttemptStatus, Cause } from './attempt.ts';
import type { Job } from './job.ts';
import type { JobStatus } from './state.ts';
import type { Row } from '../ledger/dialect.ts';

/** Named one by one, because `returning *` would bring the columns of joined rows along. */
export const jobColumns = [
  'seq',
  'id',
  'plugin',
  'command',
  'payload',
  'status',
  'attempt',
  'max_attempts',
  'retry_count',
  'crash_count',
  'interrupt_count',
  'suspect',
  'submitted_by',
  'actor',
  'dedupe_key',
  'dedupe_ttl_ms',
  'dependency_key',
  'created_at',
  'ready_at',
  'started_at',
  'completed_at',
  'next_retry_at',
  'last_error',
  'reason',
  'parent_job_id',
  'source_event_id',
  'root_job_id',
  'retry_of',
  'idempotency_key',
  'hops',
  'runtime_caused',
  'event_context_id',
  'schedule_id',
  'schedule_slot',
  'claim_token',
  'claimed_by',
  'claim_expires_at',
  'cancel_requested_at',
  'config_snapshot_id',
  'run_id',
  'branch_id',
  'step_id',
  'base_key',
  'timeout_ms',
  'backoff_ms',
  'awaited_by',
]
  .map((column) => `job_queue.${column}`)
  .join(', ');

/**
 * Those of the drafts whose rows were written, in their order; mostly all of them. For a set of their
 * ids V8 looks each up among all strings that it knows, which costs more than the rest of it.
 */
export function whichOf<T extends { readonly id: string }>(
  drafts: readonly T[],
  written: readonly Row[],
): readonly T[] {
  if (written.length === drafts.length) return drafts;
  const ids = new Set(written.map((row) => text(row, 'id')));
  return drafts.filter(({ id }) => ids.has(id));
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== 'string') throw new Error(`${column} is not text`);
  return value;
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null || row[column] === undefined ? null : text(row, column);
}

export function int(row: Row, column: string): number {
  const value = Number(row[column]);
  if (!Number.isFinite(value)) throw new Error(`${column} is not a number`);
  return value;
}

export function intOrNull(row: Row, column: string): number | null {
  return row[column] === null || row[column] === undefined ? null : int(row, column);
}

export function toJob(row: Row): Job {
  return {
    seq: int(row, 'seq'),
    id: text(row, 'id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    payload: text(row, 'payload'),
    status: text(row, 'status') as JobStatus,
    attempt: int(row, 'attempt'),
    maxAttempts: int(row, 'max_attempts'),
    retryCount: int(row, 'retry_count'),
    crashCount: int(row, 'crash_count'),
    interruptCount: int(row, 'interrupt_count'),
    suspect: row['suspect'] === 1,
    submittedBy: text(row, 'submitted_by'),
    actor: text(row, 'actor'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    dedupeTtlMs: intOrNull(row, 'dedupe_ttl_ms'),
    dependencyKey: textOrNull(row, 'dependency_key'),
    createdAt: text(row, 'created_at'),
    readyAt: text(row, 'ready_at'),
    startedAt: textOrNull(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
    nextRetryAt: textOrNull(row, 'next_retry_at'),
    lastError: textOrNull(row, 'last_error'),
    reason: textOrNull(row, 'reason'),
    parentJobId: textOrNull(row, 'parent_job_id'),
    sourceEventId: textOrNull(row, 'source_event_id'),
    rootJobId: text(row, 'root_job_id'),
    retryOf: textOrNull(row, 'retry_of'),
    idempotencyKey: text(row, 'idempotency_key'),
    hops: int(row, 'hops'),
    runtimeCaused: row['runtime_caused'] === 1,
    eventContextId: textOrNull(row, 'event_context_id'),
    scheduleId: textOrNull(row, 'schedule_id'),
    scheduleSlot: textOrNull(row, 'schedule_slot'),
    claimToken: textOrNull(row, 'claim_token'),
    claimedBy: textOrNull(row, 'claimed_by'),
    claimExpiresAt: textOrNull(row, 'claim_expires_at'),
    cancelRequestedAt: textOrNull(row, 'cancel_requested_at'),
    configSnapshotId: textOrNull(row, 'config_snapshot_id'),
    runId: textOrNull(row, 'run_id'),
    branchId: textOrNull(row, 'branch_id'),
    stepId: textOrNull(row, 'step_id'),
    baseKey: textOrNull(row, 'base_key'),
    timeoutMs: intOrNull(row, 'timeout_ms'),
    backoffMs: intOrNull(row, 'backoff_ms'),
    awaitedBy: textOrNull(row, 'awaited_by'),
  };
}

export function toAttempt(row: Row): Attempt {
  return {
    id: text(row, 'id'),
    jobId: text(row, 'job_id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    attempt: int(row, 'attempt'),
    status: text(row, 'status') as AttemptStatus,
    cause: text(row, 'cause') as Cause,
    error: textOrNull(row, 'last_error'),
    result: textOrNull(row, 'result'),
    stderr: textOrNull(row, 'stderr'),
    stderrTruncated: row['stderr_truncated'] === 1,
    exitCode: intOrNull(row, 'exit_code'),
    signal: textOrNull(row, 'signal'),
    pid: intOrNull(row, 'pid'),
    queueMs: intOrNull(row, 'queue_ms'),
    spawnMs: intOrNull(row, 'spawn_ms'),
    runMs: intOrNull(row, 'run_ms'),
    cpuMs: intOrNull(row, 'cpu_ms'),
    memoryPeakBytes: intOrNull(row, 'memory_peak_bytes'),
    settleMs: intOrNull(row, 'settle_ms'),
    submittedBy: text(row, 'submitted_by'),
    createdAt: text(row, 'created_at'),
    startedAt: textOrNull(row, 'started_at'),
    completedAt: text(row, 'completed_at'),
    processId: textOrNull(row, 'process_id'),
    claimToken: textOrNull(row, 'claim_token'),
    parentJobId: textOrNull(row, 'parent_job_id'),
    sourceEventId: textOrNull(row, 'source_event_id'),
    configSnapshotId: textOrNull(row, 'config_snapshot_id'),
  };
}
