import type { Timestamp } from '../base/clock.ts';
import type { JobDraft, CancelResult } from '../job/job.ts';
import { columnOf, table, type RowOf } from '../ledger/table.ts';
import type { OverlapRules, SkipReason, ScheduleMode } from './schedule.ts';

/** The configuration that was loaded last, and the live process that loaded its configuration last. */
export interface LastLoad {
  /** Its process may be gone. */
  readonly snapshotId: string | undefined;
  readonly liveProcessId: string | undefined;
}

export type ScheduleKey = Pick<ScheduleRow, 'plugin' | 'scheduleId'>;

/** A due time before and after jitter. */
export interface NextDue {
  readonly slotAt: Timestamp;
  readonly dueAt: Timestamp;
}

export const scheduleStatuses = ['active', 'paused', 'exhausted', 'invalid', 'retired'] as const;
export type ScheduleStatus = (typeof scheduleStatuses)[number];

export interface ScheduleDraft extends Pick<
  ScheduleRow,
  'plugin' | 'scheduleId' | 'command' | 'mode' | 'timing' | 'timezone' | 'generation'
> {
  /** The reason why it can't fire. Undefined if it can. */
  readonly invalid: string | undefined;
  /** Used only if the row or its generation is new. */
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
  /** When the next schedule comes due. Undefined if none does, or the page is full. */
  readonly nextAt: Timestamp | undefined;
}

export interface DueSchedule extends Pick<
  ScheduleRow,
  'plugin' | 'scheduleId' | 'generation' | 'seq' | 'lastJobId'
> {
  readonly slotAt: Timestamp;
  readonly dueAt: Timestamp;
  /** Its last job exists and is open. */
  readonly isLastOpen: boolean;
  readonly lastCompletedAt: Timestamp | null;
}

export interface FireRequest {
  readonly now: Timestamp;
  readonly firings: readonly Firing[];
}

/** The request to handle a due time. It applies only if the row is still as it was read. */
export interface Firing {
  readonly due: DueSchedule;
  readonly command: string;
  /** The next due time. Undefined if it is never due again. */
  readonly next: NextDue | undefined;
  /** The next due time if no job is created. A schedule that is due once is retried then. */
  readonly nextIfSkipped: NextDue | undefined;
  readonly act: FiringAct;
}

/** `wait`: only the due time moves. `skip`: the due time is skipped, without a job. */
export type FiringAct =
  | { readonly kind: 'wait'; readonly reason?: SkipReason }
  | { readonly kind: 'skip'; readonly reason: SkipReason }
  | {
      readonly kind: 'fire';
      /** Oldest slot first. Their slots are numbered from the row's `seq` on. */
      readonly jobs: readonly JobDraft[];
      readonly guard: OverlapRules;
      readonly breaker: { readonly threshold: number; readonly resetAfterMs: number };
      /** An interval counts from the completion of its last job, so that job must be unchanged. */
      readonly needsLastUnchanged: boolean;
      /** The next try while a job is still open. Without it, the due time is skipped. */
      readonly ifBusy?: NextDue | undefined;
    };

/** `lost`: another host handled this time, or the row changed since it was read. */
export interface FireResult extends ScheduleKey {
  readonly verdict: 'fired' | 'skipped' | 'moved' | 'lost';
  readonly reason: SkipReason | undefined;
  readonly jobIds: readonly string[];
  readonly cancelled: readonly { readonly jobId: string; readonly answer: CancelResult }[];
}

export interface ScheduleFilter {
  readonly plugin?: string;
  readonly scheduleId?: string;
  readonly status?: readonly ScheduleStatus[];
  /** Keyset page: rows after this one. */
  readonly after?: ScheduleKey;
  readonly limit: number;
}

export const scheduleTable = table('schedules', {
  plugin: 'text',
  scheduleId: 'text',
  command: 'text',
  mode: columnOf<ScheduleMode>('text'),
  timing: 'text',
  timezone: 'text',
  generation: 'text',
  seq: 'int',
  status: columnOf<ScheduleStatus>('text'),
  reason: 'text?',
  nextSlotAt: 'time?',
  nextDueAt: 'time?',
  firstSeenAt: 'time',
  lastFiredAt: 'time?',
  lastJobId: 'text?',
  lastSkippedAt: 'time?',
  lastSkipReason: 'text?',
  /** Due times without a job since the last one with a job, or since the schedule was changed. */
  skippedInRow: 'int',
  updatedAt: 'time',
});

export interface ScheduleRow extends Omit<RowOf<typeof scheduleTable>, 'updatedAt'> {
  readonly lastJobStatus: string | null;
}

/**
 * `next` is the due time after a resume, unless the current one is in the future. A host that
 * doesn't know the schedule leaves the past due time to a host that does.
 */
export interface PauseRequest extends ScheduleKey {
  readonly paused: boolean;
  readonly next?: NextDue;
  readonly now: Timestamp;
}
