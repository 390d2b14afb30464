import type { ErrorCode } from '../../base/errors.ts';
import type { Graph, NodeId } from '../language/graph.ts';
import type { BlockKind } from './transition.ts';
import { listAfterBlock, listInsideBlock, listReachable } from './walk.ts';
import type { Row, Session } from '../../ledger/dialect.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { branchesOf, inSlices, stepsOf, type IsDropped, type RunRows } from './copy.sql.ts';
import { findGraph, type RunRow } from './load-branch.sql.ts';

/** Which branches of an ended run are put back, and where to. */
export interface RewindPlan {
  readonly run: RunRow;
  readonly graph: Graph;
  readonly step: NodeId;
  /** The step, and all that comes after it on the branches that came to it. */
  readonly again: ReadonlySet<NodeId>;
  /** Branches that came to the step, and the jobs that they had there. */
  readonly passed: ReadonlyMap<string, string | null>;
  /** Those above them, and the blocks at which they wait again. */
  readonly above: ReadonlyMap<string, Cut>;
  /** The last step that each of them took before, with a payload to go on from. */
  readonly before: ReadonlyMap<string, Taken>;
  readonly isDropped: IsDropped;
}

export interface Cut {
  readonly block: NodeId;
  readonly kind: BlockKind;
  /** The branch's moves when it opened the block. */
  readonly moves: number;
  /** What comes after the block. */
  readonly behind: ReadonlySet<NodeId>;
}

export interface Taken {
  readonly stepId: string;
  readonly node: NodeId;
  readonly kind: string;
}

export async function planRewind(
  session: Session,
  run: RunRow,
  step: NodeId,
): Promise<RewindPlan | DirectiveEnd> {
  const graph = await findGraph(session, run.definitionHash);
  if (graph === undefined) throw new Error(`the definition of run ${run.id} is gone`);
  if (graph.nodes[step] === undefined) {
    const names = Object.keys(graph.nodes).join(', ');
    return fail('STEP_NOT_FOUND', `${run.pipeline} has no step ${step}; it has ${names}`);
  }
  const passed = await findPassed(session, run.id, step);
  if (passed.size === 0) return fail('STEP_NOT_FOUND', `run ${run.id} never came to step ${step}`);
  const above = await findAbove(session, run.id, graph, step, passed.keys());
  const again = listReachable(graph, step);
  const isDropped = makeDropped(again, passed, above);
  const plan = { run, graph, step, again, passed, above, isDropped };
  return { ...plan, before: await findBefore(session, plan) };
}

/** A branch that came past a step has a row of it; one that did not get past stands there. */
async function findPassed(
  session: Session,
  runId: string,
  step: NodeId,
): Promise<Map<string, string | null>> {
  const passed = new Map<string, string | null>();
  const steps = narrow(stepsOf(session.dialect, runId), 'node = ?', step);
  await eachRow(session, steps, 'branch_id, job_id', (row) => {
    const id = text(row, 'branch_id');
    passed.set(id, passed.get(id) ?? textOrNull(row, 'job_id'));
  });
  const stuck = `node = ? and status in ('halted', 'cancelled')`;
  const branches = narrow(branchesOf(session.dialect, runId), stuck, step);
  await eachRow(session, branches, 'id', (row) => {
    const id = text(row, 'id');
    passed.set(id, passed.get(id) ?? null);
  });
  return passed;
}

function narrow(rows: RunRows, condition: string, value: string): RunRows {
  return {
    ...rows,
    where: `${rows.where} and ${condition}`,
    values: [...rows.values, value],
  };
}

async function eachRow(
  session: Session,
  rows: RunRows,
  columns: string,
  work: (row: Row) => void,
): Promise<void> {
  await inSlices(session, rows, async ({ first, last }) => {
    const found = await session.run(
      `select ${columns} from ${rows.table} where ${rows.where} and id >= ? and id <= ?`,
      [...rows.values, first, last],
    );
    found.forEach(work);
  });
}

/** The blocks that hold the step, on the branches above those that came to it. */
async function findAbove(
  session: Session,
  runId: string,
  graph: Graph,
  step: NodeId,
  passed: Iterable<string>,
): Promise<Map<string, Cut>> {
  const holders = holdersOf(graph, step);
  const above = new Map<string, Cut>();
  const movesOf = new Map<string, number>();
  for (const id of passed) {
    for (const one of [id, ...ancestorsOf(id)]) {
      const [parent] = ancestorsOf(one);
      if (parent !== undefined) movesOf.set(parent, Number(one.split('.').at(-2)));
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
      (row) => holders.get(text(row, 'kind'))?.has(text(row, 'node')) === true,
    );
    if (found === undefined) throw new Error(`branch ${id} has no block with step ${step}`);
    const block = text(found, 'node');
    const kind = text(found, 'kind') as BlockKind;
    above.set(id, { block, kind, moves, behind: listAfterBlock(graph, block, kind) });
  }
  return above;
}

/** By their kind, the blocks in which a step is. */
function holdersOf(graph: Graph, step: NodeId): Map<string, Set<NodeId>> {
  const holders = new Map<string, Set<NodeId>>();
  for (const node of Object.values(graph.nodes)) {
    const kind = node.kind === 'task' ? 'events' : node.kind;
    if (kind !== 'events' && kind !== 'split' && kind !== 'foreach') continue;
    if (!listInsideBlock(graph, node.id, kind).has(step)) continue;
    holders.set(kind, (holders.get(kind) ?? new Set()).add(node.id));
  }
  return holders;
}

function makeDropped(
  again: ReadonlySet<NodeId>,
  passed: ReadonlyMap<string, unknown>,
  above: ReadonlyMap<string, Cut>,
): IsDropped {
  return (branchId, node, kind) => {
    const cut = above.get(branchId);
    if (cut !== undefined && node === cut.block && kind === cut.kind) return true;
    return [branchId, ...ancestorsOf(branchId)].some(
      (id) => (passed.has(id) && again.has(node)) || above.get(id)?.behind.has(node) === true,
    );
  };
}

/** One walk over all steps: what counts is their order in the pipeline, not that of their clocks. */
async function findBefore(
  session: Session,
  plan: Omit<RewindPlan, 'before'>,
): Promise<Map<string, Taken>> {
  const { graph, passed, above, isDropped } = plan;
  const before = new Map<string, Taken>();
  const rows = narrow(stepsOf(session.dialect, plan.run.id), 'output like ?', '{%');
  await eachRow(session, rows, 'id, branch_id, node, kind', (row) => {
    const branchId = text(row, 'branch_id');
    if (!passed.has(branchId) && !above.has(branchId)) return;
    const taken = { stepId: text(row, 'id'), node: text(row, 'node'), kind: text(row, 'kind') };
    // A task whose events opened the block was not yet done with when the block was opened.
    if (taken.node === above.get(branchId)?.block) return;
    if (isDropped(branchId, taken.node, taken.kind)) return;
    const other = before.get(branchId);
    if (other === undefined || isLater(graph, taken, other)) before.set(branchId, taken);
  });
  return before;
}

const reaches = new WeakMap<Graph, Map<NodeId, Set<NodeId>>>();

function isLater(graph: Graph, one: Taken, other: Taken): boolean {
  if (one.node === other.node) return one.kind === 'events';
  let known = reaches.get(graph);
  if (known === undefined) reaches.set(graph, (known = new Map()));
  let reach = known.get(other.node);
  if (reach === undefined) known.set(other.node, (reach = listReachable(graph, other.node)));
  return reach.has(one.node);
}

/** A branch's id has two parts more than its parent's. */
export function ancestorsOf(branchId: string): string[] {
  const parts = branchId.split('.');
  const ids: string[] = [];
  for (let length = parts.length - 2; length >= 1; length -= 2) {
    ids.push(parts.slice(0, length).join('.'));
  }
  return ids;
}

function fail(code: ErrorCode, error: string): DirectiveEnd {
  return { status: 'failed', code, error };
}
