import type { Timestamp } from '../base/clock.ts';

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
