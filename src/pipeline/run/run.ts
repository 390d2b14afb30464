import type { Timestamp } from '../../base/clock.ts';
import type { Json, JsonObject } from '../../base/json.ts';
import { columnNamed, columnOf, table, type RowOf } from '../../ledger/table.ts';
import type { NodeId, NodeKind } from '../language/graph.ts';
import type { HaltReason } from './halt.ts';

/** `queued`: the run waits for its time, or for other runs of its concurrency key. */
export const runStatuses = ['queued', 'running', 'succeeded', 'halted', 'cancelled'] as const;
export type RunStatus = (typeof runStatuses)[number];

export function isRunOver(status: RunStatus): boolean {
  return status !== 'queued' && status !== 'running';
}

/**
 * `running`: a job of the branch is queued or running. `waiting`: for time, a signal, an approval or
 * its own branches. `advancing`: an advancer claims it and continues it.
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

export const runTable = table('pipeline_runs', {
  seq: 'int',
  id: 'text',
  pipeline: 'text',
  definitionHash: 'text',
  status: columnOf<RunStatus>('text'),
  /** The initial payload as JSON text. */
  payload: 'text',
  /** The output of the last step as JSON text. */
  output: 'text?',
  haltReason: columnOf<HaltReason | null>('text?'),
  haltMessage: 'text?',
  haltedAtStep: 'text?',
  submittedBy: 'text',
  actor: 'text',
  sourceEventId: 'text?',
  parentJobId: 'text?',
  /** The first job of its lineage. */
  rootJobId: 'text',
  /**
   * The source of the idempotency keys of its jobs. A revived run has the lineage of the first run.
   */
  lineage: 'text',
  hops: 'int',
  runtimeCaused: 'flag',
  eventContextId: 'text?',
  concurrencyKey: 'text?',
  /** Set while the run waits for this time. */
  dueAt: 'time?',
  dedupeKey: 'text?',
  revivedFrom: 'text?',
  /** The listener that gets notified of its end. */
  awaitedBy: 'text?',
  createdAt: 'time',
  startedAt: 'time?',
  completedAt: 'time?',
  // Only the ledger needs the rest.
  firstJobId: 'text',
  concurrencyLimit: 'int?',
  dedupeTtlMs: 'int?',
  /** Its dedupe key, while no other run may have it. */
  heldKey: 'text?',
});

export type RunRow = RowOf<typeof runTable>;
export type Run = Omit<RunRow, 'firstJobId' | 'concurrencyLimit' | 'dedupeTtlMs' | 'heldKey'>;

/**
 * A due date that never comes. It marks branches that are delayed until others of their block end.
 */
export const DELAYED_DAY = '9999-12-31';

/** The threads of control in runs. */
export const branchTable = table('run_branches', {
  id: 'text',
  runId: 'text',
  parentId: 'text?',
  /** Identifies the block that it is in: the parent's `moves` when that block was opened. */
  parentMoves: 'int?',
  /** Its index in that block, from 0. */
  index: columnNamed('idx', 'int'),
  /** The id of the arm of a `split`. */
  label: 'text?',
  /** Indexes from the root down, such as `0.2.17`. */
  path: 'text',
  node: 'text',
  /** The node before which it ends, if that is before the end of its body. */
  stop: 'text?',
  status: columnOf<BranchStatus>('text'),
  /**
   * JSON text: the part that it adds to the payload of its parent, or the whole payload if
   * `isWhole`.
   */
  payload: 'text',
  isWhole: 'flag',
  eventContextId: 'text?',
  /** The job of its current step. */
  jobId: 'text?',
  /** Grows with every move, so that outdated copies of the branch can be recognized. */
  moves: 'int',
  /**
   * For an open block: how many branches it has, how many have started, and how many have not
   * ended.
   */
  width: 'int',
  cursor: 'int',
  pending: 'int',
  /** While a process has claimed the branch: when other processes may claim it. */
  dueAt: 'time?',
  /** The process that advances it now. */
  claimedBy: 'text?',
  waitsFor: 'text?',
  haltReason: columnOf<HaltReason | null>('text?'),
  haltMessage: 'text?',
  lastStepId: 'text?',
  createdAt: 'time',
  completedAt: 'time?',
  // Only the ledger needs the rest, to advance the branch.
  /** The kind of its open block. */
  block: columnOf<BlockKind | null>('text?'),
  /** The number of branches of that block that halted. */
  halted: 'int',
  concurrency: 'int?',
  /** The row of `run_payloads` that has its payload while a wide block is open. */
  payloadRef: 'text?',
  /** JSON text: its output, for the join. */
  output: 'text?',
  /** JSON text: the work that is left for an advancer. */
  outcome: 'text?',
  /** The end of its wait. `dueAt` can be earlier, to search for a signal. */
  deadlineAt: 'time?',
  /** The number of the first signal that can end its wait. */
  wakeFrom: 'int?',
  claimToken: 'text?',
  tries: 'int',
  crashes: 'int',
});

export type BranchRow = RowOf<typeof branchTable>;

/** A thread of control in a run. */
export type Branch = Omit<BranchRow, AdvanceProperty>;

type AdvanceProperty =
  | 'block'
  | 'halted'
  | 'concurrency'
  | 'payloadRef'
  | 'output'
  | 'outcome'
  | 'deadlineAt'
  | 'wakeFrom'
  | 'claimToken'
  | 'tries'
  | 'crashes';

/** The finished and waiting steps of runs. */
export const stepTable = table('run_steps', {
  id: 'text',
  runId: 'text',
  branchId: 'text',
  node: 'text',
  kind: 'text',
  status: columnOf<StepStatus>('text'),
  jobId: 'text?',
  /** JSON text: the branch's own part of the payload after the step. */
  output: 'text?',
  error: 'text?',
  /** The reason for its result, such as the chosen case or the user who approved. */
  note: 'text?',
  nextNode: 'text?',
  /** In a revived run: the step of the earlier run that this row copies. */
  sourceStepId: 'text?',
  startedAt: 'time',
  dueAt: 'time?',
  completedAt: 'time?',
});

export type Step = RowOf<typeof stepTable>;

const stateTexts: Readonly<Record<string, string>> = {
  succeeded: 'has succeeded',
  failed: 'has failed',
  timed_out: 'has timed out',
  halted: 'has halted',
  cancelled: 'was cancelled',
  skipped: 'was skipped',
};

/** Describes the status of a job, a run or a step, to follow its name. */
export function describeState(status: string): string {
  return stateTexts[status] ?? `is ${status}`;
}

/** Describes the decision about a step that waited for approval. */
export function describeDecision({ status, error, note }: Step): string {
  return (status === 'failed' ? error : note) ?? `it is ${status}`;
}

/**
 * The value of `wakeFrom` for a branch that also accepts signals from before its wait: search from
 * the start of its run. It is greater than every signal number, so an older version of Ductile, which
 * doesn't know the value, finds no signal.
 */
export const FROM_RUN_START = Number.MAX_SAFE_INTEGER;

/** As above, for a second search a little later. */
export const FROM_RUN_START_AGAIN = FROM_RUN_START - 1;

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
      /** The question for the approval. */
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

/** The output of a succeeded job for the branch that waits for it. */
export interface JobOutput {
  /** The payloads of its events. */
  readonly events: readonly Json[];
  readonly result: Json;
}
