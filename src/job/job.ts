import type { Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { columnOf, table, type Optional, type RowOf } from '../ledger/table.ts';
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

export interface Dedupe {
  readonly key: string;
  readonly ttlMs: number;
  /**
   * Blocks if a job with the same key and target is queued or running, too. Otherwise only a
   * success blocks.
   */
  readonly blockInFlight: boolean;
}

export const jobTable = table('job_queue', {
  seq: 'int',
  id: 'text',
  plugin: 'text',
  command: 'text',
  /** JSON text; opaque to the ledger. */
  payload: 'text',
  status: columnOf<JobStatus>('text'),
  /**
   * Counts every start, crashes and releases included. For a queued job: the number of the next
   * attempt.
   */
  attempt: 'int',
  maxAttempts: 'int',
  /** Failures charged to the job so far. */
  retryCount: 'int',
  /** Service crashes charged to the job so far. */
  crashCount: 'int',
  /** Service crashes in a row during which other jobs ran, too. */
  interruptCount: 'int',
  /** Set after several crashes in a row. At most one suspect runs in a process at a time. */
  suspect: 'flag',
  submittedBy: 'text',
  /** The exact submitter, such as `cli:ann` or `plugin:folder-watch`. */
  actor: 'text',
  dedupeKey: 'text?',
  dedupeTtlMs: 'int?',
  /** At most one job with the same key runs at any time, first come, first served. */
  dependencyKey: 'text?',
  createdAt: 'time',
  readyAt: 'time',
  startedAt: 'time?',
  completedAt: 'time?',
  nextRetryAt: 'time?',
  lastError: 'text?',
  reason: 'text?',
  parentJobId: 'text?',
  /** The signal that caused it. */
  sourceEventId: 'text?',
  /** The first job of its lineage. A job without one is its own root. */
  rootJobId: 'text',
  retryOf: 'text?',
  /** Stable across attempts, crashes and retries of the same work. */
  idempotencyKey: 'text',
  /** The number of signals between the first cause and this job. */
  hops: 'int',
  /** True if one of Ductile's own signals is among its causes. */
  runtimeCaused: 'flag',
  eventContextId: 'text?',
  /** The schedule that caused it, and its slot: generation and number. */
  scheduleId: 'text?',
  scheduleSlot: 'text?',
  claimToken: 'text?',
  claimedBy: 'text?',
  claimExpiresAt: 'time?',
  cancelRequestedAt: 'time?',
  /** The configuration of its latest claim. */
  configSnapshotId: 'text?',
  /** For an init job: the fingerprint of the plugin configuration that it sets up. */
  initFor: 'text?',
  /** For a step of a run: the run, its branch and the step's id in the pipeline. */
  runId: 'text?',
  branchId: 'text?',
  stepId: 'text?',
  /** `<branch>:<moves>` of its base payload. */
  baseKey: 'text?',
  /** Overrides of the plugin's timeout and of the base of its backoff. */
  timeoutMs: 'int?',
  backoffMs: 'int?',
  /** The listener to notify of its end. */
  awaitedBy: 'text?',
});

export type Job = RowOf<typeof jobTable>;

type JobProperties = Pick<Job, 'id' | 'plugin' | 'command' | 'payload' | 'actor' | 'maxAttempts'> &
  Optional<
    Job,
    | 'dependencyKey'
    | 'parentJobId'
    | 'sourceEventId'
    | 'rootJobId'
    | 'retryOf'
    | 'idempotencyKey'
    | 'hops'
    | 'runtimeCaused'
    | 'eventContextId'
    | 'initFor'
    | 'baseKey'
    | 'timeoutMs'
    | 'backoffMs'
  >;

/** A job to be enqueued. The caller creates the id, so that enqueueing is idempotent. */
export interface JobDraft extends JobProperties {
  readonly submittedBy: SubmittedBy;
  readonly dedupe?: Dedupe;
  /** The earliest start: a time, or a delay from its acceptance by the database's clock. */
  readonly due?: { readonly at: Timestamp } | { readonly inMs: number };
  readonly schedule?: { readonly id: string; readonly slot: string };
  /** The step of a run that this job executes. */
  readonly run?: { readonly id: string; readonly branchId: string; readonly stepId: string };
  /** The caller that enqueues the job waits for its end. */
  readonly isAwaited?: boolean;
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
  throw new DuctileError('FORBIDDEN', `${what} must be decided by a person, not by a running job`, {
    hint: 'Have a person run `ductile run approve` or `ductile directive approve`.',
  });
}

/** Throws if a chain of jobs that start each other over the API has reached its limit. */
export function refuseLoop(cause: JobCause | undefined, hopsMax: number): void {
  if (cause === undefined || cause.hops < hopsMax) return;
  const message = `job ${cause.jobId} is the last in a chain of ${hopsMax} jobs and cannot start another`;
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
