import type { Closing } from '../ledger/commit.ts';
import {
  defineRows,
  type Row,
  type RowsWriter,
  type Session,
  type Transaction,
} from '../ledger/dialect.ts';
import { defineRowsOf } from '../ledger/insert.ts';
import { text } from '../ledger/row.ts';
import { attemptTable, type Attempt } from './attempt.ts';

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
  const rows = closed.flatMap((closing) => {
    const completedAt = closedAt.get(closing.job.id);
    const isLogged = closing.claimToken !== null && completedAt !== undefined;
    return isLogged ? [toRow(closing, completedAt)] : [];
  });
  tx.send(insertRows, rows);
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
    .map(attemptTable.decode)
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

/** The columns that are copied from the job. */
const copied = [
  'plugin',
  'command',
  'submittedBy',
  'createdAt',
  'startedAt',
  'parentJobId',
  'sourceEventId',
  'configSnapshotId',
] as const;

/** The columns that come from the closing. */
const reported = attemptTable.except('id', 'jobId', ...copied);

const insertRows = defineRowsOf(attemptTable, reported, {
  parameters: { seq: 'int' },
  key: 'seq',
  sql: (r, d) => {
    const own = copied.map(columnIn);
    const given = reported.map(columnIn);
    return `insert into ${d.table('job_log')} (id, job_id, ${[...own, ...given].join(', ')})
      select q.id || '-' || cast(${r('attempt')} as ${d.types.int}), q.id,
        ${own.map((name) => `q.${name}`).join(', ')}, ${given.map((name) => r(name)).join(', ')}
      from ${r.lateral(
        `select j.id, ${own.map((name) => `j.${name}`).join(', ')}
        from ${d.table('job_queue')} j where j.seq ${r.isKey()}`,
      )}`;
  },
});

function columnIn(property: string): string {
  return attemptTable.fields.get(property)?.column ?? property;
}

function toRow({ job, claimToken, report }: Closing, completedAt: string) {
  const { seq, attempt, claimedBy: processId } = job;
  return { ...report, seq, attempt, processId, claimToken, completedAt };
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
