import type { Json, JsonObject } from '../base/json.ts';
import type { JobDraft } from '../job/job.ts';
import type { SignalDraft } from '../signal/signal.ts';
import type { FindPipelineStarts, RoutedEvent } from './language/pipeline.ts';
import type { Followers, RunDraft } from './run/types.ts';

export interface EmittedEvent {
  readonly type: string;
  readonly payload: Json;
  readonly dedupeKey?: string;
  /** The event type and headers of a delivery. */
  readonly metadata?: JsonObject;
}

export interface RouteTarget {
  readonly plugin: string;
  readonly command: string;
  readonly maxAttempts: number;
}

/** The rules of the configuration about what signals start. */
export interface FollowRules {
  /** Returns the targets of every route that matches a signal, in the order of definition. */
  readonly targetsOf: (signal: RoutedEvent) => readonly RouteTarget[];
  /** Returns the pipelines that a signal starts, in the order of definition. */
  readonly startsOf?: FindPipelineStarts;
  readonly hopsMax: number;
  readonly dedupeTtlMs: number;
  /** Plugins with `notify_on_complete`. */
  readonly notifying?: ReadonlySet<string>;
  /** The tenant that owns the ledger. Undefined for the root ledger. */
  readonly tenant?: string | undefined;
  /** Called for a signal that no route and no pipeline matches. */
  readonly onUnmatched?: (signal: SignalDraft) => void;
}

export interface SignalConsequences {
  readonly signals: SignalDraft[];
  readonly jobs: JobDraft[];
  readonly runs: RunDraft[];
  /**
   * Returns what follows when this end opens or closes the job's breaker. Undefined if nothing can.
   */
  readonly followBreaker?: (signal: SignalDraft) => Followers;
}
