import type { DirectiveDraft } from '../directive/directive.ts';
import type { SignalDraft } from '../signal/signal.ts';

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
