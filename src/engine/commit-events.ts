import type { SignalDirective } from '../signal/signal.ts';
import type { DirectiveMoment, Directive } from '../directive/directive.ts';
import type { EnqueueResult } from '../job/types.ts';
import type { Closing } from '../ledger/commit.ts';
import type { RunCommitEvents } from '../pipeline/run/types.ts';
import type { SignalDraft } from '../signal/signal.ts';

/**
 * Results of a commit of this process, for the services that act on them. The fields about runs come from
 * the ledger: `queued` (steps were queued), `advancing`, `dueInMs` (until a branch is due) and `ended` (runs).
 */
export interface CommitEvents extends Partial<RunCommitEvents> {
  /** Work is about to be written; see `announceWork`. */
  readonly arriving?: boolean;
  /** Jobs that were accepted, and the duplicates among them. */
  readonly enqueued?: readonly EnqueueResult[];
  /** The time until a delayed job is due. */
  readonly jobDueInMs?: number | undefined;
  /** Queued jobs may be claimable that weren't before. */
  readonly claimable?: boolean;
  /** Running jobs whose cancellation was requested. */
  readonly cancelling?: readonly string[];
  /** Attempts whose end was committed. */
  readonly endedJobs?: readonly Closing[];
  /** The duration of the commit of those ends. */
  readonly settleMs?: number;
  readonly signals?: readonly SignalDraft[];
  /** Work that was dropped because another job, run or signal has its dedupe key. */
  readonly suppressed?: readonly SuppressedWork[];
  /** Directives that a signal requested. */
  readonly requested?: readonly SignalDirective[];
  /** Directives whose state changed, and how. */
  readonly moments?: readonly DirectiveStep[];
  /** Schedules may be due sooner. */
  readonly schedules?: boolean;
  /** Findings were acknowledged, so incidents may be over. */
  readonly acknowledged?: boolean;
  /** Due jobs were promoted, so the database is available. */
  readonly promoted?: boolean;
  /** A reload made another generation active. */
  readonly adopted?: boolean;
}

export interface SuppressedWork {
  /** The work that would have been done, such as `mail/handle`. */
  readonly target: string;
  readonly dedupeKey: string;
  readonly holderKind: 'job' | 'run' | 'signal';
  readonly holderId: string;
  readonly payload: string;
}

/** A directive and what happened to it. */
export interface DirectiveStep {
  readonly directive: Pick<Directive, 'id' | 'type' | 'target' | 'actor' | 'correlationId'>;
  readonly moment: DirectiveMoment;
}

/** Hands the events of each commit to its subscribers, at once and in the order in which they subscribed. */
export class CommitBus {
  readonly #subscribers: ((events: CommitEvents) => void)[] = [];

  subscribe(subscriber: (events: CommitEvents) => void): void {
    this.#subscribers.push(subscriber);
  }

  publish(events: CommitEvents): void {
    for (const subscriber of this.#subscribers) subscriber(events);
  }
}
