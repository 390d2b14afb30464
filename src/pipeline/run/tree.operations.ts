import * as z from 'zod';
import type { Timestamp } from '../../base/clock.ts';
import { branchStatuses, stepStatuses, type Branch, type Step } from './run.ts';
import { defineOperation } from '../../operation/define.ts';
import {
  blocksOf,
  findOpenings,
  isBlock,
  readParts,
  type RunParts,
  runShape,
  showBranch,
  showRun,
  showStep,
} from './run.service.ts';
import { requireRun, runIdField } from './run.operations.ts';

const nodeShape = z.object({
  depth: z.int().describe('0 for the run'),
  kind: z.string().describe('`branch`, or the kind of a step'),
  name: z.string().describe('the id of the step; of a branch its arm or its index'),
  status: z.enum([...branchStatuses, ...stepStatuses]),
  branch_id: z.string(),
  step_id: z.string().nullable(),
  job_id: z.string().nullable(),
  note: z.string().nullable(),
  error: z.string().nullable(),
  started_at: z.string(),
  completed_at: z.string().nullable(),
  duration_ms: z.int().nullable(),
});

type TreeNode = z.output<typeof nodeShape>;

export const runTree = defineOperation({
  name: 'run.tree',
  summary: 'Show a run as a tree: branches, and under each the steps that it took.',
  effect: 'read',
  needs: 'ledger',
  scope: 'runs:ro',
  input: z.strictObject({ id: runIdField }),
  output: z.object({
    run: runShape,
    nodes: z.array(nodeShape).describe('each before what is in it'),
    complete: z.boolean().describe('false when it was cut off because it is too large'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'RUN_NOT_FOUND'],
  http: { method: 'GET', path: '/runs/:id/tree' },
  cli: { positionals: ['id'], examples: ['ductile run tree 0199a1b2'], watch: true },
  async run(context, { id }) {
    const run = await requireRun(context, id);
    const parts = await readParts(context.engine.ledger, run);
    return { run: showRun(run), nodes: toTree(parts), complete: parts.complete };
  },
});

/** Lists each branch with its steps, and the branches of a block below the step that opened it. */
export function toTree({ branches, steps }: Omit<RunParts, 'complete'>): TreeNode[] {
  const stepsOf = Map.groupBy(steps, ({ branchId }) => branchId);
  const childrenOf = Map.groupBy(branches, ({ parentId }) => parentId);
  const openings = findOpenings({ branches, steps });
  const nodes: TreeNode[] = [];
  const visit = (branch: Branch, depth: number): void => {
    if (branch.parentId !== null) nodes.push(fromBranch(branch, depth));
    const below = branch.parentId === null ? depth : depth + 1;
    const blocks = blocksOf(childrenOf.get(branch.id) ?? []);
    for (const step of stepsOf.get(branch.id) ?? []) {
      nodes.push(fromStep(step, branch, below, openings.get(step.id)));
      if (!isBlock(step)) continue;
      for (const child of blocks.shift() ?? []) visit(child, below + 1);
    }
    // The current position has no step yet: an open block, or a job.
    for (const block of blocks) {
      nodes.push(fromPosition(branch, below));
      for (const child of block) visit(child, below + 1);
    }
    if (blocks.length === 0 && hasNoStep(branch, stepsOf.get(branch.id) ?? [])) {
      nodes.push(fromPosition(branch, below));
    }
  };
  for (const root of childrenOf.get(null) ?? []) visit(root, 0);
  return nodes;
}

function hasNoStep({ status, node }: Branch, steps: readonly Step[]): boolean {
  return status !== 'succeeded' && steps.at(-1)?.node !== node;
}

function fromBranch(branch: Branch, depth: number): TreeNode {
  const name = branch.label ?? `${branch.index}`;
  const { duration_ms } = showBranch(branch, null);
  return { ...fromPosition(branch, depth), kind: 'branch', name, duration_ms };
}

/** Creates a node for the current position of a branch, which has no step yet. */
function fromPosition(branch: Branch, depth: number): TreeNode {
  return {
    depth,
    kind: 'step',
    name: branch.node,
    status: branch.status,
    branch_id: branch.id,
    step_id: null,
    job_id: branch.jobId,
    note: null,
    error: branch.haltMessage ?? branch.haltReason,
    started_at: branch.createdAt,
    completed_at: branch.completedAt,
    duration_ms: null,
  };
}

function fromStep(
  step: Step,
  { path }: Branch,
  depth: number,
  opened: Timestamp | undefined,
): TreeNode {
  const shown = showStep(step, path, opened);
  return {
    depth,
    kind: shown.kind,
    name: shown.step,
    status: shown.status,
    branch_id: shown.branch_id,
    step_id: shown.step_id,
    job_id: shown.job_id,
    note: shown.note,
    error: shown.error,
    started_at: shown.started_at,
    completed_at: shown.completed_at,
    duration_ms: shown.duration_ms,
  };
}
