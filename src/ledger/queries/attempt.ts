import type { Attempt } from '../../job/attempt.ts';
import { defineRows, type Row, type Session, type Transaction, type Value } from '../dialect.ts';
import type { AttemptFilter, Closing } from '../ledger.ts';
import { text, toAttempt } from './row.ts';

/** One row for every attempt that was started; a job closed while it was queued had none. */
export async function insertAttempts(tx: Transaction, closed: readonly Closing[]): Promise<void> {
  const rows = closed.filter(({ claimToken }) => claimToken !== null).map(toRow);
  if (rows.length > 0) await tx.each(insert, rows);
}

/** Of these closings, the jobs whose attempt this very claim has closed already. */
export async function settledBefore(
  tx: Transaction,
  closings: readonly Closing[],
): Promise<Set<string>> {
  const rows = await tx.each(
    selectSettled,
    closings.map(({ job, claimToken }) => ({ id: attemptId(job.id, job.attempt), token: claimToken })),
  );
  return new Set(rows.map((row) => text(row, 'job_id')));
}

export async function listAttempts(session: Session, filter: AttemptFilter): Promise<Attempt[]> {
  const conditions: string[] = ['true'];
  const values: Value[] = [];
  for (const [column, value] of [
    ['plugin', filter.plugin],
    ['job_id', filter.jobId],
    ['status', filter.status],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  const rows = await session.run(
    `select * from ${session.dialect.table('job_log')} where ${conditions.join(' and ')}
      order by completed_at desc, id desc limit ?`,
    [...values, filter.limit],
  );
  return rows.map(toAttempt);
}

export async function attemptsOf(
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

const columns = {
  id: 'text',
  job_id: 'text',
  plugin: 'text',
  command: 'text',
  status: 'text',
  cause: 'text',
  result: 'text',
  attempt: 'int',
  submitted_by: 'text',
  created_at: 'text',
  started_at: 'text',
  last_error: 'text',
  stderr: 'text',
  stderr_truncated: 'int',
  exit_code: 'int',
  signal: 'text',
  pid: 'int',
  queue_ms: 'int',
  spawn_ms: 'int',
  run_ms: 'int',
  settle_ms: 'int',
  process_id: 'text',
  claim_token: 'text',
  parent_job_id: 'text',
  source_event_id: 'text',
} as const;

const insert = defineRows({
  columns,
  sql: (r, d) => {
    const names = Object.keys(columns);
    return `insert into ${d.table('job_log')} (${names.join(', ')}, completed_at)
      select ${names.map((name) => r(name)).join(', ')}, ${d.now} ${r.from} where true`;
  },
});

function toRow({ job, claimToken, report }: Closing): Row {
  return {
    id: attemptId(job.id, job.attempt),
    job_id: job.id,
    plugin: job.plugin,
    command: job.command,
    status: report.status,
    cause: report.cause,
    result: report.result,
    attempt: job.attempt,
    submitted_by: job.submittedBy,
    created_at: job.createdAt,
    started_at: job.startedAt,
    last_error: report.error,
    stderr: report.stderr,
    stderr_truncated: report.stderrTruncated ? 1 : 0,
    exit_code: report.exitCode,
    signal: report.signal,
    pid: report.pid,
    queue_ms: report.queueMs,
    spawn_ms: report.spawnMs,
    run_ms: report.runMs,
    settle_ms: report.settleMs,
    process_id: job.claimedBy,
    claim_token: claimToken,
    parent_job_id: job.parentJobId,
    source_event_id: job.sourceEventId,
  };
}

const selectSettled = defineRows({
  columns: { id: 'text', token: 'text' },
  sql: (r, d) => `select q.job_id from ${r.lateral(
    `select l.job_id from ${d.table('job_log')} l
      where l.id = ${r('id')} and l.claim_token = ${r('token')}`,
  )}`,
});

const selectOfJob = defineRows({
  columns: { job_id: 'text' },
  sql: (r, d) => `select q.* from ${r.lateral(
    `select l.* from ${d.table('job_log')} l where l.job_id = ${r('job_id')}`,
  )}`,
});
