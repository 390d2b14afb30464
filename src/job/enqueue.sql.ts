import type { EnqueueBatch } from '../ledger/commit.ts';
import type { Transaction } from '../ledger/dialect.ts';
import { defineInsert } from '../ledger/insert.ts';
import { insertSignals } from '../signal/signal.sql.ts';
import { findDuplicates, findKeyHolders } from './dedupe.sql.ts';
import { jobTable, type JobDraft } from './job.ts';
import { contextTable, type ContextDraft, type EnqueueResult } from './types.ts';

/** Adds jobs, alone or as part of a settlement. All jobs are added here. */
export async function enqueueJobs(tx: Transaction, batch: EnqueueBatch): Promise<EnqueueResult[]> {
  const { contexts = [], signals = [] } = batch;
  insertContexts(tx, contexts);
  if (signals.length > 0) insertSignals(tx, signals);
  if (batch.jobs.every(({ dedupe }) => dedupe === undefined)) {
    insertAll(tx, batch.jobs);
    return batch.jobs.map(({ id }) => ({ jobId: id }));
  }
  // A job that appears twice in a batch is added once.
  const jobs = [...new Map(batch.jobs.map((job) => [job.id, job])).values()];
  const duplicates = await findDuplicates(tx, jobs);
  insertAll(
    tx,
    jobs.filter((job) => !duplicates.has(job.id)),
  );
  return batch.jobs.map((job) => toAnswer(job, duplicates));
}

/** A job that is in the ledger already is the same request again. */
function insertAll(tx: Transaction, jobs: readonly JobDraft[]): void {
  const listener = tx.ends?.listener ?? null;
  const rows: ReturnType<typeof toRow>[] = [];
  const delayed: ReturnType<typeof toDelayedRow>[] = [];
  for (const job of jobs) {
    if (isDelayed(job)) delayed.push(toDelayedRow(job, listener));
    else rows.push(toRow(job, listener));
  }
  tx.send(insertJobs, rows);
  tx.send(insertDelayedJobs, delayed);
}

function isDelayed({ due }: JobDraft): boolean {
  return due !== undefined && ('at' in due || due.inMs > 0);
}

/** Returns the result of an enqueue that was committed before its response was lost. */
export async function findEnqueued(
  tx: Transaction,
  jobs: readonly JobDraft[],
): Promise<EnqueueResult[]> {
  const keyed = jobs.filter(({ dedupe }) => dedupe !== undefined);
  const holders = keyed.length === 0 ? noHolders : await findKeyHolders(tx, keyed);
  return jobs.map((job) => toAnswer(job, holders));
}

const noHolders: ReadonlyMap<string, string> = new Map();

function toAnswer(job: JobDraft, duplicates: ReadonlyMap<string, string>): EnqueueResult {
  const duplicateOf = duplicates.get(job.id);
  if (duplicateOf === undefined) return { jobId: job.id };
  return { jobId: job.id, duplicateOf, dedupeKey: job.dedupe?.key ?? '' };
}

/** Inserts jobs that have no key and are ready now. */
export function insertPlainJobs(tx: Transaction, jobs: readonly JobDraft[]): void {
  tx.send(
    insertJobs,
    jobs.map((job) => toRow(job, null)),
  );
}

export function insertContexts(tx: Transaction, contexts: readonly ContextDraft[]): void {
  tx.send(insertContext, contexts);
}

const insertContext = defineInsert(contextTable, {
  properties: contextTable.except('createdAt'),
  sql: (_, d) => ({ createdAt: d.now }),
  rest: 'on conflict (id) do nothing',
});

/** The columns that a job starts with. The others have their defaults. */
const inserted = jobTable.except(
  'seq',
  'status',
  'attempt',
  'retryCount',
  'crashCount',
  'interruptCount',
  'suspect',
  'createdAt',
  'readyAt',
  'startedAt',
  'completedAt',
  'nextRetryAt',
  'lastError',
  'reason',
  'claimToken',
  'claimedBy',
  'claimExpiresAt',
  'cancelRequestedAt',
  'configSnapshotId',
);

const insertJobs = defineInsert(jobTable, {
  properties: inserted,
  sql: (_, d) => ({
    status: `'queued'`,
    createdAt: d.statementNow,
    readyAt: d.statementNow,
  }),
  rest: 'on conflict (id) do nothing',
});

/** A due time in the past means ready now: it must not make the job older than it is. */
const insertDelayedJobs = defineInsert(jobTable, {
  properties: inserted,
  parameters: { due_at: 'text', delay_ms: 'int' },
  sql: (r, d) => {
    const due = `coalesce(${r('due_at')}, ${d.nowPlus(r('delay_ms'))})`;
    return {
      status: `'queued'`,
      createdAt: d.statementNow,
      readyAt: `case when ${due} > ${d.now} then ${due} else ${d.now} end`,
      nextRetryAt: `case when ${due} > ${d.now} then ${due} end`,
    };
  },
  rest: 'on conflict (id) do nothing',
});

function toDelayedRow(job: JobDraft, listener: string | null) {
  const { due = { inMs: 0 } } = job;
  return {
    ...toRow(job, listener),
    due_at: 'at' in due ? due.at : null,
    delay_ms: 'at' in due ? 0 : due.inMs,
  };
}

function toRow(job: JobDraft, listener: string | null) {
  const { id, dedupe, schedule, run } = job;
  return {
    ...job,
    dedupeKey: dedupe?.key,
    dedupeTtlMs: dedupe?.ttlMs,
    rootJobId: job.rootJobId ?? id,
    idempotencyKey: job.idempotencyKey ?? id,
    hops: job.hops ?? 0,
    runtimeCaused: job.runtimeCaused ?? false,
    scheduleId: schedule?.id,
    scheduleSlot: schedule?.slot,
    runId: run?.id,
    branchId: run?.branchId,
    stepId: run?.stepId,
    awaitedBy: job.isAwaited === true ? listener : null,
  };
}
