import type { Timestamp } from '../base/clock.ts';

/** Counts of what processes turned away, for `doctor`: bounded, and forgotten after the window. */
export interface ObservationVerbs {
  /** Adds counts. It forgets what is older than the window, and the rarest keys beyond the limit. */
  recordObservations(drafts: readonly ObservationDraft[]): Promise<void>;
  /** The counts of the window, one row for each key, the most frequent first. */
  observations(kind: ObservationKind): Promise<Observation[]>;
}

/** `call_refused`: a token lacks a scope or isn't valid. `job_suppressed`: a dedupe key is taken. */
export type ObservationKind = 'call_refused' | 'job_suppressed';

export interface ObservationDraft {
  readonly kind: ObservationKind;
  readonly key: string;
  readonly count: number;
  /** JSON text of an object; the newest one counts. */
  readonly detail: string;
}

export interface Observation extends ObservationDraft {
  readonly firstAt: Timestamp;
  readonly lastAt: Timestamp;
}
