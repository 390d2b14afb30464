import type { ErrorCode } from '../base/errors.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import { DuctileError } from '../base/errors.ts';
import { lockProgress, writeProgress } from '../directive/lifecycle.sql.ts';
import type { Closing } from '../ledger/commit.ts';
import { defineRows, type Row, type Transaction } from '../ledger/dialect.ts';
import { int, text } from '../ledger/row.ts';
import { createBareReport } from './attempt.ts';
import {
  advanceBulk,
  createBulkProgress,
  type BulkProgress,
  type BulkResult,
  type BulkStep,
  type Retry,
  type RetryResult,
} from './bulk.ts';
import { enqueueJobs } from './enqueue.sql.ts';
import { jobColumns, toJob } from './job.sql.ts';
import { isTerminal, type Job, type CancelResult } from './job.ts';
import { endAsCancelled } from './outcome.ts';
import { settleClosings } from './settle.sql.ts';

export async function cancelJob(tx: Transaction, jobId: string): Promise<CancelResult> {
  const { results } = await cancelJobs(tx, [jobId]);
  return results[0] ?? 'unknown';
}

/** Cancels jobs with a number of statements that doesn't depend on their count. */
export async function cancelJobs(
  tx: Transaction,
  jobIds: readonly string[],
  step?: BulkStep,
): Promise<BulkResult<CancelResult>> {
  return await inStep(tx, step, async () => {
    const jobs = await lockJobs(tx, jobIds);
    const known = jobIds.flatMap((id) => jobs.get(id) ?? []);
    const queued = known.filter(({ status }) => status === 'queued');
    const running = known.filter(({ status }) => status === 'running');
    await requestCancel(
      tx,
      running.map(({ id }) => id),
    );
    if (queued.length > 0) await settleClosings(tx, queued.map(closeCancelled));
    return jobIds.map((id) => toCancelResult(jobs.get(id)));
  });
}

/** Requests the cancellation of running jobs. Their processes stop them; the first request counts. */
export async function requestCancel(tx: Transaction, jobIds: readonly string[]): Promise<void> {
  await tx.each(
    updateCancelRequested,
    jobIds.map((id) => ({ id })),
  );
}

const updateCancelRequested = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('job_queue')} set cancel_requested_at =
      coalesce(job_queue.cancel_requested_at, ${d.now}) ${r.from}
    where job_queue.id = ${r('id')} and job_queue.status = 'running'`,
});

/**
 * Queues the work of ended jobs again, unless it is queued or running already. The old rows are
 * locked, so the second of two callers sees what the first one did.
 */
export async function retryJobs(
  tx: Transaction,
  retries: readonly Retry[],
  step?: BulkStep,
): Promise<BulkResult<RetryResult>> {
  return await inStep(tx, step, async () => {
    const ids = retries.map(({ of }) => of);
    const jobs = await lockJobs(tx, ids);
    const earlier = await listRetries(tx, ids);
    const results = new Map<Retry, RetryResult>();
    for (const retry of retries) {
      const refusal = refuseRetry(retry, jobs.get(retry.of), earlier.get(retry.of) ?? []);
      if (refusal !== undefined) results.set(retry, refusal);
    }
    const wanted = retries.filter((retry) => !results.has(retry));
    // The success of a job must not block its own retry.
    await tx.each(
      dropKeys,
      wanted.flatMap(({ of }) => toKeyRow(jobs.get(of))),
    );
    const added = await enqueueJobs(tx, { jobs: wanted.map(({ job }) => job) });
    wanted.forEach((retry, index) => {
      const jobId = added[index]?.duplicateOf;
      const queued = { kind: 'queued', jobId: retry.job.id } as const;
      results.set(retry, jobId === undefined ? queued : { kind: 'under_way', jobId });
    });
    return retries.flatMap((retry) => results.get(retry) ?? []);
  });
}

/**
 * Does the work and records the directive's progress in one transaction. Throws if another process
 * has taken over the directive.
 */
async function inStep<T extends CancelResult | RetryResult>(
  tx: Transaction,
  step: BulkStep | undefined,
  work: () => Promise<T[]>,
): Promise<BulkResult<T>> {
  if (step === undefined) return { results: await work(), progress: createBulkProgress(0) };
  const stored = await lockProgress<BulkProgress>(tx, step);
  if (stored === undefined) {
    throw new DuctileError('STOPPING', 'another process continues the directive');
  }
  // A repeated call after a lost response: the step is committed.
  if (stored !== null && stored.cursor >= step.cursor) return { results: [], progress: stored };
  const results = await work();
  const outcomes = results.map((result) => (typeof result === 'string' ? result : result.kind));
  const progress = advanceBulk(step.before, step.cursor, [...outcomes, ...step.skipped]);
  await writeProgress(tx, step, progress);
  return { results, progress };
}

/** Locks in the order in which attempts are closed, so that two transactions can't deadlock. */
async function lockJobs(tx: Transaction, ids: readonly string[]): Promise<Map<string, Job>> {
  if (ids.length === 0) return new Map();
  // An expression: SQLite prefers to walk through all jobs in order over sorting these few.
  const rows = await tx.run(
    `select ${jobColumns} from ${tx.dialect.table('job_queue')}
      where id in (${ids.map(() => '?').join(', ')}) order by seq + 0 ${tx.dialect.forUpdate}`,
    ids,
  );
  return new Map(rows.map((row) => [text(row, 'id'), toJob(row)]));
}

function toCancelResult(job: Job | undefined): CancelResult {
  if (job === undefined) return 'unknown';
  if (job.status === 'queued' || job.status === 'cancelled') return 'cancelled';
  return job.status === 'running' ? 'requested' : 'terminal';
}

function closeCancelled(job: Job): Closing {
  return {
    job,
    claimToken: null,
    report: createBareReport('cancelled', 'cancelled', 'cancelled before it started'),
    ending: endAsCancelled(job),
    signals: [],
    jobs: [],
  };
}

/** A job that retries another one. */
interface RetryRow {
  readonly id: string;
  readonly isOpen: boolean;
}

/** Lists the retries of each of these jobs, newest first. */
async function listRetries(
  tx: Transaction,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly RetryRow[]>> {
  const rows =
    ids.length === 0
      ? []
      : await tx.each(
          selectRetries,
          ids.map((id) => ({ old_id: id })),
        );
  const found = new Map<string, RetryRow[]>();
  for (const row of rows.toSorted((a, b) => int(b, 'seq') - int(a, 'seq'))) {
    const of = text(row, 'retry_of');
    const retry = { id: text(row, 'id'), isOpen: row['completed_at'] === null };
    found.set(of, [...(found.get(of) ?? []), retry]);
  }
  return found;
}

function refuseRetry(
  { job, isFirst }: Retry,
  old: Job | undefined,
  earlier: readonly RetryRow[],
): RetryResult | undefined {
  if (old === undefined) return { kind: 'unknown' };
  if (!isTerminal(old.status)) return { kind: 'open' };
  const other = earlier.find(({ id, isOpen }) => id !== job.id && (isFirst === true || isOpen));
  return other === undefined ? undefined : { kind: 'under_way', jobId: other.id };
}

const selectRetries = defineRows({
  columns: { old_id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select j.id, j.retry_of, j.completed_at, j.seq from ${d.table('job_queue')} j
        where j.retry_of = ${r('old_id')}`,
    )}`,
});

function toKeyRow(job: Job | undefined): Row[] {
  if (job === undefined || job.dedupeKey === null) return [];
  const { id, dedupeKey, plugin, command } = job;
  return [{ dedupe_key: dedupeKey, plugin, command, job_id: id }];
}

const dropKeys = defineRows({
  columns: { dedupe_key: 'text', plugin: 'text', command: 'text', job_id: 'text' },
  sql: (r, d) => `delete from ${d.table('job_dedupe')} where (dedupe_key, plugin, command, job_id)
    in (select ${['dedupe_key', 'plugin', 'command', 'job_id'].map((name) => r(name)).join(', ')}
      ${r.from})`,
});

/** Cancels one job, for a directive. */
export async function cancelOneJob(tx: Transaction, jobId: string): Promise<DirectiveEnd> {
  const outcome = await cancelJob(tx, jobId);
  if (outcome === 'unknown') return fail('JOB_NOT_FOUND', `there is no job ${jobId}`);
  return { status: 'completed', result: { job_id: jobId, outcome } };
}

/** Retries one job, for a directive. */
export async function retryOneJob(tx: Transaction, retry: Retry): Promise<DirectiveEnd> {
  const { of } = retry;
  const {
    results: [retried],
  } = await retryJobs(tx, [retry]);
  if (retried === undefined || retried.kind === 'unknown')
    return fail('JOB_NOT_FOUND', `there is no job ${of}`);
  if (retried.kind === 'open') return fail('JOB_OPEN', `job ${of} has not ended yet`);
  const { kind, jobId } = retried;
  return { status: 'completed', result: { job_id: jobId, retry_of: of, outcome: kind } };
}

function fail(code: ErrorCode, error: string): DirectiveEnd {
  return { status: 'failed', code, error };
}
