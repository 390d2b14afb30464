import type { DirectiveEnd } from '../../directive/types.ts';
import type { Row, Session } from '../../ledger/dialect.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import type { Graph, NodeId } from '../language/graph.ts';
import { failWith } from './change.sql.ts';
import { ancestorsOf, type RunRow } from './changes.ts';
import {
  branchRowsOf,
  forEachSlice,
  stepRowsOf,
  type IsDropped,
  type RunRows,
} from './copy.sql.ts';
import { findGraph } from './load-run.sql.ts';
import type { BlockKind } from './run.ts';
import { listAfterBlock, listInsideBlock, listReachable } from './walk.ts';

/** The branches of an ended run that are reset to repeat a step, and their new positions. */
export interface RetryFromPlan {
  readonly run: RunRow;
  readonly graph: Graph;
  readonly step: NodeId;
  /** The step and all steps that can follow it on its branch. */
  readonly repeated: ReadonlySet<NodeId>;
  /** The branches that reached the step, and the jobs that they had there. */
  readonly reached: ReadonlyMap<string, string | null>;
  /** The ancestors of these branches, and the blocks for which they wait again. */
  readonly reopened: ReadonlyMap<string, ReopenedBlock>;
  /** For each of both, the last earlier step with an output to continue from. */
  readonly before: ReadonlyMap<string, EarlierStep>;
  readonly isDropped: IsDropped;
}

export interface ReopenedBlock {
  readonly block: NodeId;
  readonly kind: BlockKind;
  /** The branch's moves when it opened the block. */
  readonly moves: number;
  /** The steps after the block. */
  readonly after: ReadonlySet<NodeId>;
}

export interface EarlierStep {
  readonly stepId: string;
  readonly node: NodeId;
  readonly kind: string;
}

/** Plans how an ended run is reset to a step. Returns a failure if the run never reached it. */
export async function planRetryFrom(
  session: Session,
  run: RunRow,
  step: NodeId,
): Promise<RetryFromPlan | DirectiveEnd> {
  const graph = await findGraph(session, run.definitionHash);
  if (graph === undefined) throw new Error(`the definition of run ${run.id} is gone`);
  if (graph.nodes[step] === undefined) {
    const names = Object.keys(graph.nodes).join(', ');
    return failWith('STEP_NOT_FOUND', `${run.pipeline} has no step ${step}; it has ${names}`);
  }
  const reached = await findReached(session, run.id, step);
  if (reached.size === 0) {
    return failWith('STEP_NOT_FOUND', `run ${run.id} never came to step ${step}`);
  }
  const reopened = await findReopened(session, run.id, graph, step, reached.keys());
  const repeated = listReachable(graph, step);
  const isDropped = createIsDropped(repeated, reached, reopened);
  const plan = { run, graph, step, repeated, reached, reopened, isDropped };
  return { ...plan, before: await findEarlierSteps(session, plan) };
}

/** Finds branches that reached a step: they have a row of it, or stopped at it. */
async function findReached(
  session: Session,
  runId: string,
  step: NodeId,
): Promise<Map<string, string | null>> {
  const reached = new Map<string, string | null>();
  const steps = narrow(stepRowsOf(session.dialect, runId), 'node = ?', step);
  await forEachRow(session, steps, 'branch_id, job_id', (row) => {
    const id = text(row, 'branch_id');
    reached.set(id, reached.get(id) ?? textOrNull(row, 'job_id'));
  });
  const isStopped = `node = ? and status in ('halted', 'cancelled')`;
  const branches = narrow(branchRowsOf(session.dialect, runId), isStopped, step);
  await forEachRow(session, branches, 'id', (row) => {
    const id = text(row, 'id');
    reached.set(id, reached.get(id) ?? null);
  });
  return reached;
}

function narrow(rows: RunRows, condition: string, value: string): RunRows {
  return {
    ...rows,
    where: `${rows.where} and ${condition}`,
    values: [...rows.values, value],
  };
}

async function forEachRow(
  session: Session,
  rows: RunRows,
  columns: string,
  work: (row: Row) => void,
): Promise<void> {
  await forEachSlice(session, rows, async ({ first, last }) => {
    const found = await session.run(
      `select ${columns} from ${rows.table} where ${rows.where} and id >= ? and id <= ?`,
      [...rows.values, first, last],
    );
    found.forEach(work);
  });
}

/** Finds the blocks that contain the step, on the ancestors of the branches that reached it. */
async function findReopened(
  session: Session,
  runId: string,
  graph: Graph,
  step: NodeId,
  reached: Iterable<string>,
): Promise<Map<string, ReopenedBlock>> {
  const blocks = findBlocksAround(graph, step);
  const reopened = new Map<string, ReopenedBlock>();
  const movesOf = new Map<string, number>();
  for (const reachedId of reached) {
    for (const id of [reachedId, ...ancestorsOf(reachedId)]) {
      const [parent] = ancestorsOf(id);
      if (parent !== undefined) movesOf.set(parent, Number(id.split('.').at(-2)));
    }
  }
  for (const [id, moves] of movesOf) {
    const rows = await session.run(
      `select node, kind from ${session.dialect.table('run_steps')}
        where run_id = ? and branch_id = ? and kind in ('split', 'foreach', 'events')
          and status <> 'skipped'
        union all select node, block as kind
          from ${session.dialect.table('run_branches')} where id = ? and block is not null`,
      [runId, id, id],
    );
    const found = rows.find(
      (row) => blocks.get(text(row, 'kind'))?.has(text(row, 'node')) === true,
    );
    if (found === undefined) throw new Error(`branch ${id} has no block with step ${step}`);
    const block = text(found, 'node');
    const kind = text(found, 'kind') as BlockKind;
    reopened.set(id, { block, kind, moves, after: listAfterBlock(graph, block, kind) });
  }
  return reopened;
}

/** Finds the blocks that contain a step, by their kind. */
function findBlocksAround(graph: Graph, step: NodeId): Map<string, Set<NodeId>> {
  const blocks = new Map<string, Set<NodeId>>();
  for (const node of Object.values(graph.nodes)) {
    const kind = node.kind === 'task' ? 'events' : node.kind;
    if (kind !== 'events' && kind !== 'split' && kind !== 'foreach') continue;
    if (!listInsideBlock(graph, node.id, kind).has(step)) continue;
    blocks.set(kind, (blocks.get(kind) ?? new Set()).add(node.id));
  }
  return blocks;
}

function createIsDropped(
  repeated: ReadonlySet<NodeId>,
  reached: ReadonlyMap<string, unknown>,
  reopened: ReadonlyMap<string, ReopenedBlock>,
): IsDropped {
  return (branchId, node, kind) => {
    const own = reopened.get(branchId);
    if (own !== undefined && node === own.block && kind === own.kind) return true;
    return [branchId, ...ancestorsOf(branchId)].some(
      (id) => (reached.has(id) && repeated.has(node)) || reopened.get(id)?.after.has(node) === true,
    );
  };
}

/**
 * Finds the last step with an output before the reset position of each branch. The order of the
 * pipeline decides, because times of different hosts can't be compared.
 */
async function findEarlierSteps(
  session: Session,
  plan: Omit<RetryFromPlan, 'before'>,
): Promise<Map<string, EarlierStep>> {
  const { graph, reached, reopened, isDropped } = plan;
  const before = new Map<string, EarlierStep>();
  const rows = narrow(stepRowsOf(session.dialect, plan.run.id), 'output like ?', '{%');
  await forEachRow(session, rows, 'id, branch_id, node, kind', (row) => {
    const branchId = text(row, 'branch_id');
    if (!reached.has(branchId) && !reopened.has(branchId)) return;
    const step = { stepId: text(row, 'id'), node: text(row, 'node'), kind: text(row, 'kind') };
    // The block's own step is not earlier, even if it is the task whose events opened the block.
    if (step.node === reopened.get(branchId)?.block) return;
    if (isDropped(branchId, step.node, step.kind)) return;
    const other = before.get(branchId);
    if (other === undefined || isLater(graph, step, other)) before.set(branchId, step);
  });
  return before;
}

const reachableOf = new WeakMap<Graph, Map<NodeId, Set<NodeId>>>();

function isLater(graph: Graph, step: EarlierStep, other: EarlierStep): boolean {
  if (step.node === other.node) return step.kind === 'events';
  let known = reachableOf.get(graph);
  if (known === undefined) reachableOf.set(graph, (known = new Map()));
  let reachable = known.get(other.node);
  if (reachable === undefined)
    known.set(other.node, (reachable = listReachable(graph, other.node)));
  return reachable.has(step.node);
}
