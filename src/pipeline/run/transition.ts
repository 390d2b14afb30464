import type { Timestamp } from '../../base/clock.ts';
import type { Json, JsonObject } from '../../base/json.ts';
import type { NodeId, NodeKind } from '../language/graph.ts';
import { haltReasonOf, type HaltReason, type StepStatus } from './run.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { Ending } from '../../job/outcome.ts';

/** The position and the payload of a branch. */
export interface BranchState {
  readonly node: NodeId;
  /** The branch ends before this node. Null for the end of its body. */
  readonly stop: NodeId | null;
  /** The part of the payload that the branch adds to its base. */
  readonly own: JsonObject;
  /**
   * The payload from before the block. Empty for a root, and after an event replaced the payload.
   */
  readonly base: JsonObject;
  /** The baggage of the run. */
  readonly context: JsonObject;
}

/** Something that happened to a branch that had stopped. */
export type Arrival =
  /** The branch comes to its first node. */
  | { readonly kind: 'start' }
  /** The job of its task succeeded. */
  | { readonly kind: 'done'; readonly events: readonly Json[]; readonly result: Json }
  | {
      readonly kind: 'failed';
      readonly reason: HaltReason;
      readonly error: string;
      /** Set if a branch of this block halted, and not the step itself. */
      readonly block?: BlockKind;
    }
  /**
   * All branches of the block succeeded. `outputs` has the JSON text of each, in order. For lists
   * (all but `split`), one text can hold several outputs with commas between them.
   */
  | {
      readonly kind: 'joined';
      readonly block: BlockKind;
      readonly outputs: readonly string[];
    }
  /** The time of its wait has come, by the database's clock. */
  | { readonly kind: 'due'; readonly at: Timestamp }
  | { readonly kind: 'signalled'; readonly data: Json; readonly signalId: string }
  | {
      readonly kind: 'decided';
      readonly approved: boolean;
      readonly by: string;
      readonly why: string | null;
      readonly at: Timestamp;
    };

/** `events`: one branch per event of a task that emitted several. */
export type BlockKind = 'split' | 'foreach' | 'events';

/** The result of advancing a branch: the steps that it took, and where it stopped. */
export interface Transition {
  readonly steps: readonly StepRecord[];
  readonly landing: Landing;
}

export interface StepRecord {
  readonly node: NodeId;
  readonly kind: NodeKind | 'events';
  readonly status: StepStatus;
  /** JSON text of the branch's own payload after the step. Null if the step was skipped. */
  readonly output: string | null;
  readonly error: string | null;
  readonly note: string | null;
}

export type Landing =
  /** The branch needs a job. */
  | {
      readonly kind: 'task';
      readonly node: NodeId;
      readonly own: JsonObject;
      /** True if the payload has nothing of the base any more. */
      readonly isWhole: boolean;
      /** `own` plus the fields of `with`. The plugin gets it on top of the base. */
      readonly input: JsonObject;
      /** All baggage from here on, if the step adds to it. */
      readonly context: JsonObject | undefined;
      /** Only one job per dependency key runs at a time. */
      readonly dependency?: string;
    }
  | {
      readonly kind: 'pause';
      readonly node: NodeId;
      readonly own: JsonObject;
      readonly isWhole: boolean;
      readonly due: { readonly inMs: number } | { readonly at: Timestamp } | undefined;
      /** The type of the signal that ends the wait. */
      readonly signal: string | undefined;
      /** The question for a person. */
      readonly message: string | null;
    }
  /** The branch waits for branches of its own. `createBranchStarter` creates them. */
  | {
      readonly kind: 'open';
      readonly node: NodeId;
      readonly own: JsonObject;
      readonly isWhole: boolean;
      readonly block: BlockKind;
      readonly width: number;
      readonly concurrency: number | undefined;
      /** For `events`: the payloads of the branches, stored until the last branch has started. */
      readonly events: readonly Json[] | undefined;
    }
  | { readonly kind: 'end'; readonly output: string }
  | {
      readonly kind: 'halt';
      readonly node: NodeId;
      readonly own: JsonObject;
      readonly isWhole: boolean;
      readonly reason: HaltReason;
      readonly message: string;
    };

/** The initial state of one branch of a block. */
export interface BranchStart {
  readonly node: NodeId;
  readonly stop: NodeId | null;
  readonly label: string | null;
  readonly own: JsonObject;
  readonly isWhole: boolean;
}

/** The part of a closing that is for the branch which waits for the job. Empty if no branch does. */
type JobArrival = { readonly arrival?: Arrival };

export function createDoneArrival(job: Job, events: readonly Json[], result: Json): JobArrival {
  return job.branchId === null ? {} : { arrival: { kind: 'done', events, result } };
}

/** While the job is retried, its branch keeps waiting. */
export function createFailedArrival(job: Job, ending: Ending, error: string | null): JobArrival {
  if (job.branchId === null || !isTerminal(ending.status)) return {};
  const reason = haltReasonOf(ending);
  return { arrival: { kind: 'failed', reason, error: error ?? `the job is ${ending.status}` } };
}
