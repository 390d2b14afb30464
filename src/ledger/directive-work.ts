import type { Directive, DirectiveDraft } from '../directive/directive.ts';
import type { DirectiveEnd, DirectiveFailure, DirectiveWait } from '../directive/types.ts';
import type { JobDraft } from '../job/job.ts';
import type { RunDraft } from '../pipeline/run/types.ts';
import type { SignalDraft } from '../signal/signal.ts';
import type { CommitName, Transaction } from './dialect.ts';

export interface DirectiveInsert {
  readonly draft: DirectiveDraft;
  readonly processId: string;
  /** Undefined: the service executes it and ends it with `closeDirective`. */
  readonly work: DirectiveWork | undefined;
  /** Names the fault points around the commit (default: `other`). */
  readonly commitName?: CommitName;
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
export interface DirectiveStart extends Pick<
  DirectiveInsert,
  'processId' | 'work' | 'commitName' | 'ends'
> {
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
 * SQL that executes a directive in the transaction that records it. The transaction can be repeated
 * after a lost response, so it does nothing but SQL, and the caller creates ids and times before it.
 * If it returns a failure, it has written nothing.
 */
export type DirectiveWork = (tx: Transaction, actor: string) => Promise<DirectiveEnd>;

export interface DirectiveClosing extends Consequences {
  readonly id: string;
  /** The fence: the directive is closed only while this process executes it. */
  readonly processId: string;
  readonly end: DirectiveEnd;
}
