import type { Timestamp } from '../base/clock.ts';

/** The ways in which work comes in. */
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

/** What somebody wants done. The id is made by the caller, so that asking twice is asking once. */
export interface JobDraft {
  readonly id: string;
  readonly plugin: string;
  readonly command: string;
  /** JSON text; opaque to the ledger. */
  readonly payload: string;
  readonly submittedBy: SubmittedBy;
  /** Who exactly, such as `cli:ann` or `plugin:folder-watch`. */
  readonly actor: string;
  readonly maxAttempts: number;
  readonly dedupe?: Dedupe;
  /** Of all jobs with the same one, at most one runs at any time; first come, first served. */
  readonly dependencyKey?: string;
  /** Not before this: a time, or from its acceptance on, by the database's clock. */
  readonly due?: { readonly at: Timestamp } | { readonly inMs: number };
  readonly parentJobId?: string;
  /** The signal that caused it. */
  readonly sourceEventId?: string;
  /** The first job of its lineage; a job without one is its own root. */
  readonly rootJobId?: string;
  readonly retryOf?: string;
  /** Stable over attempts, crashes and retries of the same work. */
  readonly idempotencyKey?: string;
  /** How many signals lie between the first cause and this job. */
  readonly hops?: number;
  /** A signal of the runtime itself is among its causes. */
  readonly runtimeCaused?: boolean;
  readonly eventContextId?: string;
  /** The schedule that caused it, and its slot: generation and number. */
  readonly schedule?: { readonly id: string; readonly slot: string };
  /** Of an init: the fingerprint of the plugin's configuration that it is for. */
  readonly initFor?: string;
  /** The step of a run that it is. */
  readonly run?: { readonly id: string; readonly branchId: string; readonly stepId: string };
  /** Names what lies beneath its payload, when it is a step of a branch. */
  readonly baseKey?: string;
  /** How long an attempt may take, and what its retries' delay grows from, instead of the plugin's. */
  readonly timeoutMs?: number;
  readonly backoffMs?: number;
  /** Whoever enqueues it waits for its end. */
  readonly isAwaited?: boolean;
}

export interface Dedupe {
  readonly key: string;
  readonly ttlMs: number;
  /** Whether a queued or running job with the same key and target blocks too, not only a succeeded one. */
  readonly blockInFlight: boolean;
}

/** A row of job_queue, as code sees it. */
export interface Job {
  readonly seq: number;
  readonly id: string;
  readonly plugin: string;
  readonly command: string;
  readonly payload: string;
  readonly status: JobStatus;
  /** Numbers every start, crashes and releases included; of a queued job, the coming one. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Failures charged to the job so far. */
  readonly retryCount: number;
  /** Engine crashes charged to the job so far. */
  readonly crashCount: number;
  /** Engine crashes in a row that the job met in company. */
  readonly interruptCount: number;
  /** Met several crashes in a row: at most one such job runs in a process at a time. */
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
  /** What it ran with when it was last claimed. */
  readonly configSnapshotId: string | null;
  /** The step of a run that it is: the run, its branch and the step's id in the pipeline. */
  readonly runId: string | null;
  readonly branchId: string | null;
  readonly stepId: string | null;
  /** `<branch>:<moves>` of what lies beneath its payload. */
  readonly baseKey: string | null;
  /** Its own, instead of the plugin's. */
  readonly timeoutMs: number | null;
  readonly backoffMs: number | null;
  /** The listener that is told of its end. */
  readonly awaitedBy: string | null;
}

/** The states of a job and the moves between them. A state without moves is terminal for ever. */
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

const moves: Readonly<Record<JobStatus, readonly JobStatus[]>> = {
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
  return moves[from].includes(to);
}

export function isTerminal(status: JobStatus): boolean {
  return moves[status].length === 0;
}

/** What came of asking for a job's end. `requested`: it runs, and whoever runs it is told. */
export type CancelAnswer = 'cancelled' | 'requested' | 'terminal' | 'unknown';
