import type { ErrorCode } from '../../base/errors.ts';
import type { JsonObject } from '../../base/json.ts';
import type { SealedText } from '../../base/seal.ts';
import { table, type RowOf } from '../../ledger/table.ts';
import type { Dedupe, JobDraft, SubmittedBy } from '../../job/job.ts';
import type { BranchStatus, RunStatus, StepStatus, Run } from './run.ts';
import type { SignalDraft } from '../../signal/signal.ts';

/** Identifies a job of a run by its branch, the previous job, and its idempotency key. */
export interface StepJob {
  readonly runId: string;
  readonly branchId: string;
  readonly parentJobId: string | null;
  readonly idempotencyKey: string;
}

/** A run to be created. The caller chooses its id, so that a repeated request creates it once. */
export interface RunDraft {
  readonly id: string;
  readonly pipeline: string;
  readonly definitionHash: string;
  /** JSON text of an object. */
  readonly payload: string;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  /** The id of its first job, if its first step is a task. */
  readonly firstJobId: string;
  readonly parentJobId?: string;
  readonly sourceEventId?: string;
  readonly rootJobId?: string;
  /** The source of the idempotency keys of its jobs (default: its own id). */
  readonly lineage?: string;
  readonly hops?: number;
  readonly runtimeCaused?: boolean;
  readonly eventContextId?: string;
  /** The run waits while the limit of its key is reached. */
  readonly concurrency?: { readonly key: string; readonly limit: number };
  /** True if the caller waits for its end. */
  readonly isAwaited?: boolean;
  /** The earliest start. */
  readonly due?: NonNullable<JobDraft['due']>;
  /** The run isn't created while another run of its pipeline holds this key. */
  readonly dedupe?: RunDedupe;
}

/** A key that the run holds while it is open, and for this time after its success. */
export type RunDedupe = Pick<Dedupe, 'key' | 'ttlMs'>;

/**
 * The result of a draft. `duplicateOf` names the run that holds its key. In that case, no run was
 * created.
 */
export interface RunStart {
  readonly runId: string;
  /** The status of the new run, or of the run that holds the key. */
  readonly status: RunStatus;
  readonly duplicateOf?: string;
  readonly dedupeKey?: string;
}

/** A run that can't continue, or that waits for a person. */
export interface RunHalt {
  readonly run: Run;
  /** The signal that reports it. */
  readonly signal: SignalDraft;
  /** Its last job, or the job that caused it. */
  readonly parentJobId: string | null;
  readonly context: JsonObject;
}

/** The jobs (without dedupe keys) and runs that a signal starts. */
export interface Followers {
  readonly jobs: readonly JobDraft[];
  readonly runs: readonly RunDraft[];
}

/** A signal with what it starts. The jobs have no dedupe keys: the signal itself exists once. */
export interface Emission extends Followers {
  readonly signal: SignalDraft;
  /** The baggage of its jobs and runs. */
  readonly contexts?: readonly { readonly id: string; readonly accumulated: string }[];
  /** Handles the signal again even if it was reported before. */
  readonly rerun?: boolean;
}

export type FollowHalt = (halt: RunHalt) => Followers;

/** Returns the payload of a signal as JSON text. Throws if it can't be decrypted. */
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

/** The part of the commit events that follows from creating and advancing runs. */
export interface RunCommitEvents {
  /** True if an advancer has work. */
  readonly advancing: boolean;
  /** True if jobs were queued. */
  readonly queued: boolean;
  /** Milliseconds until the first of the new waits is due. */
  readonly dueInMs: number | undefined;
  /** Branches that the transaction failed to advance and left to an advancer. */
  readonly failures?: readonly AdvancementFailure[];
  /** Runs that were not created, because other runs hold their keys. */
  readonly dropped?: readonly RunStart[];
  /** Runs that ended. */
  readonly ended?: readonly string[];
}

export interface AdvancementFailure {
  readonly branchId: string;
  readonly error: string;
}

/**
 * `more`: a batch is done and the branch is still claimed. `fenced`: another process owns the
 * branch now.
 */
export interface AdvanceResult extends RunCommitEvents {
  readonly verdict: 'done' | 'more' | 'fenced';
}

export interface ReleaseBranchRequest extends AdvanceRequest {
  readonly error: string;
  readonly triesMax: number;
}

export interface RetryFromRefusal {
  readonly code: ErrorCode;
  readonly error: string;
}

export interface RunFilter {
  readonly pipeline?: string;
  readonly status?: readonly RunStatus[];
  /** Running runs that wait for a person. */
  readonly awaitingApproval?: true;
  readonly idPrefix?: string;
  readonly rootJobId?: string;
  /** Runs that this signal started. */
  readonly sourceEventId?: string;
  /** The run that continues the work of this run. */
  readonly revivedFrom?: string;
  /** Running runs with this key. */
  readonly concurrencyKey?: string;
  readonly beforeSeq?: number;
  readonly limit: number;
}

export interface BranchFilter {
  readonly runId: string;
  readonly parentId?: string;
  /** Only branches that have not ended. */
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

/** The attempts of processes to advance branches outside of a settle. */
export const advancementTable = table('run_advancements', {
  id: 'text',
  runId: 'text',
  branchId: 'text',
  node: 'text',
  processId: 'text',
  startedAt: 'time',
  completedAt: 'time?',
  error: 'text?',
  crashed: 'flag',
});

export type Advancement = RowOf<typeof advancementTable>;

/** `visitMax`: how many rows a page may read. */
export type RunPageFilter = { readonly visitMax?: number } & Pick<
  RunFilter,
  'pipeline' | 'status' | 'awaitingApproval' | 'beforeSeq' | 'limit'
>;

/** An ended run, and the run that continues its work. */
export interface Revival {
  readonly of: string;
  readonly id: string;
  /** The id of its first job, when that is its first step. */
  readonly firstJobId: string;
  /** True to copy the baggage of the old run. */
  readonly withContext: boolean;
  /** The first step to repeat (default: every step that did not succeed). */
  readonly from?: string;
  /** The minimum distance from its first cause. */
  readonly hops?: number;
}

/** The decision about a step that waits for approval. */
export interface Decision {
  readonly runId: string;
  /** The step's name in the pipeline, or the id of its row. */
  readonly step: string;
  readonly approved: boolean;
  readonly why?: string;
}
