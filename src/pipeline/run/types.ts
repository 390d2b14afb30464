import type { Timestamp } from '../../base/clock.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { JsonObject } from '../../base/json.ts';
import type { SealedText } from '../../base/seal.ts';
import type { Dedupe, JobDraft, SubmittedBy } from '../../job/job.ts';
import type { BranchStatus, Run, RunStatus, StepStatus } from './run.ts';
import type { SignalDraft } from '../../signal/signal.ts';

/** Which job of a run it is: its branch, the job before it, and the key of its work. */
export interface StepPlace {
  readonly runId: string;
  readonly branchId: string;
  readonly parentJobId: string | null;
  readonly idempotencyKey: string;
}

/** A run that is to begin. The id is made by the caller, so that asking twice is asking once. */
export interface RunDraft {
  readonly id: string;
  readonly pipeline: string;
  readonly definitionHash: string;
  /** JSON text of an object. */
  readonly payload: string;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  /** The id that its first job gets, when its first step is one. */
  readonly firstJobId: string;
  readonly parentJobId?: string;
  readonly sourceEventId?: string;
  readonly rootJobId?: string;
  /** What the idempotency keys of its jobs are made from; its own id unless told. */
  readonly lineage?: string;
  readonly hops?: number;
  readonly runtimeCaused?: boolean;
  readonly eventContextId?: string;
  /** It waits while as many of the same key are under way. */
  readonly concurrency?: { readonly key: string; readonly limit: number };
  /** Whoever begins it waits for its end. */
  readonly isAwaited?: boolean;
  /** It does not begin before. */
  readonly due?: NonNullable<JobDraft['due']>;
  /** While another run of its pipeline has this key, it is not added. */
  readonly dedupe?: RunDedupe;
}

/** Held while the run is open, and for this time after its success. */
export type RunDedupe = Pick<Dedupe, 'key' | 'ttlMs'>;

/** What became of a draft; `duplicateOf` names the run that has its key: nothing was added then. */
export interface RunStart {
  readonly runId: string;
  /** Of the run that was begun; of the one that has the key otherwise. */
  readonly status: RunStatus;
  readonly duplicateOf?: string;
  readonly dedupeKey?: string;
}

/** A run that can't continue, or that waits for a person. */
export interface Halt {
  readonly run: Run;
  /** By which it is told. */
  readonly signal: SignalDraft;
  /** Its last job, or the one that caused it. */
  readonly parentJobId: string | null;
  readonly context: JsonObject;
}

/** The jobs, without keys, and the runs that follow from what only a transaction finds out. */
export interface Followers {
  readonly jobs: readonly JobDraft[];
  readonly runs: readonly RunDraft[];
}

export type FollowHalt = (halt: Halt) => Followers;

/** What a signal said, as JSON text; throws when that cannot be opened. */
export type OpenSignal = (signalId: string, sealed: SealedText) => string;

export interface BranchClaimRequest {
  readonly processId: string;
  readonly token: string;
  readonly limit: number;
}

export interface BranchClaim {
  readonly branchIds: readonly string[];
  /** Milliseconds until the next branch is due, by the database's clock. */
  readonly nextInMs: number | undefined;
}

export interface AdvanceRequest {
  readonly branchId: string;
  readonly token: string;
}

/** What else happened in a transaction that moved runs. */
export interface RunNews {
  /** Branches were left for an advancer. */
  readonly advancing: boolean;
  /** Jobs were queued. */
  readonly queued: boolean;
  /** Until the first of the waits that began. */
  readonly dueInMs: number | undefined;
  /** Branches that could not be moved on, and were left for an advancer because of that. */
  readonly failures?: readonly AdvancementFailure[];
  /** Runs that were not begun, because others have their keys. */
  readonly dropped?: readonly RunStart[];
  /** Runs that came to their end, however. */
  readonly ended?: readonly string[];
}

export interface AdvancementFailure {
  readonly branchId: string;
  readonly error: string;
}

export const noNews: RunNews = { advancing: false, queued: false, dueInMs: undefined };

export function joinNews(news: readonly RunNews[]): RunNews {
  const dues = news.flatMap(({ dueInMs }) => (dueInMs === undefined ? [] : [dueInMs]));
  const failures = news.flatMap((one) => one.failures ?? []);
  const dropped = news.flatMap((one) => one.dropped ?? []);
  const ended = news.flatMap((one) => one.ended ?? []);
  return {
    advancing: news.some(({ advancing }) => advancing),
    queued: news.some(({ queued }) => queued),
    dueInMs: dues.length === 0 ? undefined : Math.min(...dues),
    ...(failures.length === 0 ? {} : { failures }),
    ...(dropped.length === 0 ? {} : { dropped }),
    ...(ended.length === 0 ? {} : { ended }),
  };
}

/** `more`: a batch is done and the branch is still claimed. `fenced`: it is somebody else's now. */
export interface AdvanceAnswer extends RunNews {
  readonly verdict: 'done' | 'more' | 'fenced';
}

export interface ReleaseBranchRequest extends AdvanceRequest {
  readonly error: string;
  readonly triesMax: number;
}

export interface RewindRefusal {
  readonly code: ErrorCode;
  readonly error: string;
}

export interface RunFilter {
  readonly pipeline?: string;
  readonly status?: readonly RunStatus[];
  /** Those under way that wait for a person. */
  readonly awaitingApproval?: true;
  readonly idPrefix?: string;
  readonly rootJobId?: string;
  /** Those that this signal started. */
  readonly sourceEventId?: string;
  /** The one that goes on with the work of this run. */
  readonly revivedFrom?: string;
  /** Those that are under way with this key. */
  readonly concurrencyKey?: string;
  readonly beforeSeq?: number;
  readonly limit: number;
}

export interface BranchFilter {
  readonly runId: string;
  readonly parentId?: string;
  /** Only those that have not ended. */
  readonly open?: boolean;
  readonly status?: BranchStatus;
  /** Keyset page in the order of creation. */
  readonly afterId?: string;
  readonly limit: number;
}

export interface StepFilter {
  readonly runId: string;
  readonly branchId?: string;
  readonly node?: string;
  readonly status?: StepStatus;
  readonly afterId?: string;
  readonly limit: number;
}

/** One try of one process at moving a branch on, outside of a settle. */
export interface Advancement {
  readonly id: string;
  readonly runId: string;
  readonly branchId: string;
  readonly node: string;
  readonly processId: string;
  readonly startedAt: Timestamp;
  readonly completedAt: Timestamp | null;
  readonly error: string | null;
  readonly crashed: boolean;
}

/** `visitMax`: how many rows a page may read. */
export type RunPageFilter = { readonly visitMax?: number } & Pick<
  RunFilter,
  'pipeline' | 'status' | 'awaitingApproval' | 'beforeSeq' | 'limit'
>;
