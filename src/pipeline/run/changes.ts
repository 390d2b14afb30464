import type { JsonObject } from '../../base/json.ts';
import type { JobDraft } from '../../job/job.ts';
import type { RunStatus, StepStatus } from './run.ts';
import type { SignalDraft } from '../../signal/signal.ts';
import type { ContextDraft } from '../../job/types.ts';
import type { RunNews } from './types.ts';
import type { BranchRow, RunRow } from './load-branch.sql.ts';

/** When somebody has to look at a branch again. */
export type Due = { readonly inMs: number } | { readonly at: string };

/** A branch as it is to be written; the database's clock makes times of what is due. */
export interface MovedBranch extends Omit<BranchRow, 'dueAt' | 'createdAt' | 'completedAt'> {
  readonly due: Due | undefined;
  /** In how long it is to be looked at, where that is before it is due. */
  readonly lookInMs?: number | undefined;
  /** Its row has nothing in the columns that only waiting and advancing need. */
  readonly wasPlain: boolean;
}

export interface StepDraft {
  readonly id: string;
  readonly runId: string;
  readonly branchId: string;
  readonly node: string;
  readonly kind: string;
  readonly status: StepStatus;
  readonly jobId: string | null;
  readonly output: string | null;
  readonly error: string | null;
  readonly note: string | null;
  readonly nextNode: string | null;
  /** Now, when undefined. */
  readonly startedAt: string | undefined;
  readonly due: Due | undefined;
}

export interface RunEnd {
  readonly run: RunRow;
  /** Its root, ended. */
  readonly root: MovedBranch;
  /** The baggage that the root had. */
  readonly context: JsonObject;
}

/** A step at which a branch began to wait for a person. */
export interface Question {
  readonly run: RunRow;
  readonly branchId: string;
  readonly stepId: string | null;
  readonly node: string;
  /** The job before it. */
  readonly jobId: string | null;
  readonly message: string | null;
  readonly due: Due | undefined;
  readonly context: JsonObject;
}

/** Branches of a block that ended. */
export interface Ended {
  readonly count: number;
  readonly halted: number;
}

/**
 * What moving branches on leads to, collected so that it is written with a few statements however
 * many branches there are.
 */
export class Effects {
  readonly begun = new Map<string, MovedBranch>();
  readonly moved = new Map<string, MovedBranch>();
  readonly payloads: { id: string; runId: string; payload: string }[] = [];
  readonly steps: StepDraft[] = [];
  readonly closedSteps: StepDraft[] = [];
  readonly contexts: ContextDraft[] = [];
  readonly signals: SignalDraft[] = [];
  readonly jobs: JobDraft[] = [];
  readonly runEnds: RunEnd[] = [];
  readonly questions: Question[] = [];
  /** How the runs ended that did, written already or not. */
  readonly endedAs = new Map<string, RunStatus>();
  readonly #endedOf = new Map<string, Ended>();
  readonly #endedRuns: string[] = [];
  #begunCount = 0;
  #advancing = false;
  #queued = false;
  #dueInMs: number | undefined;

  /** How many branches were begun, written already or not. */
  get begunCount(): number {
    return this.#begunCount;
  }

  put(branch: MovedBranch, isNew: boolean): void {
    if (isNew && !this.begun.has(branch.id)) this.#begunCount += 1;
    (isNew ? this.begun : this.moved).set(branch.id, branch);
    if (branch.status === 'advancing') this.#advancing = true;
    else if (branch.due !== undefined) this.#noteDue(branch.due);
    if (branch.lookInMs !== undefined) this.#noteDue({ inMs: branch.lookInMs });
  }

  putJob(job: JobDraft): void {
    this.jobs.push(job);
    this.#queued = true;
  }

  endChild(parentId: string, isHalted: boolean): void {
    const { count, halted } = this.#endedOf.get(parentId) ?? { count: 0, halted: 0 };
    this.#endedOf.set(parentId, { count: count + 1, halted: halted + (isHalted ? 1 : 0) });
  }

  endRun(end: RunEnd): void {
    this.runEnds.push(end);
    this.endedAs.set(end.run.id, end.root.status === 'halted' ? 'halted' : 'succeeded');
    this.#endedRuns.push(end.run.id);
    // Others of its key may begin now.
    if (end.run.concurrencyKey !== null) this.#advancing = true;
  }

  /** The deepest parents of which branches have ended, in the order in which they are locked. */
  takeEndedOf(): (readonly [string, Ended])[] {
    const depths = [...this.#endedOf.keys()].map(depthOf);
    const deepest = Math.max(...depths);
    const level = [...this.#endedOf].filter(([id]) => depthOf(id) === deepest);
    for (const [id] of level) this.#endedOf.delete(id);
    return level.toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  leaveToAdvancer(): void {
    this.#advancing = true;
  }

  get news(): RunNews {
    return {
      advancing: this.#advancing,
      queued: this.#queued,
      dueInMs: this.#dueInMs,
      ...(this.#endedRuns.length === 0 ? {} : { ended: this.#endedRuns }),
    };
  }

  #noteDue(due: Due): void {
    const ms = 'inMs' in due ? due.inMs : Math.max(0, Date.parse(due.at) - Date.now());
    this.#dueInMs = Math.min(this.#dueInMs ?? Infinity, ms);
  }
}

/** A branch's id has two parts more than its parent's. */
function depthOf(branchId: string): number {
  return branchId.split('.').length;
}
