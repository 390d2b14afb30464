import type { CredentialDraft, TokenDraft } from '../access/types.ts';
import type { Directive, DirectiveDraft } from '../directive/directive.ts';
import type { DirectiveEnd, DirectiveFailure, DirectiveWait } from '../directive/types.ts';
import type { Retry } from '../job/directives.ts';
import type { JobDraft } from '../job/job.ts';
import type { InstallationChange, InstallationDraft } from '../package/types.ts';
import type { Decision, Revival, RunDraft } from '../pipeline/run/types.ts';
import type { PauseRequest } from '../schedule/types.ts';
import type { BreakerFilter } from '../schedule/breaker.ts';
import type { SignalDraft } from '../signal/signal.ts';
import type { WebhookChange, WebhookDraft } from '../webhook/types.ts';

/** A directive that a handler requests for a signal. It starts when a process looks for due directives. */
export interface SignalDirective {
  /** Always has an idempotency key. */
  readonly draft: DirectiveDraft;
  readonly forApproval: boolean;
  /** The signal of the request. */
  readonly signal: SignalDraft;
}

export type ListSignalDirectives = (signal: SignalDraft) => readonly SignalDirective[];

export type OnSignalDirectives = (directives: readonly SignalDirective[]) => void;

export interface DirectiveInsert {
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

/** A start of a recorded directive. */
export interface DirectiveStart extends Pick<DirectiveInsert, 'processId' | 'work' | 'ends'> {
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
 * The work of a directive. The service executes `process` and ends it with `closeDirective`. `refused`
 * was valid at the request and no longer is. All others are executed in the transaction.
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
  | { readonly kind: 'webhook.delete'; readonly webhookId: string }
  | { readonly kind: 'package.install'; readonly installation: InstallationDraft }
  | { readonly kind: 'package.change'; readonly change: InstallationChange }
  | { readonly kind: 'token.create'; readonly token: TokenDraft }
  | { readonly kind: 'token.revoke'; readonly tokenId: string }
  | { readonly kind: 'token.rotate'; readonly tokenId: string; readonly digest: string };

export interface DirectiveClosing extends Consequences {
  readonly id: string;
  /** The fence: the directive is closed only while this process executes it. */
  readonly processId: string;
  readonly end: DirectiveEnd;
}
