import type { Timestamp } from '../../base/clock.ts';
import type { Ending } from '../../job/outcome.ts';

/** `queued`: its time has not come, or others of its concurrency key are under way. */
export const runStatuses = ['queued', 'running', 'succeeded', 'halted', 'cancelled'] as const;
export type RunStatus = (typeof runStatuses)[number];

export function isRunOver(status: RunStatus): boolean {
  return status !== 'queued' && status !== 'running';
}

/**
 * `running`: a job of it is queued or under way. `waiting`: for time, a signal, a person or its own
 * branches. `advancing`: whoever claims it moves it on.
 */
export const branchStatuses = [
  'running',
  'waiting',
  'advancing',
  'succeeded',
  'halted',
  'cancelled',
] as const;
export type BranchStatus = (typeof branchStatuses)[number];

/** `waiting` only of steps without a job; a step that is a job has its row when it has ended. */
export const stepStatuses = ['waiting', 'succeeded', 'failed', 'skipped', 'cancelled'] as const;
export type StepStatus = (typeof stepStatuses)[number];

/** The closed list of why a branch, and with it its run, cannot go on. */
export const haltReasons = [
  'retries_exhausted',
  'attempt_failed',
  'crashes_exhausted',
  'advancement_retries_exhausted',
  'advancement_crashes_exhausted',
  'invalid_transition',
  'fanout_limit',
  'unmatched_condition',
  'timeout',
  'rejected',
  'cancelled',
] as const;
export type HaltReason = (typeof haltReasons)[number];

/** Why a branch cannot go on whose job has ended so. */
export function haltReasonOf({ status, reason }: Ending): HaltReason {
  if (status === 'cancelled') return 'cancelled';
  if (status === 'timed_out') return 'timeout';
  if (reason === 'crashes_exhausted' || reason === 'attempt_failed') return reason;
  return 'retries_exhausted';
}

export interface Run {
  readonly seq: number;
  readonly id: string;
  readonly pipeline: string;
  readonly definitionHash: string;
  readonly status: RunStatus;
  /** What it began with, as JSON text. */
  readonly payload: string;
  /** What its last step gave, as JSON text. */
  readonly output: string | null;
  readonly haltReason: HaltReason | null;
  readonly haltMessage: string | null;
  readonly haltedAtStep: string | null;
  readonly submittedBy: string;
  readonly actor: string;
  readonly sourceEventId: string | null;
  readonly parentJobId: string | null;
  /** The first job of the lineage that it belongs to. */
  readonly rootJobId: string;
  /** What the idempotency keys of its jobs are made from; a revived run has that of the first one. */
  readonly lineage: string;
  readonly hops: number;
  readonly runtimeCaused: boolean;
  readonly eventContextId: string | null;
  readonly concurrencyKey: string | null;
  /** While it waits for that moment. */
  readonly dueAt: Timestamp | null;
  readonly dedupeKey: string | null;
  readonly revivedFrom: string | null;
  /** The listener that is told of its end. */
  readonly awaitedBy: string | null;
  readonly createdAt: Timestamp;
  readonly startedAt: Timestamp | null;
  readonly completedAt: Timestamp | null;
}

/** A branch that is due on this day, which does not come, waits until others of its block have ended. */
export const HELD_DAY = '9999-12-31';

/** One thread of control in a run. */
export interface Branch {
  readonly id: string;
  readonly runId: string;
  readonly parentId: string | null;
  /** Which of its parent's blocks it is in: the parent's `moves` when that block was opened. */
  readonly parentMoves: number | null;
  /** Its place in that block, from 0. */
  readonly index: number;
  /** The id of the arm of a `split`. */
  readonly label: string | null;
  /** Indexes from the root down, such as `0.2.17`. */
  readonly path: string;
  readonly node: string;
  /** Where it ends, when that is before the end of its body. */
  readonly stop: string | null;
  readonly status: BranchStatus;
  /** JSON text: what it adds to the payload of its parent, or all of it when `isWhole`. */
  readonly payload: string;
  readonly isWhole: boolean;
  readonly eventContextId: string | null;
  /** The job of the step that it is at. */
  readonly jobId: string | null;
  /** Grows with every move, so that what was known of it can be told from what is. */
  readonly moves: number;
  /** Of an open block: how many branches it has, how many were begun and how many have not ended. */
  readonly width: number;
  readonly cursor: number;
  readonly pending: number;
  /** While somebody moves it on, when others may. */
  readonly dueAt: Timestamp | null;
  /** The process that moves it on now. */
  readonly claimedBy: string | null;
  readonly waitsFor: string | null;
  readonly haltReason: HaltReason | null;
  readonly haltMessage: string | null;
  readonly lastStepId: string | null;
  readonly createdAt: Timestamp;
  readonly completedAt: Timestamp | null;
}

/** A step that was taken, or is waited for. */
export interface Step {
  readonly id: string;
  readonly runId: string;
  readonly branchId: string;
  readonly node: string;
  readonly kind: string;
  readonly status: StepStatus;
  readonly jobId: string | null;
  /** JSON text: the payload with which its branch went on, as far as the branch's own goes. */
  readonly output: string | null;
  readonly error: string | null;
  /** Why it went as it did: which case was taken, who approved. */
  readonly note: string | null;
  readonly nextNode: string | null;
  /** Of a revived run: the step of the earlier one that this is a copy of. */
  readonly sourceStepId: string | null;
  readonly startedAt: Timestamp;
  readonly dueAt: Timestamp | null;
  readonly completedAt: Timestamp | null;
}

/** How a step that asked somebody was answered. */
export function answerOf({ status, error, note }: Step): string {
  return (status === 'failed' ? error : note) ?? `it is ${status}`;
}

/** Why a branch cannot go on, found while working out what follows. */
export class PipelineFault extends Error {
  readonly reason: HaltReason;

  constructor(message: string, reason: HaltReason = 'invalid_transition') {
    super(message);
    this.name = 'PipelineFault';
    this.reason = reason;
  }
}
