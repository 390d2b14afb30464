import type { Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import {
  parseTraceparent,
  toSpanId,
  toTraceId,
  TRACE_KEY,
  formatTraceparent,
  type TraceContext,
} from '../base/trace.ts';

/** The ways in which jobs are submitted. */
export const submitters = [
  'scheduler',
  'webhook',
  'route',
  'cli',
  'api',
  'directive',
  'replay',
] as const;

export type SubmittedBy = (typeof submitters)[number];

/** A job to be enqueued. The caller creates the id, so that enqueueing is idempotent. */
export interface JobDraft {
  readonly id: string;
  readonly plugin: string;
  readonly command: string;
  /** JSON text; opaque to the ledger. */
  readonly payload: string;
  readonly submittedBy: SubmittedBy;
  /** The exact submitter, such as `cli:ann` or `plugin:folder-watch`. */
  readonly actor: string;
  readonly maxAttempts: number;
  readonly dedupe?: Dedupe;
  /** At most one job with the same key runs at any time, first come, first served. */
  readonly dependencyKey?: string;
  /** The earliest start: a time, or a delay from its acceptance by the database's clock. */
  readonly due?: { readonly at: Timestamp } | { readonly inMs: number };
  readonly parentJobId?: string;
  /** The signal that caused it. */
  readonly sourceEventId?: string;
  /** The first job of its lineage. A job without one is its own root. */
  readonly rootJobId?: string;
  readonly retryOf?: string;
  /** Stable across attempts, crashes and retries of the same work. */
  readonly idempotencyKey?: string;
  /** The number of signals between the first cause and this job. */
  readonly hops?: number;
  /** True if one of Ductile's own signals is among its causes. */
  readonly runtimeCaused?: boolean;
  readonly eventContextId?: string;
  /** The schedule that caused it, and its slot: generation and number. */
  readonly schedule?: { readonly id: string; readonly slot: string };
  /** For an init job: the fingerprint of the plugin configuration that it sets up. */
  readonly initFor?: string;
  /** The step of a run that this job executes. */
  readonly run?: { readonly id: string; readonly branchId: string; readonly stepId: string };
  /** For a step of a branch: the key of the base payload. */
  readonly baseKey?: string;
  /** Overrides of the plugin's timeout and of the base of its backoff. */
  readonly timeoutMs?: number;
  readonly backoffMs?: number;
  /** The caller that enqueues the job waits for its end. */
  readonly isAwaited?: boolean;
}

export interface Dedupe {
  readonly key: string;
  readonly ttlMs: number;
  /**
   * Blocks if a job with the same key and target is queued or running, too. Otherwise only a
   * success blocks.
   */
  readonly blockInFlight: boolean;
}

/** A row of `job_queue`. */
export interface Job {
  readonly seq: number;
  readonly id: string;
  readonly plugin: string;
  readonly command: string;
  readonly payload: string;
  readonly status: JobStatus;
  /**
   * Counts every start, crashes and releases included. For a queued job: the number of the next
   * attempt.
   */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Failures charged to the job so far. */
  readonly retryCount: number;
  /** Service crashes charged to the job so far. */
  readonly crashCount: number;
  /** Service crashes in a row during which other jobs ran, too. */
  readonly interruptCount: number;
  /** Set after several crashes in a row. At most one suspect runs in a process at a time. */
  readonly suspect: boolean;
  readonly submittedBy: string;
  readonly actor: string;
  readonly dedupeKey: string | null;
  readonly dedupeTtlMs: number | null;
  readonly dependencyKey: string | null;
  readonly createdAt: Timestamp;
  readonly readyAt: Timestamp;
  readonly startedAt: Timestamp | null;
  readonly completedAt: Timestamp | null;
  readonly nextRetryAt: Timestamp | null;
  readonly lastError: string | null;
  readonly reason: string | null;
  readonly parentJobId: string | null;
  readonly sourceEventId: string | null;
  readonly rootJobId: string;
  readonly retryOf: string | null;
  readonly idempotencyKey: string;
  readonly hops: number;
  readonly runtimeCaused: boolean;
  readonly eventContextId: string | null;
  readonly scheduleId: string | null;
  readonly scheduleSlot: string | null;
  readonly claimToken: string | null;
  readonly claimedBy: string | null;
  readonly claimExpiresAt: Timestamp | null;
  readonly cancelRequestedAt: Timestamp | null;
  /** The configuration of its latest claim. */
  readonly configSnapshotId: string | null;
  /** For a step of a run: the run, its branch and the step's id in the pipeline. */
  readonly runId: string | null;
  readonly branchId: string | null;
  readonly stepId: string | null;
  /** `<branch>:<moves>` of its base payload. */
  readonly baseKey: string | null;
  /** Overrides of the plugin's settings. */
  readonly timeoutMs: number | null;
  readonly backoffMs: number | null;
  /** The listener to notify of its end. */
  readonly awaitedBy: string | null;
}

/** The states of a job. */
export const jobStatuses = [
  'queued',
  'running',
  'succeeded',
  'failed',
  'timed_out',
  'dead',
  'cancelled',
  'skipped',
] as const;

export type JobStatus = (typeof jobStatuses)[number];

/** The transitions between states. A state without transitions is terminal. */
const transitions: Readonly<Record<JobStatus, readonly JobStatus[]>> = {
  queued: ['running', 'cancelled', 'skipped', 'dead'],
  running: ['queued', 'succeeded', 'failed', 'timed_out', 'dead', 'cancelled', 'skipped'],
  succeeded: [],
  failed: [],
  timed_out: [],
  dead: [],
  cancelled: [],
  skipped: [],
};

export function canTransition(from: JobStatus, to: JobStatus): boolean {
  return transitions[from].includes(to);
}

export function isTerminal(status: JobStatus): boolean {
  return transitions[status].length === 0;
}

/** The result of a cancellation. `requested`: the job is running, and its process is notified. */
export type CancelResult = 'cancelled' | 'requested' | 'terminal' | 'unknown';

/**
 * The running job on whose behalf a caller acts. All jobs that the caller starts descend from it.
 */
export interface JobCause {
  readonly jobId: string;
  readonly rootJobId: string;
  readonly sourceEventId: string | null;
  readonly hops: number;
  readonly runtimeCaused: boolean;
}

type JobLineage = Pick<JobDraft, 'parentJobId' | 'rootJobId' | 'hops' | 'runtimeCaused'>;

/** Returns the lineage of a job or run that a running job starts. Empty without a cause. */
export function lineageOf(cause: JobCause | undefined): JobLineage {
  if (cause === undefined) return {};
  const { jobId, rootJobId, hops, runtimeCaused } = cause;
  return { parentJobId: jobId, rootJobId, hops: hops + 1, runtimeCaused };
}

/** The prefix of the actor name of a running job. */
export const JOB_ACTOR = 'job:';

/** Throws if a running job tries to make a decision that is reserved for a person. */
export function refuseDecision({ cause }: { readonly cause?: JobCause }, what: string): void {
  if (cause === undefined) return;
  throw new DuctileError('FORBIDDEN', `${what} is for a person to decide, not for a running job`, {
    hint: 'Decide it yourself: `ductile run approve`, or `ductile directive approve`.',
  });
}

/** Throws if a chain of jobs that start each other over the API has reached its limit. */
export function refuseLoop(cause: JobCause | undefined, hopsMax: number): void {
  if (cause === undefined || cause.hops < hopsMax) return;
  const message = `the job ${cause.jobId} is the last in a chain of ${hopsMax}, and may start nothing`;
  throw new DuctileError('HOPS_EXCEEDED', message, { place: 'service.max_hops' });
}

type TracedJob = Job & { readonly context?: string };

/** Returns the W3C `traceparent` of a job's current attempt. */
export function traceparentOf(job: TracedJob): string {
  const { traceId, isSampled } = findTrace(job);
  return formatTraceparent({ traceId, spanId: toSpanId(job.id, job.attempt), isSampled });
}

/**
 * Finds the trace of a job: the trace in its baggage, or one named after the first job of its lineage.
 * Span ids are computed from job ids alone, so hosts need no coordination.
 */
export function findTrace(
  job: TracedJob,
): Omit<TraceContext, 'spanId'> & { readonly parentSpanId?: string | undefined } {
  const outer = parseTraceparent(readBaggage(job)[TRACE_KEY]);
  const parentSpanId = job.runId ?? job.parentJobId;
  return {
    traceId: outer?.traceId ?? toTraceId(job.rootJobId),
    isSampled: outer?.isSampled ?? true,
    parentSpanId: parentSpanId === null ? outer?.spanId : toSpanId(parentSpanId),
  };
}

function readBaggage({ context = '{}' }: TracedJob): Readonly<Record<string, unknown>> {
  // Most jobs have no trace in their baggage, so it need not be parsed.
  if (!context.includes(TRACE_KEY)) return {};
  const value: unknown = parseJson(context);
  return isObject(value) ? value : {};
}
