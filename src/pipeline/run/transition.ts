import type { Timestamp } from '../../base/clock.ts';
import type { Json, JsonObject } from '../../base/json.ts';
import type { NodeId, NodeKind } from '../language/graph.ts';
import type { HaltReason, StepStatus } from './run.ts';

/** Where a branch stands and what it has with it. */
export interface Standing {
  readonly node: NodeId;
  /** It ends when it would come to this node; null for the end of its body. */
  readonly stop: NodeId | null;
  /** What the branch adds to its base. */
  readonly own: JsonObject;
  /** What it has from before its block; empty for a root and after an event replaced everything. */
  readonly base: JsonObject;
  /** The baggage of its chain. */
  readonly context: JsonObject;
}

/** What happened to a branch that stood still. */
export type Arrival =
  /** It comes to its first node. */
  | { readonly kind: 'start' }
  /** The job of its task succeeded. */
  | { readonly kind: 'done'; readonly events: readonly Json[]; readonly result: Json }
  | {
      readonly kind: 'failed';
      readonly reason: HaltReason;
      readonly error: string;
      /** It is a branch of this block that halted, and not the step itself that failed. */
      readonly block?: BlockKind;
    }
  /**
   * All branches of its block have ended well; `outputs` is JSON text of each, in order. Where they
   * become a list (all but `split`), one text may hold several with commas between.
   */
  | {
      readonly kind: 'joined';
      readonly block: BlockKind;
      readonly outputs: readonly string[];
    }
  /** Its time has come, by the database's clock. */
  | { readonly kind: 'due'; readonly at: Timestamp }
  | { readonly kind: 'signalled'; readonly data: Json; readonly signalId: string }
  | {
      readonly kind: 'decided';
      readonly approved: boolean;
      readonly by: string;
      readonly why: string | null;
      readonly at: Timestamp;
    };

/** `events`: one branch for each event of a task that emitted several. */
export type BlockKind = 'split' | 'foreach' | 'events';

/** What follows: the steps that were taken on the way, and where the branch stands still again. */
export interface Move {
  readonly steps: readonly StepTaken[];
  readonly landing: Landing;
}

export interface StepTaken {
  readonly node: NodeId;
  readonly kind: NodeKind | 'events';
  readonly status: StepStatus;
  /** JSON text of the branch's own payload after it; null when it was passed over. */
  readonly output: string | null;
  readonly error: string | null;
  readonly note: string | null;
}

export type Landing =
  /** A job is to be done. */
  | {
      readonly kind: 'task';
      readonly node: NodeId;
      readonly own: JsonObject;
      /** Nothing of the base is left in the payload. */
      readonly isWhole: boolean;
      /** `own` with what `with` adds: what the plugin gets on top of the base. */
      readonly input: JsonObject;
      /** All baggage from here on, when the step adds to it. */
      readonly context: JsonObject | undefined;
      /** Of all jobs with the same key, one runs at a time. */
      readonly dependency?: string;
    }
  | {
      readonly kind: 'pause';
      readonly node: NodeId;
      readonly own: JsonObject;
      readonly isWhole: boolean;
      readonly due: { readonly inMs: number } | { readonly at: Timestamp } | undefined;
      /** The type of the signal that ends it. */
      readonly signal: string | undefined;
      /** What a person is asked. */
      readonly message: string | null;
    }
  /** Branches are to be begun: `beginBranch` says how each of them does. */
  | {
      readonly kind: 'open';
      readonly node: NodeId;
      readonly own: JsonObject;
      readonly isWhole: boolean;
      readonly block: BlockKind;
      readonly width: number;
      readonly concurrency: number | undefined;
      /** Of `events`: what the branches get, to be kept until the last is begun. */
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

/** How one branch of a block begins. */
export interface Beginning {
  readonly node: NodeId;
  readonly stop: NodeId | null;
  readonly label: string | null;
  readonly own: JsonObject;
  readonly isWhole: boolean;
}
