import type { Job } from '../job/job.ts';

export interface DependencyHolder {
  readonly id: string;
  readonly isRunning: boolean;
}

export interface Line {
  /** What runs in this ledger, wherever. */
  readonly running: readonly RunningJob[];
  /** Ready jobs of its plugin that came before it, counted up to a limit. */
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
  /** Something could be started now. */
  readonly isReady: boolean;
  /** Something is under way, here or elsewhere, or was when its process died. */
  readonly isRunning: boolean;
  /** Runs wait for others of their kind; whether one may begin is for an engine to see. */
  readonly isInLine: boolean;
  /** Until the next thing is due, by the database's clock; not positive when it is. */
  readonly nextInMs: number | undefined;
  /** Since what is past its retention was deleted last; undefined when it never was. */
  readonly prunedMs: number | undefined;
}

export interface UsageLimits {
  readonly queued: number;
  readonly signals: number;
}

export interface Usage {
  readonly queued: number;
  /** Of the last minute, but for what the runtime says of itself. */
  readonly signals: number;
  readonly bytes: number;
}
