import type { Timestamp } from '../base/clock.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { Directive, DirectiveDraft, DirectiveStatus } from './directive.ts';
import type { BulkProgress } from '../job/directives.ts';
import type { Role } from '../access/roles.ts';
import type { JobDraft } from '../job/job.ts';
import type { SignalDraft } from '../signal/signal.ts';
import type { CredentialDraft } from '../access/types.ts';
import type { InstallationChange, InstallationDraft } from '../package/types.ts';
import type { RunDraft } from '../pipeline/run/types.ts';
import type { BreakerFilter, PauseRequest } from '../schedule/types.ts';
import type { WebhookChange, WebhookDraft } from '../webhook/types.ts';

/**
 * A directive that a handler requests for a signal; it starts when a process looks for due
 * directives.
 */
export interface AskedDirective {
  /** Always with a key. */
  readonly draft: DirectiveDraft;
  readonly forApproval: boolean;
  /** The signal of the request. */
  readonly signal: SignalDraft;
}

export type AsksOf = (signal: SignalDraft) => readonly AskedDirective[];
export type OnAsked = (asked: readonly AskedDirective[]) => void;

export interface DirectRequest {
  readonly draft: DirectiveDraft;
  readonly processId: string;
  readonly work: DirectiveWork;
  /** Set when it waits: the reason and the earliest start. */
  readonly wait?: DirectiveWait;
  /** Signals, jobs and runs of the request itself. */
  readonly begin?: Consequences;
  /** Signals, jobs and runs of its end. */
  readonly ends: {
    readonly completed: Consequences;
    readonly failed: (failure: DirectiveFailure) => Consequences;
  };
}

export interface DirectiveWait {
  readonly forApproval: boolean;
  readonly due?: { readonly at: Timestamp } | { readonly inMs: number };
}

/** A start of a recorded directive. */
export interface DirectiveStart extends Pick<DirectRequest, 'processId' | 'work' | 'ends'> {
  readonly directive: Directive;
  readonly begin: Consequences;
}

export interface DirectiveDecision extends Consequences {
  readonly id: string;
  readonly actor: string;
}

export interface Consequences {
  readonly signals: readonly SignalDraft[];
  readonly jobs: readonly JobDraft[];
  readonly runs?: readonly RunDraft[];
}

/**
 * `process`: executed by the service and ended with `closeDirective`. `refused`: it was valid at
 * the request and isn't any more.
 */
export type DirectiveWork =
  | { readonly kind: 'process' }
  | { readonly kind: 'refused'; readonly end: DirectiveFailure }
  | { readonly kind: 'job.cancel'; readonly jobId: string }
  | { readonly kind: 'job.retry'; readonly retry: Retry }
  | { readonly kind: 'system.pause'; readonly paused: boolean }
  | { readonly kind: 'plugin.switch'; readonly plugin: string; readonly enabled: boolean }
  | ({ readonly kind: 'schedule.pause' } & PauseRequest)
  | ({ readonly kind: 'breaker.reset'; readonly plugin: string } & BreakerFilter)
  | { readonly kind: 'run.cancel'; readonly runId: string }
  | { readonly kind: 'run.revive'; readonly revival: Revival }
  | { readonly kind: 'run.decide'; readonly decision: Decision }
  | { readonly kind: 'credential.set'; readonly credential: CredentialDraft }
  | { readonly kind: 'credential.delete'; readonly name: string }
  | { readonly kind: 'webhook.create'; readonly webhook: WebhookDraft }
  | { readonly kind: 'webhook.change'; readonly change: WebhookChange }
  | { readonly kind: 'webhook.delete'; readonly hookId: string }
  | { readonly kind: 'package.install'; readonly installation: InstallationDraft }
  | { readonly kind: 'package.change'; readonly change: InstallationChange }
  | { readonly kind: 'token.create'; readonly token: TokenDraft }
  | { readonly kind: 'token.revoke'; readonly tokenId: string }
  | { readonly kind: 'token.rotate'; readonly tokenId: string; readonly digest: string };

/** The directive that makes a copy, and its result as JSON text. */
export interface CopyDirective {
  readonly id: string;
  readonly result: string;
}

/** A step of a directive over many jobs. */
export interface BulkStep {
  readonly directiveId: string;
  readonly processId: string;
  readonly before: BulkProgress;
  /** The last job of this step. */
  readonly cursor: number;
  /** Why jobs of this step were left out, one reason for each. */
  readonly skipped: readonly string[];
}

export interface BulkDone<Answer> {
  /** In the order of the request; empty if the step was committed before. */
  readonly answers: readonly Answer[];
  readonly progress: BulkProgress;
}

export interface Retry {
  readonly of: string;
  readonly job: JobDraft;
  /** Only if it was never retried before. */
  readonly isFirst?: boolean;
}

/** `queued` names the new job; `under_way` the job that already repeats the work. */
export type RetryAnswer =
  | { readonly kind: 'queued'; readonly jobId: string }
  | { readonly kind: 'under_way'; readonly jobId: string }
  | { readonly kind: 'open' }
  | { readonly kind: 'unknown' };

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

export interface TokenDraft {
  readonly id: string;
  readonly name: string;
  readonly digest: string;
  readonly role: Role;
  readonly scopes: readonly string[];
  /** Measured by the database's clock. */
  readonly expiresInMs: number | undefined;
}

/** `mismatch`: the key belongs to a different request; nothing was written. */
export interface Directed {
  readonly directive: Directive;
  readonly verdict: 'recorded' | 'repeated' | 'mismatch';
}

export interface DirectiveClosing extends Consequences {
  readonly id: string;
  /** The fence: only while this process executes it. */
  readonly processId: string;
  readonly end: DirectiveEnd;
}

export type DirectiveEnd =
  | { readonly status: 'completed'; readonly result: JsonObject }
  | DirectiveFailure;

export interface DirectiveFailure {
  readonly status: 'failed';
  readonly code: ErrorCode;
  readonly error: string;
  readonly details?: JsonObject;
  readonly result?: JsonObject;
}

export interface DirectiveStatistics {
  readonly requested: number;
  /** Counts by final status. */
  readonly ended: Readonly<Partial<Record<DirectiveStatus, number>>>;
  /** Counted up to the limit of a summary. */
  readonly signals: number;
}

export interface DirectiveFilter {
  /** A prefix of the id. */
  readonly idPrefix?: string;
  readonly type?: string;
  readonly status?: readonly DirectiveStatus[];
  readonly actor?: string;
  readonly target?: string;
  readonly awaitingApproval?: boolean;
  readonly idempotencyKey?: string;
  readonly beforeSeq?: number;
  /** Only executed directives, by time of execution (default: all, by time of the request). */
  readonly isDone?: boolean;
  readonly limit: number;
}

export interface PluginSwitch {
  readonly plugin: string;
  readonly changedBy: string;
  readonly changedAt: Timestamp;
}

export interface ApiTokenRow {
  readonly id: string;
  readonly name: string;
  readonly digest: string;
  readonly role: Role;
  /** Without the scopes of its role. */
  readonly scopes: readonly string[];
  readonly createdBy: string;
  readonly createdAt: Timestamp;
  readonly expiresAt: Timestamp | null;
  readonly rotatedAt: Timestamp | null;
  readonly lastUsedAt: Timestamp | null;
  readonly expired: boolean;
}

export interface RequestKey {
  readonly actor: string;
  /** Method and path, such as `POST /plugin/echo/handle`. */
  readonly route: string;
  readonly key: string;
  /** The digest of the rest of the request, to detect a different request with the same key. */
  readonly bodyDigest: string;
  /** The id of the object that the request creates; the first request's is kept. */
  readonly subjectId: string;
}

export interface KeptAnswer {
  readonly status: number;
  readonly answer: string;
}

/** `open`: not answered yet; repeating it with the subject's id is safe. */
export type KeyAnswer =
  | { readonly kind: 'open'; readonly subjectId: string }
  | ({ readonly kind: 'answered' } & KeptAnswer)
  | { readonly kind: 'mismatch' };

/** `visitMax`: how many rows a page may read. */
export type DirectivePageFilter = { readonly visitMax?: number } & Pick<
  DirectiveFilter,
  'type' | 'status' | 'actor' | 'target' | 'awaitingApproval' | 'beforeSeq' | 'limit'
>;
