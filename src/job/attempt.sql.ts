import type { Closing } from '../ledger/commit.ts';
import {
  defineRows,
  type Row,
  type RowsWriter,
  type Session,
  type Transaction,
} from '../ledger/dialect.ts';
import { intOrNull, int, text, textOrNull } from '../ledger/row.ts';
import type { Attempt, AttemptCause, AttemptStatus } from './attempt.ts';

/**
 * Writes the guard of every close of an attempt. It matches only the claim and the attempt that the
 * closing names. After a request to cancel, it matches only a success or a cancellation. The status
 * is an expression, not a parameter. SQLite compares parameters with the conditions of partial indexes,
 * and would prepare the statement again for every value.
 */
export function fence(r: RowsWriter, job: string): string {
  return `${job}.seq ${r.isKey()} and ${job}.status = case when ${r('token')} is null then 'queued' else 'running' end
    and ${job}.claim_token is not distinct from ${r('token')} and ${job}.attempt = ${r('attempt')}
    and (${job}.cancel_requested_at is null or ${r('status')} in ('succeeded', 'cancelled'))`;
}

export const fenceColumns = {
  seq: 'int',
  token: 'text',
  attempt: 'int',
  status: 'text',
} as const;

export function toFenceRow({ job, claimToken, ending }: Closing): Row {
  return {
    seq: job.seq,
    token: claimToken,
    attempt: job.attempt,
    status: ending.status,
  };
}

/** The times at which attempts closed, by job id. The delay of the next attempt starts then. */
export type ClosedAt = ReadonlyMap<string, string>;

/**
 * Inserts one row for each attempt that was started. A job that was closed while queued had none.
 */
export function insertAttempts(
  tx: Transaction,
  closed: readonly Closing[],
  closedAt: ClosedAt,
): void {
  const started = closed.filter(({ claimToken }) => claimToken !== null);
  tx.send(
    insertRows,
    started.map((closing) => toRow(closing, closedAt)),
  );
}

/**
 * Finds the jobs whose attempt was already closed by the same claim in the same way. A reaper uses
 * the same token, but reports another end.
 */
export async function findSettledBefore(
  tx: Transaction,
  closings: readonly Closing[],
): Promise<Set<string>> {
  const rows = await tx.each(
    selectSettled,
    closings.map(({ job, claimToken, report }) => ({
      id: attemptId(job.id, job.attempt),
      token: claimToken,
      status: report.status,
      cause: report.cause,
    })),
  );
  return new Set(rows.map((row) => text(row, 'job_id')));
}

export async function listAttemptsOfJobs(
  session: Session,
  jobIds: readonly string[],
): Promise<Attempt[]> {
  const rows = await session.each(
    selectOfJob,
    jobIds.map((id) => ({ job_id: id })),
  );
  return rows
    .map(toAttempt)
    .sort((a, b) => (a.jobId === b.jobId ? a.attempt - b.attempt : a.jobId < b.jobId ? -1 : 1));
}

function attemptId(jobId: string, attempt: number): string {
  return `${jobId}-${attempt}`;
}

/** Writes the id of an attempt in SQL. */
export function writeAttemptId(jobId: string, attempt: string): string {
  return `${jobId} || '-' || ${attempt}`;
}

/** Writes the condition for a job's attempts: their ids are adjacent, and '.' sorts after '-'. */
export function isAttemptOf(log: string, jobId: string): string {
  return `${log}.id > ${jobId} || '-' and ${log}.id < ${jobId} || '.'`;
}

/** The columns that come from the closing. */
const reported = {
  status: 'text',
  cause: 'text',
  result: 'text',
  attempt: 'int',
  last_error: 'text',
  stderr: 'text',
  stderr_truncated: 'int',
  exit_code: 'int',
  signal: 'text',
  pid: 'int',
  queue_ms: 'int',
  spawn_ms: 'int',
  run_ms: 'int',
  cpu_ms: 'int',
  memory_peak_bytes: 'int',
  settle_ms: 'int',
  process_id: 'text',
  claim_token: 'text',
  completed_at: 'text',
} as const;

/** The columns that are copied from the job. */
const copied = [
  'plugin',
  'command',
  'submitted_by',
  'created_at',
  'started_at',
  'parent_job_id',
  'source_event_id',
  'config_snapshot_id',
];

const insertRows = defineRows({
  columns: { seq: 'int', ...reported },
  key: 'seq',
  sql: (r, d) => {
    const names = Object.keys(reported);
    return `insert into ${d.table('job_log')}
      (id, job_id, ${copied.join(', ')}, ${names.join(', ')})
      select q.id || '-' || cast(${r('attempt')} as ${d.types.int}), q.id,
        ${copied.map((name) => `q.${name}`).join(', ')}, ${names.map((name) => r(name)).join(', ')}
      from ${r.lateral(
        `select j.id, ${copied.map((name) => `j.${name}`).join(', ')}
        from ${d.table('job_queue')} j where j.seq ${r.isKey()}`,
      )}`;
  },
});

function toRow({ job, claimToken, report }: Closing, closedAt: ClosedAt): Row {
  return {
    seq: job.seq,
    status: report.status,
    cause: report.cause,
    result: report.result,
    attempt: job.attempt,
    last_error: report.error,
    stderr: report.stderr,
    stderr_truncated: report.stderrTruncated ? 1 : 0,
    exit_code: report.exitCode,
    signal: report.signal,
    pid: report.pid,
    queue_ms: report.queueMs,
    spawn_ms: report.spawnMs,
    run_ms: report.runMs,
    cpu_ms: report.cpuMs,
    memory_peak_bytes: report.memoryPeakBytes,
    settle_ms: report.settleMs,
    process_id: job.claimedBy,
    claim_token: claimToken,
    completed_at: closedAt.get(job.id) ?? null,
  };
}

const selectSettled = defineRows({
  columns: { id: 'text', token: 'text', status: 'text', cause: 'text' },
  sql: (r, d) =>
    `select q.job_id from ${r.lateral(
      `select l.job_id from ${d.table('job_log')} l
      where l.id = ${r('id')} and l.claim_token = ${r('token')}
        and l.status = ${r('status')} and l.cause = ${r('cause')}`,
    )}`,
});

const selectOfJob = defineRows({
  columns: { job_id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select l.* from ${d.table('job_log')} l
      where l.job_id = ${r('job_id')} and ${isAttemptOf('l', r('job_id'))}`,
    )}`,
});

export function toAttempt(row: Row): Attempt {
  return {
    id: text(row, 'id'),
    jobId: text(row, 'job_id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    attempt: int(row, 'attempt'),
    status: text(row, 'status') as AttemptStatus,
    cause: text(row, 'cause') as AttemptCause,
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
