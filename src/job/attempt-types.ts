import type { Timestamp } from '../base/clock.ts';
import type { Attempt, AttemptStatus } from './attempt.ts';

/** Among attempts in the order of their ends. */
export interface AttemptPlace {
  readonly completedAt: Timestamp;
  readonly logId: string;
}

export interface AttemptFilter {
  readonly plugin?: string;
  /** Only attempts of jobs that follow from one of these. */
  readonly parentJobIds?: readonly string[];
  readonly jobId?: string;
  /** Only attempts of the chain that began with this job or signal. */
  readonly correlationId?: string;
  readonly status?: AttemptStatus;
  /** Ended at or after this moment; oldest first then. */
  readonly since?: Timestamp;
  /** Ended not before, and before; they don't change the order. */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  /** Keyset page, oldest first: what ended after this one. */
  readonly after?: AttemptPlace;
  /** Keyset page, newest first: what ended before this one. */
  readonly before?: AttemptPlace;
  readonly limit: number;
}

export interface AttemptPageFilter extends AttemptFilter {
  readonly command?: string;
  readonly submittedBy?: string;
  /** Part of its error, its stderr or its result, whatever the case. */
  readonly query?: string;
}

export interface AttemptPage {
  readonly attempts: readonly Attempt[];
  /** The last row that was looked at, if the page ended there before it was full. */
  readonly cut: AttemptPlace | undefined;
}
