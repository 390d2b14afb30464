import * as z from 'zod';
import { compact, parseStoredJson } from '../../base/json.ts';
import type { Timestamp } from '../../base/clock.ts';
import {
  branchStatuses,
  runStatuses,
  stepStatuses,
  type Step,
  type Run,
  type Branch,
} from './run.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Context } from '../../operation/context.ts';
import { readSeqCursor, readEpoch, writeCursor } from '../../operation/page.ts';
import { defineOperation } from '../../operation/define.ts';
import { cursorField, limitField } from '../../operation/page.ts';
import { findById } from '../../operation/find-by-id.ts';
import {
  approvalShape,
  blocksOf,
  branchShape,
  findOpenings,
  findOwners,
  isBlock,
  listApprovals,
  readParts,
  runShape,
  showBranch,
  showRun,
  showStep,
  showSteps,
  stepShape,
  type RunParts,
} from './run.service.ts';
import {
  explainRun,
  waitShape,
  formatQuestion,
  listRunActions,
  readWaitingFor,
  runActions,
  waitingForShape,
} from './waits.service.ts';

export const runIdField = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f-]{4,36}$/, 'must be the id of a run, or at least its first 4 characters')
  .describe('the id of a run, or its first characters if only one recent run matches');

const listedRunShape = runShape.extend({
  asks: z.string().nullable().describe('the first step that waits for approval, and its question'),
  waiting_for: waitingForShape,
});

export const listRunsOperation = defineOperation({
  name: 'run.list',
  summary: 'List runs of pipelines, newest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'runs:ro',
  input: z.strictObject({
    pipeline: z.string().min(1).optional().describe('only runs of this pipeline'),
    status: z
      .array(z.enum(runStatuses))
      .min(1)
      .optional()
      .describe('only runs with these statuses'),
    awaiting_approval: z.boolean().optional().describe('only runs that wait for approval'),
    limit: limitField,
    cursor: cursorField.optional(),
  }),
  output: z.object({
    runs: z.array(listedRunShape),
    next_cursor: z.string().nullable().describe('cursor of the next page; null on the last page'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/runs' },
  cli: {
    flags: {
      pipeline: '-p, --pipeline <name>',
      status: '-s, --status <states>',
      limit: '-n, --limit <count>',
    },
    examples: [
      'ductile run list',
      'ductile run list --pipeline digest --status halted',
      'ductile run list --awaiting-approval',
    ],
    watch: true,
    table: {
      rows: 'runs',
      columns: [
        ['ID', 'run_id'],
        ['PIPELINE', 'pipeline'],
        ['STATUS', 'status'],
        ['REASON', 'halt_reason'],
        ['AT STEP', 'halted_at_step'],
        ['WAITS FOR', 'waiting_for'],
        ['CREATED', 'created_at'],
        ['DUE', 'due_at'],
        ['COMPLETED', 'completed_at'],
        ['MS', 'duration_ms', 'detail'],
        ['BY', 'submitted_by', 'detail'],
        ['ACTOR', 'actor', 'detail'],
        ['REVIVES', 'revived_from', 'detail'],
      ],
      empty: 'No runs found.',
    },
  },
  async run({ engine: { ledger } }, { cursor: after, pipeline, status, limit: rows, ...more }) {
    const epoch = await readEpoch(ledger);
    const { rows: runs, next } = await ledger.runs.page({
      ...compact({ pipeline, status }),
      ...(more.awaiting_approval === true ? { awaitingApproval: true } : {}),
      ...(after === undefined ? {} : { beforeSeq: readSeqCursor('r', epoch, after) }),
      limit: rows,
    });
    return {
      runs: await showListedRuns(ledger, runs),
      next_cursor: next === undefined ? null : writeCursor('r', epoch, [next]),
    };
  },
});

async function showListedRuns(
  ledger: Ledger,
  runs: readonly Run[],
): Promise<z.output<typeof listedRunShape>[]> {
  const waits = await readWaitingFor(ledger, runs);
  return runs.map((run) => {
    const waiting = waits.get(run.id) ?? null;
    return { ...showRun(run), asks: formatQuestion(waiting), waiting_for: waiting };
  });
}

export const showRunOperation = defineOperation({
  name: 'run.show',
  summary: 'Show a run, with its steps, its branches, and the reasons why it waits.',
  effect: 'read',
  needs: 'ledger',
  scope: 'runs:ro',
  input: z.strictObject({ id: runIdField }),
  output: runShape.extend({
    payload: z
      .unknown()
      .describe('initial payload; null if only administrators may see the signal behind the run'),
    output: z.unknown().describe('output of the last step'),
    revived_as: z.string().nullable().describe('the run that continues its work'),
    steps: z.array(stepShape).describe('in order of execution'),
    branches: z.array(branchShape),
    waiting: z.array(waitShape).describe('what it waits for, branch by branch'),
    waiting_for: waitingForShape,
    approvals: z.array(approvalShape).describe('the decisions about its steps, in order'),
    actions: z
      .array(z.enum(runActions))
      .describe('the actions that are possible now, the most useful first'),
    complete: z
      .boolean()
      .describe(
        'false if the run has too many steps or branches; the first and the failed ones are shown',
      ),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'RUN_NOT_FOUND'],
  http: { method: 'GET', path: '/runs/:id' },
  cli: {
    positionals: ['id'],
    examples: ['ductile run show 0199a1b2', 'ductile run show 0199a1b2 -v'],
    watch: true,
  },
  async run(context, { id }) {
    const { ledger } = context.engine;
    const run = await requireRun(context, id);
    const [parts, waiting, waits, [successor]] = await Promise.all([
      readParts(ledger, run),
      explainRun(ledger, run),
      readWaitingFor(ledger, [run]),
      ledger.runs.list({ revivedFrom: run.id, limit: 1 }),
    ]);
    const waitingFor = waits.get(run.id) ?? null;
    const revivedAs = successor?.id ?? null;
    const { branches, steps, complete } = parts;
    const owners = findOwners(parts);
    return {
      ...showRun(run),
      payload: parseStoredJson(run.payload),
      output: parseStoredJson(run.output),
      revived_as: revivedAs,
      steps: showSteps(steps, branches),
      branches: branches.map((branch) => showBranch(branch, owners.get(branch.id) ?? null)),
      waiting,
      waiting_for: waitingFor,
      approvals: listApprovals(steps),
      actions: listRunActions(run, waitingFor, revivedAs),
      complete,
    };
  },
});

const nodeShape = z.object({
  depth: z.int().describe('0 for the run'),
  kind: z.string().describe('`branch`, or the kind of a step'),
  name: z.string().describe('the id of the step; for a branch, its arm or its index'),
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
  summary: 'Show a run as a tree of branches and their steps.',
  effect: 'read',
  needs: 'ledger',
  scope: 'runs:ro',
  input: z.strictObject({ id: runIdField }),
  output: z.object({
    run: runShape,
    nodes: z.array(nodeShape).describe('each node before the nodes inside it'),
    complete: z.boolean().describe('false if the run is too large to show in full'),
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

/** Finds the run with this id, or the only recent run whose id starts with it. */
export function requireRun(
  { engine: { ledger } }: Pick<Context, 'engine'>,
  id: string,
): Promise<Run> {
  return findById(id, {
    noun: 'run',
    errorCode: 'RUN_NOT_FOUND',
    findExact: () => ledger.runs.find(id),
    listByPrefix: (page) => ledger.runs.list(page),
  });
}
