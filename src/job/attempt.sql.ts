import type { Attempt } from './attempt.ts';
import {
  defineRows,
  type Row,
  type RowsWriter,
  type Session,
  type Transaction,
} from '../ledger/dialect.ts';
import type { Closing } from '../ledger/commit.ts';
import { text } from '../ledger/row.ts';
import { toAttempt } from './job.sql.ts';

/**
 * The guard of every close of an attempt. It holds only for the claim, and for the very attempt,
 * that the closing speaks of; once somebody asked for the job's end, only for a success or that end.
 * The status is an expression, because SQLite would plan the statement again for every value of a
 * parameter that it can compare with the condition of an index.
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

/** When jobs were closed, by their ids: the time from which the wait for their next attempt counts. */
export type ClosedAt = ReadonlyMap<string, string>;

/** One row for every attempt that was started; a job closed while it was queued had none. */
export function insertAttempts(
  tx: Transaction,
  closed: readonly Closing[],
  closedAt: ClosedAt,
): void {
  const started = closed.filter(({ claimToken }) => claimToken !== null);
  tx.send(
    insert,
    started.map((closing) => toRow(closing, closedAt)),
  );
}

/**
 * Of these closings, the jobs whose attempt was closed already by this very claim and in this very
 * way. A reaper closes under the same token, but tells another end than the one who lost the claim.
 */
export async function settledBefore(
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

export async function attemptsOf(session: Session, jobIds: readonly string[]): Promise<Attempt[]> {
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

/** The same in SQL; nothing else has an index that finds the attempt of a job. */
export function attemptIdIn(jobId: string, attempt: string): string {
  return `${jobId} || '-' || ${attempt}`;
}

/** The ids of a job's attempts are neighbours, so their own index finds them; '.' follows '-'. */
export function isAmongIdsOf(log: string, jobId: string): string {
  return `${log}.id > ${jobId} || '-' and ${log}.id < ${jobId} || '.'`;
}

/** What only the closing knows; the rest of the row is the job's own. */
const told = {
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

const insert = defineRows({
  columns: { seq: 'int', ...told },
  key: 'seq',
  sql: (r, d) => {
    const names = Object.keys(told);
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
      where l.job_id = ${r('job_id')} and ${isAmongIdsOf('l', r('job_id'))}`,
    )}`,
});
