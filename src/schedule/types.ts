import type { Timestamp } from '../base/clock.ts';
import type { JobDraft, CancelAnswer } from '../job/job.ts';
import type { BreakerState, TransitionReason } from './breaker.ts';
import type { OverlapRules, SkipReason, ScheduleMode } from './schedule.ts';

export interface LastLoaded {
  /** The configuration that was loaded last, also by a process that is gone. */
  readonly snapshotId: string | undefined;
  readonly liveProcessId: string | undefined;
}

export interface ScheduleKey {
  readonly plugin: string;
  readonly scheduleId: string;
}

export interface NextDue {
  readonly slotAt: Timestamp;
  readonly dueAt: Timestamp;
}

export const scheduleStatuses = ['active', 'paused', 'exhausted', 'invalid', 'retired'] as const;
export type ScheduleStatus = (typeof scheduleStatuses)[number];

export interface ScheduleDraft extends ScheduleKey {
  readonly command: string;
  readonly mode: ScheduleMode;
  readonly timing: string;
  readonly timezone: string;
  readonly generation: string;
  /** Why it cannot be fired; undefined when it can. */
  readonly invalid: string | undefined;
  /** Counts when the row is new or its generation is. */
  readonly next: NextDue | undefined;
  readonly seenAt: Timestamp;
}

export interface DueRequest {
  readonly now: Timestamp;
  readonly limit: number;
  /** Keyset page: rows after this one. */
  readonly after?: ScheduleKey & { readonly dueAt: Timestamp };
}

export interface DueResult {
  readonly due: readonly DueSchedule[];
  /** When the first one comes due that is not yet; undefined when none will or the page is full. */
  readonly nextAt: Timestamp | undefined;
}

export interface DueSchedule extends ScheduleKey {
  readonly generation: string;
  readonly seq: number;
  readonly slotAt: Timestamp;
  readonly dueAt: Timestamp;
  readonly lastJobId: string | null;
  /** Whether its last job is neither completed nor forgotten, and when it was completed. */
  readonly isLastOpen: boolean;
  readonly lastCompletedAt: Timestamp | null;
}

export interface FireRequest {
  readonly now: Timestamp;
  readonly firings: readonly Firing[];
}

/** One due time, under the fence of what the row was when it was read. */
export interface Firing {
  readonly due: DueSchedule;
  readonly command: string;
  /** When it is due after this; undefined when it never is again. */
  readonly next: NextDue | undefined;
  /** The same when no job is made: what is due only once is tried again. */
  readonly nextIfSkipped: NextDue | undefined;
  readonly act: FiringAct;
}

/** `wait`: only the due time moves. `skip`: the time passes without a job. */
export type FiringAct =
  | { readonly kind: 'wait'; readonly reason?: SkipReason }
  | { readonly kind: 'skip'; readonly reason: SkipReason }
  | {
      readonly kind: 'fire';
      /** Oldest slot first; their slots are numbered from the row's seq on. */
      readonly jobs: readonly JobDraft[];
      readonly guard: OverlapRules;
      readonly breaker: { readonly threshold: number; readonly resetAfterMs: number };
      /** An interval counts from the completion of the last job, so it must still be what was read. */
      readonly needsLastUnchanged: boolean;
      /** When to come again while a job is open still; without it, the time passes. */
      readonly ifBusy?: NextDue | undefined;
    };

/** `lost`: somebody else passed this time, or the row changed since it was read. */
export interface Fired extends ScheduleKey {
  readonly verdict: 'fired' | 'skipped' | 'moved' | 'lost';
  readonly reason: SkipReason | undefined;
  readonly jobIds: readonly string[];
  readonly cancelled: readonly { readonly jobId: string; readonly answer: CancelAnswer }[];
}

export interface ScheduleFilter {
  readonly plugin?: string;
  readonly scheduleId?: string;
  readonly status?: readonly ScheduleStatus[];
  /** Keyset page: rows after this one. */
  readonly after?: ScheduleKey;
  readonly limit: number;
}

export interface ScheduleRow extends ScheduleKey {
  readonly command: string;
  readonly mode: ScheduleMode;
  readonly timing: string;
  readonly timezone: string;
  readonly generation: string;
  readonly seq: number;
  readonly status: ScheduleStatus;
  readonly reason: string | null;
  readonly nextSlotAt: Timestamp | null;
  readonly nextDueAt: Timestamp | null;
  readonly firstSeenAt: Timestamp;
  readonly lastFiredAt: Timestamp | null;
  readonly lastJobId: string | null;
  readonly lastJobStatus: string | null;
  readonly lastSkippedAt: Timestamp | null;
  readonly lastSkipReason: string | null;
  /** Due times without a job since the last one with a job, or since the schedule was changed. */
  readonly skippedInRow: number;
}

/**
 * `next` is when a resumed one is due, unless its due time lies ahead; one that this host does not
 * know keeps the time that passed, for the host that knows it.
 */
export interface PauseRequest extends ScheduleKey {
  readonly paused: boolean;
  readonly next?: NextDue;
  readonly now: Timestamp;
}

export interface BreakerFilter {
  readonly plugin?: string;
  readonly command?: string;
}

export interface BreakerRow {
  readonly plugin: string;
  readonly command: string;
  readonly state: BreakerState;
  readonly failureCount: number;
  readonly openedAt: Timestamp | null;
  readonly lastFailureAt: Timestamp | null;
  readonly lastJobId: string | null;
  readonly probeJobId: string | null;
  readonly threshold: number;
  readonly resetAfterMs: number;
  readonly updatedAt: Timestamp;
}

export interface TransitionRow {
  readonly id: string;
  readonly plugin: string;
  readonly command: string;
  readonly fromState: BreakerState | null;
  readonly toState: BreakerState;
  readonly failureCount: number;
  readonly reason: TransitionReason;
  readonly jobId: string | null;
  readonly createdAt: Timestamp;
}
