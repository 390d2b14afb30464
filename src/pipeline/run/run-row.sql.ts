import type { BlockKind } from './transition.ts';
import type { Branch, BranchStatus, HaltReason, Run, RunStatus, Step, StepStatus } from './run.ts';
import type { Row } from '../../ledger/dialect.ts';
import type { Advancement } from './types.ts';
import { int, intOrNull, text, textOrNull } from '../../ledger/row.ts';

/** A run as the ledger keeps it. */
export interface RunRow extends Run {
  readonly firstJobId: string;
  readonly concurrencyLimit: number | null;
}

/** A branch as the ledger keeps it, with what only moving it on needs. */
export interface BranchRow extends Branch {
  /** The kind of its open block. */
  readonly block: BlockKind | null;
  /** How many branches of that did not end well. */
  readonly halted: number;
  readonly concurrency: number | null;
  /** Where its payload is kept while a wide block is open. */
  readonly payloadRef: string | null;
  /** JSON text of what it brings to the join. */
  readonly output: string | null;
  /** JSON text of what is left to be done with it. */
  readonly outcome: string | null;
  /** The end of its wait, while `dueAt` says when to look at it. */
  readonly deadlineAt: string | null;
  /** The first signal that may end its wait. */
  readonly wakeFrom: number | null;
  readonly claimToken: string | null;
  readonly tries: number;
  readonly crashes: number;
}

export function toRun(row: Row): RunRow {
  return {
    seq: int(row, 'seq'),
    id: text(row, 'id'),
    pipeline: text(row, 'pipeline'),
    definitionHash: text(row, 'definition_hash'),
    status: text(row, 'status') as RunStatus,
    payload: text(row, 'payload'),
    output: textOrNull(row, 'output'),
    haltReason: textOrNull(row, 'halt_reason') as HaltReason | null,
    haltMessage: textOrNull(row, 'halt_message'),
    haltedAtStep: textOrNull(row, 'halted_at_step'),
    submittedBy: text(row, 'submitted_by'),
    actor: text(row, 'actor'),
    sourceEventId: textOrNull(row, 'source_event_id'),
    parentJobId: textOrNull(row, 'parent_job_id'),
    firstJobId: text(row, 'first_job_id'),
    rootJobId: text(row, 'root_job_id'),
    lineage: text(row, 'lineage'),
    hops: int(row, 'hops'),
    runtimeCaused: row['runtime_caused'] === 1,
    eventContextId: textOrNull(row, 'event_context_id'),
    concurrencyKey: textOrNull(row, 'concurrency_key'),
    concurrencyLimit: intOrNull(row, 'concurrency_limit'),
    revivedFrom: textOrNull(row, 'revived_from'),
    awaitedBy: textOrNull(row, 'awaited_by'),
    dueAt: textOrNull(row, 'due_at'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    createdAt: text(row, 'created_at'),
    startedAt: textOrNull(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
  };
}

export function toBranch(row: Row): BranchRow {
  return {
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    parentId: textOrNull(row, 'parent_id'),
    parentMoves: intOrNull(row, 'parent_moves'),
    index: int(row, 'idx'),
    label: textOrNull(row, 'label'),
    path: text(row, 'path'),
    node: text(row, 'node'),
    stop: textOrNull(row, 'stop'),
    status: text(row, 'status') as BranchStatus,
    payload: text(row, 'payload'),
    payloadRef: textOrNull(row, 'payload_ref'),
    isWhole: row['is_whole'] === 1,
    eventContextId: textOrNull(row, 'event_context_id'),
    jobId: textOrNull(row, 'job_id'),
    moves: int(row, 'moves'),
    block: textOrNull(row, 'block') as BlockKind | null,
    width: int(row, 'width'),
    cursor: int(row, 'cursor'),
    pending: int(row, 'pending'),
    halted: int(row, 'halted'),
    concurrency: intOrNull(row, 'concurrency'),
    output: textOrNull(row, 'output'),
    outcome: textOrNull(row, 'outcome'),
    dueAt: textOrNull(row, 'due_at'),
    deadlineAt: textOrNull(row, 'deadline_at'),
    waitsFor: textOrNull(row, 'waits_for'),
    wakeFrom: intOrNull(row, 'wake_from'),
    claimToken: textOrNull(row, 'claim_token'),
    claimedBy: textOrNull(row, 'claimed_by'),
    tries: int(row, 'tries'),
    crashes: int(row, 'crashes'),
    haltReason: textOrNull(row, 'halt_reason') as HaltReason | null,
    haltMessage: textOrNull(row, 'halt_message'),
    lastStepId: textOrNull(row, 'last_step_id'),
    createdAt: text(row, 'created_at'),
    completedAt: textOrNull(row, 'completed_at'),
  };
}

export function toStep(row: Row): Step {
  return {
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    branchId: text(row, 'branch_id'),
    node: text(row, 'node'),
    kind: text(row, 'kind'),
    status: text(row, 'status') as StepStatus,
    jobId: textOrNull(row, 'job_id'),
    output: textOrNull(row, 'output'),
    error: textOrNull(row, 'error'),
    note: textOrNull(row, 'note'),
    nextNode: textOrNull(row, 'next_node'),
    sourceStepId: textOrNull(row, 'source_step_id'),
    startedAt: text(row, 'started_at'),
    dueAt: textOrNull(row, 'due_at'),
    completedAt: textOrNull(row, 'completed_at'),
  };
}

export function toAdvancement(row: Row): Advancement {
  return {
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    branchId: text(row, 'branch_id'),
    node: text(row, 'node'),
    processId: text(row, 'process_id'),
    startedAt: text(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
    error: textOrNull(row, 'error'),
    crashed: row['crashed'] === 1,
  };
}
