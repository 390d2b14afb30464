/** What runs, their branches and steps look like to a caller. */
import * as z from 'zod';
import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { parseStoredJson } from '../../base/json.ts';
import {
  branchStatuses,
  haltReasons,
  runStatuses,
  stepStatuses,
  type Branch,
  type Run,
  type Step,
} from './run.ts';
import { readDecision } from './waits.service.ts';

const id = z.string();
const time = z.string().describe('UTC, ISO 8601 with milliseconds');
const ms = z.int().nullable().describe('from start to end');

export const runShape = z.object({
  run_id: id,
  seq: z.int().describe('the order of acceptance, and the cursor of lists'),
  pipeline: z.string(),
  status: z.enum(runStatuses),
  halt_reason: z.enum(haltReasons).nullable(),
  halt_message: z.string().nullable(),
  halted_at_step: z.string().nullable(),
  submitted_by: z.string(),
  actor: z.string(),
  source_event_id: id.nullable(),
  parent_job_id: id.nullable(),
  root_job_id: id,
  concurrency_key: z.string().nullable(),
  dedupe_key: z.string().nullable(),
  due_at: time.nullable().describe('while it waits for that moment'),
  revived_from: id.nullable().describe('the run whose work it goes on with'),
  definition_hash: z.string(),
  created_at: time,
  started_at: time.nullable(),
  completed_at: time.nullable(),
  duration_ms: ms,
});

export function showRun(run: Run): z.output<typeof runShape> {
  return {
    run_id: run.id,
    seq: run.seq,
    pipeline: run.pipeline,
    status: run.status,
    halt_reason: run.haltReason,
    halt_message: run.haltMessage,
    halted_at_step: run.haltedAtStep,
    submitted_by: run.submittedBy,
    actor: run.actor,
    source_event_id: run.sourceEventId,
    parent_job_id: run.parentJobId,
    root_job_id: run.rootJobId,
    concurrency_key: run.concurrencyKey,
    dedupe_key: run.dedupeKey,
    due_at: run.dueAt,
    revived_from: run.revivedFrom,
    definition_hash: run.definitionHash,
    created_at: run.createdAt,
    started_at: run.startedAt,
    completed_at: run.completedAt,
    duration_ms: durationBetween(run.startedAt, run.completedAt),
  };
}

export const stepShape = z.object({
  step_id: id,
  step: z.string().describe('its id in the pipeline'),
  kind: z.string(),
  status: z.enum(stepStatuses),
  branch: z.string().describe('its indexes from the root down, such as 0.2'),
  branch_id: id,
  job_id: id.nullable(),
  result: z.unknown().describe('what its branch had of its own after it'),
  error: z.string().nullable(),
  note: z.string().nullable().describe('which case was taken, who approved'),
  approved: z.boolean().nullable().describe('the decision about a step that asked'),
  approved_by: z.string().nullable().describe('who decided; `deadline` when its time did'),
  approval_reason: z.string().nullable(),
  next_step: z.string().nullable(),
  source_step_id: id.nullable().describe('the step of the earlier run that did this'),
  started_at: time,
  due_at: time.nullable(),
  completed_at: time.nullable(),
  duration_ms: ms,
});

export function showStep(
  step: Step,
  path: string,
  startedAt: Timestamp = step.startedAt,
): z.output<typeof stepShape> {
  return {
    step_id: step.id,
    step: step.node,
    kind: step.kind,
    status: step.status,
    branch: path,
    branch_id: step.branchId,
    job_id: step.jobId,
    result: parseStoredJson(step.output),
    error: step.error,
    note: step.note,
    ...readDecision(step),
    next_step: step.nextNode,
    source_step_id: step.sourceStepId,
    started_at: startedAt,
    due_at: step.dueAt,
    completed_at: step.completedAt,
    duration_ms: durationBetween(startedAt, step.completedAt),
  };
}

export const branchShape = z.object({
  branch_id: id,
  parent_id: id.nullable(),
  branch: z.string().describe('its indexes from the root down, such as 0.2'),
  block: z.string().nullable().describe('the step whose block it belongs to'),
  label: z.string().nullable().describe('the id of its arm of a split'),
  step: z.string().describe('where it stands, or ended'),
  status: z.enum(branchStatuses),
  halt_reason: z.enum(haltReasons).nullable(),
  halt_message: z.string().nullable(),
  job_id: id.nullable(),
  width: z.int().describe('how many branches its block has'),
  pending: z.int().describe('how many of them have not ended'),
  due_at: time.nullable(),
  waits_for: z.string().nullable(),
  created_at: time,
  completed_at: time.nullable(),
  duration_ms: ms,
});

export function showBranch(branch: Branch, block: string | null): z.output<typeof branchShape> {
  return {
    branch_id: branch.id,
    parent_id: branch.parentId,
    branch: branch.path,
    block,
    label: branch.label,
    step: branch.node,
    status: branch.status,
    halt_reason: branch.haltReason,
    halt_message: branch.haltMessage,
    job_id: branch.jobId,
    width: branch.width,
    pending: branch.pending,
    due_at: branch.dueAt,
    waits_for: branch.waitsFor,
    created_at: branch.createdAt,
    completed_at: branch.completedAt,
    duration_ms: durationBetween(branch.createdAt, branch.completedAt),
  };
}

function durationBetween(from: Timestamp | null, to: Timestamp | null): number | null {
  return from === null || to === null ? null : Math.max(0, fromTimestamp(to) - fromTimestamp(from));
}
