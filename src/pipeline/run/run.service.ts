import * as z from 'zod';
import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { parseStoredJson } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { showRow } from '../../base/show-row.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { payloadKeyOf } from './walk.ts';
import {
  branchStatuses,
  runStatuses,
  stepStatuses,
  type Step,
  type Run,
  type Branch,
} from './run.ts';
import { haltReasons } from './halt.ts';

const idField = z.string();
const timeField = z.string().describe('UTC, ISO 8601 with milliseconds');
const durationField = z.int().nullable().describe('from start to end');

export const runShape = z.object({
  run_id: idField,
  seq: z.int().describe('the order of acceptance, and the cursor of lists'),
  pipeline: z.string(),
  status: z.enum(runStatuses),
  halt_reason: z.enum(haltReasons).nullable(),
  halt_message: z.string().nullable(),
  halted_at_step: z.string().nullable(),
  submitted_by: z.string(),
  actor: z.string(),
  source_event_id: idField.nullable(),
  parent_job_id: idField.nullable(),
  root_job_id: idField,
  concurrency_key: z.string().nullable(),
  dedupe_key: z.string().nullable(),
  due_at: timeField.nullable().describe('the start time, while the run waits for it'),
  revived_from: idField.nullable().describe('the run whose work it continues'),
  definition_hash: z.string(),
  created_at: timeField,
  started_at: timeField.nullable(),
  completed_at: timeField.nullable(),
  duration_ms: durationField,
});

export function showRun(run: Run): z.output<typeof runShape> {
  return showRow(runShape, run, {
    run_id: run.id,
    duration_ms: durationBetween(run.startedAt, run.completedAt),
  });
}

export const stepShape = z.object({
  step_id: idField,
  step: z.string().describe('its id in the pipeline'),
  kind: z.string(),
  status: z.enum(stepStatuses),
  branch: z.string().describe('its indexes from the root down, such as 0.2'),
  branch_id: idField,
  job_id: idField.nullable(),
  result: z.unknown().describe("the branch's own part of the payload after the step"),
  error: z.string().nullable(),
  note: z.string().nullable().describe('details, such as the chosen case or who approved'),
  approved: z.boolean().nullable().describe('the decision about a step that waited for approval'),
  approved_by: z.string().nullable().describe('who decided; `deadline` if the timeout decided'),
  approval_reason: z.string().nullable(),
  next_step: z.string().nullable(),
  source_step_id: idField.nullable().describe('the step of the earlier run whose result this is'),
  started_at: timeField,
  due_at: timeField.nullable(),
  completed_at: timeField.nullable(),
  duration_ms: durationField,
});

export function showStep(
  step: Step,
  path: string,
  startedAt: Timestamp = step.startedAt,
): z.output<typeof stepShape> {
  return showRow(stepShape, step, {
    ...readDecision(step),
    step_id: step.id,
    step: step.node,
    branch: path,
    result: parseStoredJson(step.output),
    next_step: step.nextNode,
    started_at: startedAt,
    duration_ms: durationBetween(startedAt, step.completedAt),
  });
}

/** Shows the steps of a run with the paths of their branches. */
export function showSteps(
  steps: readonly Step[],
  branches: readonly Branch[],
): z.output<typeof stepShape>[] {
  const paths = new Map(branches.map(({ id, path }) => [id, path]));
  const openings = findOpenings({ branches, steps });
  return steps.map((step) => showStep(step, paths.get(step.branchId) ?? '', openings.get(step.id)));
}

export const branchShape = z.object({
  branch_id: idField,
  parent_id: idField.nullable(),
  branch: z.string().describe('its indexes from the root down, such as 0.2'),
  block: z.string().nullable().describe('the step whose block it belongs to'),
  label: z.string().nullable().describe('the id of its arm in a split'),
  step: z.string().describe('its current or last step'),
  status: z.enum(branchStatuses),
  halt_reason: z.enum(haltReasons).nullable(),
  halt_message: z.string().nullable(),
  job_id: idField.nullable(),
  width: z.int().describe('number of branches in its block'),
  pending: z.int().describe('number of these branches that have not ended'),
  due_at: timeField.nullable(),
  waits_for: z.string().nullable(),
  created_at: timeField,
  completed_at: timeField.nullable(),
  duration_ms: durationField,
});

export function showBranch(branch: Branch, block: string | null): z.output<typeof branchShape> {
  return showRow(branchShape, branch, {
    branch_id: branch.id,
    branch: branch.path,
    block,
    step: branch.node,
    duration_ms: durationBetween(branch.createdAt, branch.completedAt),
  });
}

function durationBetween(from: Timestamp | null, to: Timestamp | null): number | null {
  return from === null || to === null ? null : Math.max(0, fromTimestamp(to) - fromTimestamp(from));
}

interface DecisionFields {
  readonly approved: boolean | null;
  readonly approved_by: string | null;
  readonly approval_reason: string | null;
}

const noDecision: DecisionFields = { approved: null, approved_by: null, approval_reason: null };

/** Reads the decision from the note or error of a step. The actor ends before the first `: `. */
export function readDecision({ kind, status, error, note }: Step): DecisionFields {
  if (kind !== 'approve' || status === 'waiting') return noDecision;
  const match = /^(approved|rejected) by (.+?)(?:: ([\s\S]*))?$/.exec(
    (status === 'failed' ? error : note) ?? '',
  );
  if (match === null) return noDecision;
  const [, verdict, by = null, reason = null] = match;
  return { approved: verdict === 'approved', approved_by: by, approval_reason: reason };
}

export const approvalShape = z.object({
  step: z.string(),
  step_id: z.string(),
  approved: z.boolean(),
  by: z.string().describe('the actor; `deadline` if the timeout decided'),
  reason: z.string().nullable(),
  at: z.string().nullable(),
});

/** Lists the decisions in a run, in the order of its steps. */
export function listApprovals(steps: readonly Step[]): z.output<typeof approvalShape>[] {
  return steps.flatMap((step) => {
    const { approved, approved_by: by, approval_reason: reason } = readDecision(step);
    if (approved === null || by === null) return [];
    return [{ step: step.node, step_id: step.id, approved, by, reason, at: step.completedAt }];
  });
}

/** The branches and steps of a run. */
export interface RunParts {
  readonly branches: readonly Branch[];
  readonly steps: readonly Step[];
  /** False if the run has more than the limit of one response. */
  readonly complete: boolean;
}

/** Reads as much of a run as one response can have. */
export async function readParts(ledger: Ledger, run: Run): Promise<RunParts> {
  const page = { runId: run.id, limit: limits.pageRowsMax + 1 };
  const [branches, steps] = await Promise.all([
    ledger.runs.listBranches(page),
    ledger.runs.listSteps(page),
  ]);
  const complete = Math.max(branches.length, steps.length) <= limits.pageRowsMax;
  return complete ? { branches, steps, complete } : await readSome(ledger, run, branches, steps);
}

/**
 * Reads a part of a run that is too large. The steps of its root come first, because they show where
 * the others belong. Then come all failures, and then the first branches and steps.
 */
async function readSome(
  ledger: Ledger,
  { id: runId }: Run,
  branches: readonly Branch[],
  steps: readonly Step[],
): Promise<RunParts> {
  const page = { runId, limit: SELECTED_MAX };
  const [halted, own, failed] = await Promise.all([
    ledger.runs.listBranches({ ...page, status: 'halted' }),
    ledger.runs.listSteps({ ...page, branchId: runId }),
    ledger.runs.listSteps({ ...page, status: 'failed' }),
  ]);
  const root = branches.slice(0, 1);
  return {
    branches: firstOf([...root, ...halted, ...branches]),
    steps: firstOf([...own, ...failed, ...steps]),
    complete: false,
  };
}

/** A third each for steps of the root and for failures leaves a third for others. */
const SELECTED_MAX = Math.floor(limits.pageRowsMax / 3);

/** Removes duplicates, and sorts as many as fit in the order of creation. */
function firstOf<T extends { readonly id: string }>(all: readonly T[]): T[] {
  const unique = [...new Map(all.map((row) => [row.id, row])).values()];
  return unique.slice(0, limits.pageRowsMax).toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

type BranchesAndSteps = Omit<RunParts, 'complete'>;

/**
 * Finds when blocks were opened. A block's step is written when the block ends, so its start is the
 * creation of its first branch.
 */
export function findOpenings(parts: BranchesAndSteps): Map<string, Timestamp> {
  const openings = new Map<string, Timestamp>();
  for (const { step, block } of pairBlocks(parts)) {
    const [first] = block.map(({ createdAt }) => createdAt).toSorted();
    if (step !== undefined && first !== undefined) openings.set(step.id, first);
  }
  return openings;
}

/** Maps each branch to the step whose block it belongs to. */
export function findOwners(parts: BranchesAndSteps): Map<string, string> {
  const owners = new Map<string, string>();
  for (const { node, block } of pairBlocks(parts)) {
    for (const { id } of block) owners.set(id, node);
  }
  return owners;
}

interface BlockPair {
  readonly node: string;
  /** Undefined while the block is open. */
  readonly step: Step | undefined;
  readonly block: readonly Branch[];
}

/** Pairs the blocks of each branch with the steps that opened them. */
function pairBlocks({ branches, steps }: BranchesAndSteps): BlockPair[] {
  const childrenOf = Map.groupBy(branches, ({ parentId }) => parentId);
  const stepsOf = Map.groupBy(steps, ({ branchId }) => branchId);
  return branches.flatMap(({ id, node }) => {
    const blockSteps = (stepsOf.get(id) ?? []).filter(isBlock);
    return blocksOf(childrenOf.get(id) ?? []).map((block, index) => {
      const step = blockSteps[index];
      return { node: step?.node ?? node, step, block };
    });
  });
}

/** Groups the branches by block, in the order in which the blocks were opened. */
export function blocksOf(children: readonly Branch[]): Branch[][] {
  const groups = Map.groupBy(children, ({ parentMoves }) => parentMoves ?? 0);
  return [...groups]
    .sort(([a], [b]) => a - b)
    .map(([, block]) => block.toSorted((a, b) => a.index - b.index));
}

/** True if the step had branches. An empty list has none. */
export function isBlock({ kind, status, node, output }: Step): boolean {
  if (status === 'skipped') return false;
  if (kind !== 'foreach') return kind === 'split' || kind === 'events';
  const own = parseStoredJson(output) as Readonly<Record<string, unknown>> | null;
  const joined = own?.[payloadKeyOf(node)];
  return !Array.isArray(joined) || joined.length > 0;
}
