import { createHash } from 'node:crypto';
import { compact, type Json, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { ContextDraft } from '../../job/types.ts';
import type { JobDraft, SubmittedBy } from '../../job/job.ts';
import type { Ending } from '../../job/outcome.ts';
import type { SignalDraft } from '../../signal/signal.ts';
import type { CommandTarget, Graph } from '../language/graph.ts';
import { haltReasonOf } from './halt.ts';
import type { Step, BranchRow, RunStatus, Arrival, RunRow, JobOutput } from './run.ts';
import type { RunCommitEvents } from './types.ts';

/** A branch with everything that is needed to compute its next steps. */
export interface LoadedBranch {
  readonly run: RunRow;
  readonly graph: Graph;
  readonly branch: BranchRow;
  readonly own: JsonObject;
  readonly base: JsonObject;
  readonly context: JsonObject;
}

/** The remaining work for a block whose branches have not all started. */
export interface BlockOpening {
  readonly kind: 'open';
  readonly events?: readonly Json[];
}

/** Stored in a branch that has to halt, until the running branches of its block have ended. */
export interface FailingState {
  readonly kind: 'failing';
  readonly arrival: FailedArrival;
  /** The work that was left for an advancer before. */
  readonly left: string | null;
}

export function parseFailing(outcome: string | null): FailingState | undefined {
  return outcome?.startsWith('{"kind":"failing"') === true
    ? (parseJson(outcome) as FailingState)
    : undefined;
}

export type FailedArrival = Extract<Arrival, { readonly kind: 'failed' }>;

/** Creates the arrival for the branch whose job ended for good. */
export function createJobArrival(
  ending: Ending,
  error: string | null,
  output?: JobOutput,
): Arrival {
  if (ending.status === 'succeeded') return { kind: 'done', events: [], result: null, ...output };
  const reason = haltReasonOf(ending);
  return { kind: 'failed', reason, error: error ?? `the job is ${ending.status}` };
}

/** Identifies the payload from before the block that a branch is in. */
export function baseKeyOf(
  branch: Pick<BranchRow, 'parentId' | 'parentMoves' | 'isWhole'>,
): string | undefined {
  if (branch.isWhole || branch.parentId === null) return undefined;
  return `${branch.parentId}:${branch.parentMoves}`;
}

/** The time at which a branch has to be advanced. */
export type Due = { readonly inMs: number } | { readonly at: string };

/** A branch to be written. The database's clock computes its times. */
export interface BranchDraft extends Omit<BranchRow, 'dueAt' | 'createdAt' | 'completedAt'> {
  readonly due: Due | undefined;
  /** Time until the next search for a signal, if that is before the branch is due. */
  readonly searchInMs?: number | undefined;
  /** Its current row. `plain`: the columns for waiting and advancing are empty. */
  readonly stored: 'none' | 'plain' | 'full';
}

/** Drafts a change of a branch, which isn't due afterwards. */
export function draftBranch(branch: BranchRow, fields: Partial<BranchDraft>): BranchDraft {
  const { status, createdAt } = branch;
  const stored = createdAt === '' ? 'none' : status === 'running' ? 'plain' : 'full';
  return { ...branch, due: undefined, stored, ...fields };
}

/** The columns of a branch that is not claimed. */
export const unclaimed = { claimToken: null, claimedBy: null, tries: 0, crashes: 0 } as const;

/** The columns of a branch that neither waits nor is being advanced. */
export const notPaused = {
  ...unclaimed,
  payloadRef: null,
  block: null,
  width: 0,
  cursor: 0,
  pending: 0,
  halted: 0,
  concurrency: null,
  outcome: null,
  waitsFor: null,
  wakeFrom: null,
  deadlineAt: null,
} as const;

/** The columns of a branch before its first step. It has no row yet. */
export const newBranch = {
  moves: 0,
  status: 'running',
  output: null,
  haltReason: null,
  haltMessage: null,
  lastStepId: null,
  dueAt: null,
  createdAt: '',
  completedAt: null,
} as const;

/** Creates the first branch of a run. It has no node until its definition is loaded. */
export function createRoot(run: RunRow): BranchRow {
  return {
    ...notPaused,
    ...newBranch,
    id: run.id,
    runId: run.id,
    parentId: null,
    parentMoves: null,
    index: 0,
    label: null,
    path: '0',
    node: '',
    stop: null,
    payload: run.payload,
    isWhole: true,
    eventContextId: run.eventContextId,
    jobId: null,
  };
}

/** A step to be written. The database's clock computes its other times. */
export interface StepDraft extends Omit<
  Step,
  'sourceStepId' | 'startedAt' | 'dueAt' | 'completedAt'
> {
  /** Default: now. */
  readonly startedAt: string | undefined;
  readonly due: Due | undefined;
}

export interface RunEnd {
  readonly run: RunRow;
  /** Its ended root branch. */
  readonly root: BranchDraft;
  /** The baggage of the root. */
  readonly context: JsonObject;
}

/** A step at which a branch started to wait for an approval. */
export interface ApprovalWait {
  readonly run: RunRow;
  readonly branchId: string;
  readonly stepId: string | null;
  readonly node: string;
  /** The last job before the step. */
  readonly jobId: string | null;
  readonly message: string | null;
  readonly due: Due | undefined;
  readonly context: JsonObject;
}

/** The number of branches of a block that ended, and of those that halted. */
export interface EndedCount {
  readonly count: number;
  readonly halted: number;
}

/**
 * The changes that follow from advancing branches. They are collected first, so that a few
 * statements write them, whatever the number of branches.
 */
export class BranchChanges {
  readonly started = new Map<string, BranchDraft>();
  readonly moved = new Map<string, BranchDraft>();
  readonly payloads: { id: string; runId: string; payload: string }[] = [];
  readonly steps: StepDraft[] = [];
  readonly closedSteps: StepDraft[] = [];
  readonly contexts: ContextDraft[] = [];
  readonly signals: SignalDraft[] = [];
  readonly jobs: JobDraft[] = [];
  readonly runEnds: RunEnd[] = [];
  readonly approvalWaits: ApprovalWait[] = [];
  /** The final status of each run that ended, including those that are written already. */
  readonly endedAs = new Map<string, RunStatus>();
  readonly #endedChildren = new Map<string, EndedCount>();
  readonly #endedRuns: string[] = [];
  #startedCount = 0;
  #advancing = false;
  #queued = false;
  #dueInMs: number | undefined;

  /** The number of started branches, including those that are written already. */
  get startedCount(): number {
    return this.#startedCount;
  }

  addBranch(branch: BranchDraft): void {
    const isNew = branch.stored === 'none';
    if (isNew && !this.started.has(branch.id)) this.#startedCount += 1;
    (isNew ? this.started : this.moved).set(branch.id, branch);
    if (branch.status === 'advancing') this.#advancing = true;
    else if (branch.due !== undefined) this.#addDue(branch.due);
    if (branch.searchInMs !== undefined) this.#addDue({ inMs: branch.searchInMs });
  }

  addJob(job: JobDraft): void {
    this.jobs.push(job);
    this.#queued = true;
  }

  endChild(parentId: string, isHalted: boolean): void {
    const { count, halted } = this.#endedChildren.get(parentId) ?? { count: 0, halted: 0 };
    this.#endedChildren.set(parentId, { count: count + 1, halted: halted + (isHalted ? 1 : 0) });
  }

  endRun(end: RunEnd): void {
    this.runEnds.push(end);
    this.endedAs.set(end.run.id, end.root.status === 'halted' ? 'halted' : 'succeeded');
    this.#endedRuns.push(end.run.id);
    // A queued run with the same concurrency key can start now.
    if (end.run.concurrencyKey !== null) this.#advancing = true;
  }

  /** Removes and returns the deepest parents with ended branches, in lock order. */
  drainDeepestParents(): (readonly [string, EndedCount])[] {
    const depths = [...this.#endedChildren.keys()].map(depthOf);
    const deepest = Math.max(...depths);
    const level = [...this.#endedChildren].filter(([id]) => depthOf(id) === deepest);
    for (const [id] of level) this.#endedChildren.delete(id);
    return level.toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  wakeAdvancer(): void {
    this.#advancing = true;
  }

  get events(): RunCommitEvents {
    return {
      advancing: this.#advancing,
      queued: this.#queued,
      dueInMs: this.#dueInMs,
      ...(this.#endedRuns.length === 0 ? {} : { ended: this.#endedRuns }),
    };
  }

  #addDue(due: Due): void {
    const ms = 'inMs' in due ? due.inMs : Math.max(0, Date.parse(due.at) - Date.now());
    this.#dueInMs = Math.min(this.#dueInMs ?? Infinity, ms);
  }
}

/** Drafts the fields that all jobs of a run have. Without a previous job, its parent is the run's. */
export function draftRunJob(
  run: RunRow,
  target: CommandTarget & { readonly maxAttempts?: number | undefined },
  previousJobId: string | null,
  eventContextId: string | null,
): Omit<JobDraft, 'id' | 'payload'> {
  return {
    plugin: target.plugin,
    command: target.command,
    submittedBy: run.submittedBy as SubmittedBy,
    actor: run.actor,
    maxAttempts: target.maxAttempts ?? limits.attemptsMax,
    rootJobId: run.rootJobId,
    hops: run.hops,
    runtimeCaused: run.runtimeCaused,
    ...compact({
      parentJobId: previousJobId ?? run.parentJobId ?? undefined,
      eventContextId: eventContextId ?? undefined,
    }),
  };
}

/**
 * Returns the idempotency key of a step's job. It is the same for every attempt at the same step of
 * the same element, even in a revived run.
 */
export function stepKeyOf(lineage: string, path: string, node: string): string {
  return createHash('sha256')
    .update(JSON.stringify([lineage, path, node]))
    .digest('hex')
    .slice(0, 32);
}

/** Grows with each level: a branch's id has two parts more than its parent's. */
export function depthOf(branchId: string): number {
  return branchId.split('.').length;
}

/** Lists the ids of a branch's ancestors, the nearest first. The last one is the root's. */
export function ancestorsOf(branchId: string): string[] {
  const parts = branchId.split('.');
  const ids: string[] = [];
  for (let length = parts.length - 2; length >= 1; length -= 2) {
    ids.push(parts.slice(0, length).join('.'));
  }
  return ids;
}

/** The root has the id of its run. */
export function runIdOf(branchId: string): string {
  return branchId.split('.')[0] ?? '';
}

export const noRunEvents: RunCommitEvents = {
  advancing: false,
  queued: false,
  dueInMs: undefined,
};

export function mergeRunEvents(all: readonly RunCommitEvents[]): RunCommitEvents {
  const dues = all.flatMap(({ dueInMs }) => (dueInMs === undefined ? [] : [dueInMs]));
  const failures = all.flatMap((events) => events.failures ?? []);
  const dropped = all.flatMap((events) => events.dropped ?? []);
  const ended = all.flatMap((events) => events.ended ?? []);
  return {
    advancing: all.some(({ advancing }) => advancing),
    queued: all.some(({ queued }) => queued),
    dueInMs: dues.length === 0 ? undefined : Math.min(...dues),
    ...(failures.length === 0 ? {} : { failures }),
    ...(dropped.length === 0 ? {} : { dropped }),
    ...(ended.length === 0 ? {} : { ended }),
  };
}
