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

/** What a handler asks for because of a signal; it begins as soon as a process looks. */
export interface AskedDirective {
  /** Its sameness is a key. */
  readonly draft: DirectiveDraft;
  readonly forApproval: boolean;
  /** That it was asked for. */
  readonly signal: SignalDraft;
}

export type AsksOf = (signal: SignalDraft) => readonly AskedDirective[];
export type OnAsked = (asked: readonly AskedDirective[]) => void;

export interface DirectRequest {
  readonly draft: DirectiveDraft;
  readonly processId: string;
  readonly work: DirectiveWork;
  /** Nothing is done yet: what for, and until when at least. */
  readonly wait?: DirectiveWait;
  /** What follows when it is asked for, before anything is done. */
  readonly begin?: Consequences;
  /** What follows its end, whichever that will be: why it failed is known when it has. */
  readonly ends: {
    readonly completed: Consequences;
    readonly failed: (failure: DirectiveFailure) => Consequences;
  };
}

export interface DirectiveWait {
  readonly forApproval: boolean;
  readonly due?: { readonly at: Timestamp } | { readonly inMs: number };
}

/** As a request, for one that is on the ledger. */
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
 * `process`: executed outside of the database, and ended with `closeDirective`. `refused`: it made sense
 * when it was asked for, and does not any more.
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

/** A terminal job and the job that does its work again. */
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
  /** In the order of the request; empty when the step was committed before. */
  readonly answers: readonly Answer[];
  readonly progress: BulkProgress;
}

export interface Retry {
  readonly of: string;
  readonly job: JobDraft;
  /** Only when nobody has retried it before, however that ended. */
  readonly isFirst?: boolean;
}

/** `queued` names the new job; `under_way` the one that does the same work already. */
export type RetryAnswer =
  | { readonly kind: 'queued'; readonly jobId: string }
  | { readonly kind: 'under_way'; readonly jobId: string }
  | { readonly kind: 'open' }
  | { readonly kind: 'unknown' };

/** An ended run, and the run that goes on with its work. */
export interface Revival {
  readonly of: string;
  readonly id: string;
  /** The id of its first job, when that is its first step. */
  readonly firstJobId: string;
  /** Whether it has the baggage of the old one. */
  readonly withContext: boolean;
  /** The step from which on everything is done again; otherwise only what did not end well is. */
  readonly from?: string;
  /** How far from its first cause it is at least. */
  readonly hops?: number;
}

/** What somebody said to a step that waits for a person. */
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
  /** From now, by the database's clock. */
  readonly expiresInMs: number | undefined;
}

/** `mismatch`: the key belongs to a request for something else; nothing was written. */
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
  /** By how they ended. */
  readonly ended: Readonly<Partial<Record<DirectiveStatus, number>>>;
  /** Up to the rows that a summary looks at. */
  readonly signals: number;
}

export interface DirectiveFilter {
  /** Those whose id begins so. */
  readonly idPrefix?: string;
  readonly type?: string;
  readonly status?: readonly DirectiveStatus[];
  readonly actor?: string;
  readonly target?: string;
  readonly awaitingApproval?: boolean;
  readonly idempotencyKey?: string;
  readonly beforeSeq?: number;
  /** Without what waits, and in the order in which they were done; otherwise, asked for. */
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
  /** Those of its role are not among them. */
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
  /** Of everything else that was asked, so that another request under the same key is noticed. */
  readonly bodyDigest: string;
  /** The id that whatever the request makes is to have; the one of the first request is kept. */
  readonly subjectId: string;
}

export interface KeptAnswer {
  readonly status: number;
  readonly answer: string;
}

/** `open`: nobody has answered yet, and asking again under the subject's id is safe. */
export type KeyAnswer =
  | { readonly kind: 'open'; readonly subjectId: string }
  | ({ readonly kind: 'answered' } & KeptAnswer)
  | { readonly kind: 'mismatch' };

/** `visitMax`: how many rows a page may read. */
export type DirectivePageFilter = { readonly visitMax?: number } & Pick<
  DirectiveFilter,
  'type' | 'status' | 'actor' | 'target' | 'awaitingApproval' | 'beforeSeq' | 'limit'
>;
