import type { Job } from '../job/job.ts';

export interface DependencyHolder {
  readonly id: string;
  readonly isRunning: boolean;
}

export interface Line {
  /** Running jobs of this ledger on all hosts. */
  readonly running: readonly RunningJob[];
  /** Ready jobs of its plugin before it, counted up to a limit. */
  readonly ahead: number;
}

export type RunningJob = Pick<
  Job,
  | 'id'
  | 'plugin'
  | 'command'
  | 'startedAt'
  | 'claimExpiresAt'
  | 'claimedBy'
  | 'dedupeKey'
  | 'dependencyKey'
  | 'suspect'
>;

export interface Outlook {
  /** True if a job can start now. */
  readonly isReady: boolean;
  /** True if something runs here or elsewhere, or ran when its process died. */
  readonly isRunning: boolean;
  /** True if runs wait for a concurrency slot; only an engine can decide whether one may start. */
  readonly isInLine: boolean;
  /** Time until the next work is due, by the database's clock; not positive if it is due. */
  readonly nextInMs: number | undefined;
  /** Time since the last pruning; undefined if it never happened. */
  readonly prunedMs: number | undefined;
}

export interface UsageLimits {
  readonly queued: number;
  readonly signals: number;
}

export interface Usage {
  readonly queued: number;
  /** Signals of the last minute, without lifecycle signals. */
  readonly signals: number;
  readonly bytes: number;
}
