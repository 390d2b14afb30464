import type { Job, JobDraft } from './job.ts';

/** The progress of a directive over many jobs, with the counts of outcomes. */
export interface BulkProgress {
  /**
   * The last job that was processed, and the newest one that existed when the directive started.
   */
  readonly cursor: number;
  readonly upTo: number;
  /** The number of jobs that count toward the limit. */
  readonly jobs: number;
  readonly counts: Readonly<Record<string, number>>;
}

/** The reasons to skip a job in a retry. A skipped job would match again, so it doesn't count. */
const retrySkips = ['unknown_plugin', 'init', 'run_step'] as const;
export type RetrySkip = (typeof retrySkips)[number];

export function createBulkProgress(upTo: number): BulkProgress {
  return { cursor: 0, upTo, jobs: 0, counts: {} };
}

/** Adds the outcomes of one step. */
export function advanceBulk(
  { upTo, jobs, counts }: BulkProgress,
  cursor: number,
  outcomes: readonly string[],
): BulkProgress {
  const sums: Record<string, number> = { ...counts };
  for (const outcome of outcomes) sums[outcome] = (sums[outcome] ?? 0) + 1;
  const counted = outcomes.filter((outcome) => !retrySkips.some((skip) => skip === outcome));
  return { cursor, upTo, jobs: jobs + counted.length, counts: sums };
}

interface RetryDraft {
  readonly id: string;
  readonly actor: string;
  readonly maxAttempts: number;
  /** The minimum number of hops from its first cause. */
  readonly hops?: number;
}

/** Drafts a new job that repeats the work of another: same lineage, same idempotency key. */
export function draftRetry(job: Job, { id, actor, maxAttempts, hops = 0 }: RetryDraft): JobDraft {
  return {
    id,
    plugin: job.plugin,
    command: job.command,
    payload: job.payload,
    submittedBy: 'directive',
    actor,
    maxAttempts,
    rootJobId: job.rootJobId,
    retryOf: job.id,
    idempotencyKey: job.idempotencyKey,
    hops: Math.max(job.hops, hops),
    runtimeCaused: job.runtimeCaused,
    ...(job.parentJobId === null ? {} : { parentJobId: job.parentJobId }),
    ...(job.sourceEventId === null ? {} : { sourceEventId: job.sourceEventId }),
    ...(job.eventContextId === null ? {} : { eventContextId: job.eventContextId }),
    ...(job.dependencyKey === null ? {} : { dependencyKey: job.dependencyKey }),
    ...(job.dedupeKey === null
      ? {}
      : { dedupe: { key: job.dedupeKey, ttlMs: job.dedupeTtlMs ?? 0, blockInFlight: true } }),
  };
}

/** The kinds of rows that are history and are deleted after their retention. */
export const historyKinds = [
  'jobs',
  'attempts',
  'signals',
  'facts',
  'contexts',
  'directives',
  'transitions',
  'tokens',
  'snapshots',
  'health',
  'schedules',
  'runs',
  'definitions',
  'deliveries',
  'incidents',
] as const;
export type HistoryKind = (typeof historyKinds)[number];

/** A step of a directive over many jobs. */
export interface BulkStep {
  readonly directiveId: string;
  readonly processId: string;
  readonly before: BulkProgress;
  /** The last job of this step. */
  readonly cursor: number;
  /** The reasons why jobs of this step were skipped, one for each. */
  readonly skipped: readonly string[];
}

export interface BulkResult<Result> {
  /** In the order of the request. Empty if the step was committed before. */
  readonly results: readonly Result[];
  readonly progress: BulkProgress;
}

/** A job to retry, and the draft of the job that repeats its work. */
export interface Retry {
  readonly of: string;
  readonly job: JobDraft;
  /** Refuses the retry if the job was ever retried before. */
  readonly isFirst?: boolean;
}

/** The result of one retry. `under_way` names the job that already repeats the work. */
export type RetryResult =
  | { readonly kind: 'queued'; readonly jobId: string }
  | { readonly kind: 'under_way'; readonly jobId: string }
  | { readonly kind: 'open' }
  | { readonly kind: 'unknown' };
