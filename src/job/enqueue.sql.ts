import type { EnqueueBatch } from '../ledger/commit.ts';
import {
  defineRows,
  type Dialect,
  type Row,
  type RowsWriter,
  type Transaction,
} from '../ledger/dialect.ts';
import { defineInsert } from '../ledger/insert.ts';
import { insertSignals } from '../signal/signal.sql.ts';
import { findDuplicates, findKeyHolders } from './dedupe.sql.ts';
import type { JobDraft } from './job.ts';
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
  const rows: Row[] = [];
  const delayed: Row[] = [];
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

const jobColumns = {
  id: 'text',
  plugin: 'text',
  command: 'text',
  payload: 'text',
  max_attempts: 'int',
  submitted_by: 'text',
  actor: 'text',
  dedupe_key: 'text',
  dedupe_ttl_ms: 'int',
  dependency_key: 'text',
  parent_job_id: 'text',
  source_event_id: 'text',
  root_job_id: 'text',
  retry_of: 'text',
  idempotency_key: 'text',
  hops: 'int',
  runtime_caused: 'int',
  event_context_id: 'text',
  schedule_id: 'text',
  schedule_slot: 'text',
  init_for: 'text',
  run_id: 'text',
  branch_id: 'text',
  step_id: 'text',
  base_key: 'text',
  timeout_ms: 'int',
  backoff_ms: 'int',
  awaited_by: 'text',
} as const;

function insertInto(r: RowsWriter, d: Dialect, readyAt: string, dueAt: string): string {
  return `insert into ${d.table('job_queue')}
    (id, plugin, command, payload, status, max_attempts, submitted_by, actor, dedupe_key,
      dedupe_ttl_ms, dependency_key, parent_job_id, source_event_id, root_job_id, retry_of,
      idempotency_key, hops, runtime_caused, event_context_id, schedule_id, schedule_slot,
      init_for, run_id, branch_id, step_id, base_key, timeout_ms, backoff_ms, awaited_by,
      created_at, ready_at, next_retry_at)
    ${r.values(`${r('id')}, ${r('plugin')}, ${r('command')}, ${r('payload')}, 'queued',
      ${r('max_attempts')}, ${r('submitted_by')}, ${r('actor')}, ${r('dedupe_key')},
      ${r('dedupe_ttl_ms')}, ${r('dependency_key')}, ${r('parent_job_id')}, ${r('source_event_id')},
      ${r('root_job_id')}, ${r('retry_of')}, ${r('idempotency_key')}, ${r('hops')}, ${r('runtime_caused')},
      ${r('event_context_id')}, ${r('schedule_id')}, ${r('schedule_slot')}, ${r('init_for')},
      ${r('run_id')}, ${r('branch_id')}, ${r('step_id')}, ${r('base_key')}, ${r('timeout_ms')},
      ${r('backoff_ms')}, ${r('awaited_by')}, ${d.statementNow}, ${readyAt}, ${dueAt}`)}
    on conflict (id) do nothing`;
}

const insertJobs = defineRows({
  columns: jobColumns,
  sql: (r, d) => insertInto(r, d, d.statementNow, 'null'),
});

/** A due time in the past means ready now: it must not make the job older than it is. */
const insertDelayedJobs = defineRows({
  columns: { ...jobColumns, due_at: 'text', delay_ms: 'int' },
  sql: (r, d) => {
    const due = `coalesce(${r('due_at')}, ${d.nowPlus(r('delay_ms'))})`;
    return insertInto(
      r,
      d,
      `case when ${due} > ${d.now} then ${due} else ${d.now} end`,
      `case when ${due} > ${d.now} then ${due} end`,
    );
  },
});

function toDelayedRow(job: JobDraft, listener: string | null): Row {
  const { due = { inMs: 0 } } = job;
  return {
    ...toRow(job, listener),
    due_at: 'at' in due ? due.at : null,
    delay_ms: 'at' in due ? 0 : due.inMs,
  };
}

function toRow(job: JobDraft, listener: string | null): Row {
  return {
    id: job.id,
    plugin: job.plugin,
    command: job.command,
    payload: job.payload,
    max_attempts: job.maxAttempts,
    submitted_by: job.submittedBy,
    actor: job.actor,
    dedupe_key: job.dedupe?.key ?? null,
    dedupe_ttl_ms: job.dedupe?.ttlMs ?? null,
    dependency_key: job.dependencyKey ?? null,
    parent_job_id: job.parentJobId ?? null,
    source_event_id: job.sourceEventId ?? null,
    root_job_id: job.rootJobId ?? job.id,
    retry_of: job.retryOf ?? null,
    idempotency_key: job.idempotencyKey ?? job.id,
    hops: job.hops ?? 0,
    runtime_caused: job.runtimeCaused === true ? 1 : 0,
    event_context_id: job.eventContextId ?? null,
    schedule_id: job.schedule?.id ?? null,
    schedule_slot: job.schedule?.slot ?? null,
    init_for: job.initFor ?? null,
    run_id: job.run?.id ?? null,
    branch_id: job.run?.branchId ?? null,
    step_id: job.run?.stepId ?? null,
    base_key: job.baseKey ?? null,
    timeout_ms: job.timeoutMs ?? null,
    backoff_ms: job.backoffMs ?? null,
    awaited_by: job.isAwaited === true ? listener : null,
  };
}
