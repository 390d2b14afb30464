import type { Timestamp } from '../../base/clock.ts';
import type { Ending } from '../../job/outcome.ts';

/** `queued`: the run waits for its time, or for other runs of its concurrency key. */
export const runStatuses = ['queued', 'running', 'succeeded', 'halted', 'cancelled'] as const;
export type RunStatus = (typeof runStatuses)[number];

export function isRunOver(status: RunStatus): boolean {
  return status !== 'queued' && status !== 'running';
}

/**
 * `running`: a job of the branch is queued or running. `waiting`: for time, a signal, a person or
 * its own branches. `advancing`: an advancer claims it and moves it on.
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

/**
 * `waiting` is only for steps without a job. A step with a job gets its row when the job has ended.
 */
export const stepStatuses = ['waiting', 'succeeded', 'failed', 'skipped', 'cancelled'] as const;
export type StepStatus = (typeof stepStatuses)[number];

/** The reasons why a branch, and with it its run, can't continue. */
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

/** Maps the end of a job to the reason why its branch can't continue. */
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
  /** The initial payload as JSON text. */
  readonly payload: string;
  /** The output of the last step as JSON text. */
  readonly output: string | null;
  readonly haltReason: HaltReason | null;
  readonly haltMessage: string | null;
  readonly haltedAtStep: string | null;
  readonly submittedBy: string;
  readonly actor: string;
  readonly sourceEventId: string | null;
  readonly parentJobId: string | null;
  /** The first job of its lineage. */
  readonly rootJobId: string;
  /**
   * The source of the idempotency keys of its jobs. A revived run has the lineage of the first run.
   */
  readonly lineage: string;
  readonly hops: number;
  readonly runtimeCaused: boolean;
  readonly eventContextId: string | null;
  readonly concurrencyKey: string | null;
  /** Set while the run waits for this time. */
  readonly dueAt: Timestamp | null;
  readonly dedupeKey: string | null;
  readonly revivedFrom: string | null;
  /** The listener that gets notified of its end. */
  readonly awaitedBy: string | null;
  readonly createdAt: Timestamp;
  readonly startedAt: Timestamp | null;
  readonly completedAt: Timestamp | null;
}

/**
 * A due date that never comes. It marks branches that wait until others of their block have ended.
 */
export const HELD_DAY = '9999-12-31';

/** One thread of control in a run. */
export interface Branch {
  readonly id: string;
  readonly runId: string;
  readonly parentId: string | null;
  /** Identifies the block that it is in: the parent's `moves` when that block was opened. */
  readonly parentMoves: number | null;
  /** Its index in that block, from 0. */
  readonly index: number;
  /** The id of the arm of a `split`. */
  readonly label: string | null;
  /** Indexes from the root down, such as `0.2.17`. */
  readonly path: string;
  readonly node: string;
  /** The node before which it ends, if that is before the end of its body. */
  readonly stop: string | null;
  readonly status: BranchStatus;
  /**
   * JSON text: the part that it adds to the payload of its parent, or the whole payload if
   * `isWhole`.
   */
  readonly payload: string;
  readonly isWhole: boolean;
  readonly eventContextId: string | null;
  /** The job of its current step. */
  readonly jobId: string | null;
  /** Grows with every move, so that outdated copies of the branch can be recognized. */
  readonly moves: number;
  /**
   * For an open block: how many branches it has, how many have started, and how many have not
   * ended.
   */
  readonly width: number;
  readonly cursor: number;
  readonly pending: number;
  /** While a process has claimed the branch: when other processes may claim it. */
  readonly dueAt: Timestamp | null;
  /** The process that advances it now. */
  readonly claimedBy: string | null;
  readonly waitsFor: string | null;
  readonly haltReason: HaltReason | null;
  readonly haltMessage: string | null;
  readonly lastStepId: string | null;
  readonly createdAt: Timestamp;
  readonly completedAt: Timestamp | null;
}

/** A finished or waiting step. */
export interface Step {
  readonly id: string;
  readonly runId: string;
  readonly branchId: string;
  readonly node: string;
  readonly kind: string;
  readonly status: StepStatus;
  readonly jobId: string | null;
  /** JSON text: the branch's own part of the payload after the step. */
  readonly output: string | null;
  readonly error: string | null;
  /** The reason for its result, such as the chosen case or the person who approved. */
  readonly note: string | null;
  readonly nextNode: string | null;
  /** In a revived run: the step of the earlier run that this row copies. */
  readonly sourceStepId: string | null;
  readonly startedAt: Timestamp;
  readonly dueAt: Timestamp | null;
  readonly completedAt: Timestamp | null;
}

/** Describes the decision on an approval. */
export function describeAnswer({ status, error, note }: Step): string {
  return (status === 'failed' ? error : note) ?? `it is ${status}`;
}

/** A fault that halts a branch, found while its next step is computed. */
export class PipelineFault extends Error {
  readonly reason: HaltReason;

  constructor(message: string, reason: HaltReason = 'invalid_transition') {
    super(message);
    this.name = 'PipelineFault';
    this.reason = reason;
  }
}

/**
 * Where a branch begins that may go on with what came before it waited: at the start of its run. It is
 * no number of a signal, and greater than all, so that a program which does not know it finds nothing.
 */
export const FROM_THE_START = Number.MAX_SAFE_INTEGER;

/** The same once more. */
export const FROM_THE_START_AGAIN = FROM_THE_START - 1;
