import { DuctileError } from '../base/errors.ts';
import {
  advanceBulk,
  bulkBegin,
  type BulkProgress,
  type BulkDone,
  type BulkStep,
  type Retry,
  type RetryAnswer,
} from './directives.ts';
import { bareReport } from './attempt.ts';
import { isTerminal, type Job, type CancelAnswer } from './job.ts';
import { endAsCancelled } from './outcome.ts';
import { defineRows, type Row, type Transaction } from '../ledger/dialect.ts';
import type { Closing } from '../ledger/commit.ts';
import { enqueueJobs } from './enqueue.sql.ts';
import { lockProgress, writeProgress } from '../directive/progress.sql.ts';
import { int, text } from '../ledger/row.ts';
import { jobColumns, toJob } from './job.sql.ts';
import { askToStop } from '../pipeline/run/change.sql.ts';
import { settleClosings } from './settle.sql.ts';

export async function cancelJob(tx: Transaction, jobId: string): Promise<CancelAnswer> {
  const { answers } = await cancelJobs(tx, [jobId]);
  return answers[0] ?? 'unknown';
}

/** Cancels jobs with a number of statements that doesn't depend on their count. */
export async function cancelJobs(
  tx: Transaction,
  jobIds: readonly string[],
  step?: BulkStep,
): Promise<BulkDone<CancelAnswer>> {
  return await inStep(tx, step, async () => {
    const jobs = await lockJobs(tx, jobIds);
    const known = jobIds.flatMap((id) => jobs.get(id) ?? []);
    const queued = known.filter(({ status }) => status === 'queued');
    const running = known.filter(({ status }) => status === 'running');
    await askToStop(
      tx,
      running.map(({ id }) => id),
    );
    if (queued.length > 0) await settleClosings(tx, queued.map(toCancelled));
    return jobIds.map((id) => cancelAnswerOf(jobs.get(id)));
  });
}

/**
 * Queues the work of ended jobs again, unless it is queued or running already. The old rows are
 * locked, so the second of two callers sees what the first one did.
 */
export async function retryJobs(
  tx: Transaction,
  retries: readonly Retry[],
  step?: BulkStep,
): Promise<BulkDone<RetryAnswer>> {
  return await inStep(tx, step, async () => {
    const ids = retries.map(({ of }) => of);
    const jobs = await lockJobs(tx, ids);
    const others = await findRetries(tx, ids);
    const answers = new Map<Retry, RetryAnswer>();
    for (const retry of retries) {
      const refusal = refuseRetry(retry, jobs.get(retry.of), others.get(retry.of) ?? []);
      if (refusal !== undefined) answers.set(retry, refusal);
    }
    const wanted = retries.filter((retry) => !answers.has(retry));
    // The success of a job must not block its own retry.
    await tx.each(
      dropKeys,
      wanted.flatMap(({ of }) => toKeyRow(jobs.get(of))),
    );
    const added = await enqueueJobs(tx, { jobs: wanted.map(({ job }) => job) });
    wanted.forEach((retry, index) => {
      const jobId = added[index]?.duplicateOf;
      const queued = { kind: 'queued', jobId: retry.job.id } as const;
      answers.set(retry, jobId === undefined ? queued : { kind: 'under_way', jobId });
    });
    return retries.flatMap((retry) => answers.get(retry) ?? []);
  });
}

/**
 * Does the work and records the directive's progress in one transaction, unless another process has
 * taken the directive over.
 */
async function inStep<T extends CancelAnswer | RetryAnswer>(
  tx: Transaction,
  step: BulkStep | undefined,
  work: () => Promise<T[]>,
): Promise<BulkDone<T>> {
  if (step === undefined) return { answers: await work(), progress: bulkBegin(0) };
  const stored = await lockProgress<BulkProgress>(tx, step);
  if (stored === undefined) {
    throw new DuctileError('STOPPING', 'another process continues the directive');
  }
  // A repeated call after a lost response: the step is committed.
  if (stored !== null && stored.cursor >= step.cursor) return { answers: [], progress: stored };
  const answers = await work();
  const outcomes = answers.map((answer) => (typeof answer === 'string' ? answer : answer.kind));
  const progress = advanceBulk(step.before, step.cursor, [...outcomes, ...step.skipped]);
  await writeProgress(tx, step, progress);
  return { answers, progress };
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

function cancelAnswerOf(job: Job | undefined): CancelAnswer {
  if (job === undefined) return 'unknown';
  if (job.status === 'queued' || job.status === 'cancelled') return 'cancelled';
  return job.status === 'running' ? 'requested' : 'terminal';
}

function toCancelled(job: Job): Closing {
  return {
    job,
    claimToken: null,
    report: bareReport('cancelled', 'cancelled', 'cancelled before it started'),
    ending: endAsCancelled(job),
    signals: [],
    jobs: [],
  };
}

interface Other {
  readonly id: string;
  readonly isOpen: boolean;
}

/** Finds the retries of each of these jobs, newest first. */
async function findRetries(
  tx: Transaction,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly Other[]>> {
  const rows =
    ids.length === 0
      ? []
      : await tx.each(
          selectRetries,
          ids.map((id) => ({ old_id: id })),
        );
  const found = new Map<string, Other[]>();
  for (const row of rows.toSorted((a, b) => int(b, 'seq') - int(a, 'seq'))) {
    const of = text(row, 'retry_of');
    const other = { id: text(row, 'id'), isOpen: row['completed_at'] === null };
    found.set(of, [...(found.get(of) ?? []), other]);
  }
  return found;
}

function refuseRetry(
  { job, isFirst }: Retry,
  old: Job | undefined,
  others: readonly Other[],
): RetryAnswer | undefined {
  if (old === undefined) return { kind: 'unknown' };
  if (!isTerminal(old.status)) return { kind: 'open' };
  const other = others.find(({ id, isOpen }) => id !== job.id && (isFirst === true || isOpen));
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
