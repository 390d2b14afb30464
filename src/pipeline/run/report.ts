import { makeId } from '../../base/ids.ts';
import type { JsonObject } from '../../base/json.ts';
import type { JobDraft } from '../../job/job.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../../signal/signal.ts';
import type { Handler } from '../language/graph.ts';
import {
  draftRunJob,
  stepKeyOf,
  type BranchDraft,
  type ApprovalWait,
  type RunEnd,
} from './changes.ts';
import type { RunRow } from './run.ts';

/** A branch that halted. */
export interface HaltedBranch {
  readonly id: string;
  readonly node: string;
  readonly reason: string;
  readonly message: string | null;
}

/** The branches that halted by themselves, by run. */
export type HaltedLeaves = ReadonlyMap<string, readonly HaltedBranch[]>;

/**
 * Returns the branches that halted by themselves, not because one of their own branches halted. In the
 * order of ids, the branches below a branch directly follow it.
 */
export function findHaltedLeaves(halted: readonly HaltedBranch[]): HaltedBranch[] {
  return halted.filter(({ id }, index) => halted[index + 1]?.id.startsWith(`${id}.`) !== true);
}

/** Returns the step at which a run halted, or null if it never reached its first step. */
export function haltedStepOf(root: BranchDraft, [leaf]: readonly HaltedBranch[]): string | null {
  const { node } = leaf ?? root;
  return node === '' ? null : node;
}

export function createHaltSignal(
  { run, root }: RunEnd,
  leaves: readonly HaltedBranch[],
  isHidden: boolean,
): SignalDraft {
  const { haltReason, haltMessage } = root;
  // The report quotes the run's errors.
  return createRunSignal(run, 'run.halted', isHidden, {
    run_id: run.id,
    pipeline: run.pipeline,
    reason: haltReason,
    message: haltMessage ?? `The run halted: ${haltReason ?? 'no reason was recorded'}`,
    next: `ductile why ${run.id}`,
    halted_at_step: haltedStepOf(root, leaves),
    branches: leaves.map(({ id, node, reason, message }) => ({
      branch_id: id,
      step_id: node,
      reason,
      message,
    })),
  });
}

/** Drafts the job of `on_halt`. Its payload is the one of the signal. */
export function draftHaltJob({ run, root }: RunEnd, handler: Handler, payload: string): JobDraft {
  return {
    ...draftRunJob(run, handler, root.jobId, run.eventContextId),
    id: makeId(),
    payload,
    idempotencyKey: stepKeyOf(run.id, '', 'on_halt'),
    hops: run.hops + 1,
    runtimeCaused: true,
  };
}

export function createApprovalSignal(wait: ApprovalWait, isHidden: boolean): SignalDraft {
  const { run, node, stepId, branchId, message, due } = wait;
  // The message can quote the payload.
  return createRunSignal(run, 'run.awaiting_approval', isHidden, {
    message: message ?? `A run of the pipeline ${run.pipeline} waits for an approval at ${node}.`,
    // Several branches can wait at the same step; only the id names one of them.
    next: `ductile run approve ${run.id} ${stepId}`,
    run_id: run.id,
    pipeline: run.pipeline,
    step: node,
    step_id: stepId,
    branch_id: branchId,
    timeout_ms: due !== undefined && 'inMs' in due ? due.inMs : null,
  });
}

function createRunSignal(
  run: RunRow,
  type: string,
  isHidden: boolean,
  payload: JsonObject,
): SignalDraft {
  return {
    id: makeId(),
    type,
    source: RUNTIME_SOURCE,
    subjectType: 'run',
    subjectId: run.id,
    data: JSON.stringify(payload),
    hops: run.hops + 1,
    correlationId: run.rootJobId,
    ...(run.sourceEventId === null ? {} : { causationId: run.sourceEventId }),
    ...(isHidden ? { visibility: 'admin_only' } : {}),
  };
}
