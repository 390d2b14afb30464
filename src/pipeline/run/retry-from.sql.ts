import type { DirectiveEnd } from '../../directive/types.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import type { Graph, NodeId } from '../language/graph.ts';
import { failWith, runNotFound } from './change.sql.ts';
import { ancestorsOf } from './changes.ts';
import { branchRowsOf, forEachSlice, stepRowsOf, type RunRows, type Slice } from './copy.sql.ts';
import { readRuns, findGraph } from './load-run.sql.ts';
import {
  createIsDropped,
  findBlocksAround,
  findDestination,
  findInitialPayload,
  isLaterStep,
  listAfterBlock,
  listReachable,
  requireKnown,
  type EarlierStep,
  type ReopenedBlock,
  type RetryFromPlan,
} from './retry-from.ts';
import { branchTable, type BlockKind, type BranchRow, type RunRow } from './run.ts';
import type { RetryFromRefusal, Revival } from './types.ts';

/** Resets the branches of a copied run to their state when they reached a step. */
export async function resetBranches(
  tx: Transaction,
  { of, id }: Revival,
  plan: RetryFromPlan,
): Promise<void> {
  const newIdOf = (old: BranchRow): string => `${id}${old.id.slice(of.length)}`;
  await forEachSlice(tx, branchRowsOf(tx.dialect, of), async (slice) => {
    const dropped: Row[] = [];
    const resets: Row[] = [];
    for (const branch of await readSlice(tx, slice)) {
      const reset = await readReset(tx, plan, branch);
      if (reset !== undefined) resets.push({ ...reset, id: newIdOf(branch) });
      else if (plan.isDropped(branch.id, branch.node)) dropped.push({ id: newIdOf(branch) });
    }
    await tx.each(deleteBranch, dropped);
    await tx.each(resetBranch, resets);
  });
}

/** Finds the reason why a run can't be repeated from a step. */
export async function findRetryFromRefusal(
  session: Session,
  runId: string,
  step: NodeId,
): Promise<RetryFromRefusal | undefined> {
  const run = (await readRuns(session, [runId])).get(runId);
  const found =
    run === undefined ? runNotFound(runId) : await findRetryFromPlan(session, run, step);
  return 'status' in found && found.status === 'failed' ? found : undefined;
}

/** Returns the plan for repeating an ended run from a step, or the reason why that is impossible. */
export async function findRetryFromPlan(
  session: Session,
  run: RunRow,
  step: NodeId,
): Promise<RetryFromPlan | DirectiveEnd> {
  const plan = await planRetryFrom(session, run, step);
  return 'status' in plan ? plan : ((await findAmbiguity(session, plan)) ?? plan);
}

/** Finds the first branch whose payload at the step is unknown. */
async function findAmbiguity(
  session: Session,
  plan: RetryFromPlan,
): Promise<DirectiveEnd | undefined> {
  let found: DirectiveEnd | undefined;
  await forEachSlice(session, branchRowsOf(session.dialect, plan.run.id), async (slice) => {
    if (found !== undefined) return;
    for (const branch of await readSlice(session, slice)) {
      found ??= await checkAmbiguity(session, plan, branch);
    }
  });
  return found;
}

async function checkAmbiguity(
  session: Session,
  plan: RetryFromPlan,
  branch: BranchRow,
): Promise<DirectiveEnd | undefined> {
  const { node, isThere } = findDestination(plan, branch);
  const { parentId, path } = branch;
  if (node === undefined || isThere || parentId === null) return undefined;
  const block = plan.reopened.get(parentId)?.block ?? plan.step;
  if (!plan.before.has(branch.id) && findInitialPayload(plan, branch, parentId) === undefined) {
    return ambiguous(plan.step, block, `the initial payload of branch ${path} was not kept`);
  }
  if ((await wasWhole(session, plan, branch)) !== undefined) return undefined;
  const message = `the payload of branch ${path} from before its block is unknown`;
  return ambiguous(plan.step, block, message);
}

async function readSlice(session: Session, { first, last }: Slice): Promise<BranchRow[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('run_branches')} where id >= ? and id <= ? order by id`,
    [first, last],
  );
  return rows.map((row) => branchTable.decode(row));
}

/** Reads the new values of a branch. Undefined for a branch that isn't reset. */
async function readReset(
  tx: Transaction,
  plan: RetryFromPlan,
  branch: BranchRow,
): Promise<Row | undefined> {
  const reopened = plan.reopened.get(branch.id);
  const { node, isThere } = findDestination(plan, branch);
  if (node === undefined) return undefined;
  const repeated = reopened?.after ?? plan.repeated;
  return {
    node,
    event_context_id: await findContextBefore(tx, branch.eventContextId, repeated),
    payload: isThere ? null : await readPayloadAt(tx, plan, branch),
    is_whole: (isThere ? branch.isWhole : requireKnown(await wasWhole(tx, plan, branch))) ? 1 : 0,
    ...(reopened === undefined ? noBlock : await readBlock(tx, plan, branch, reopened, isThere)),
  };
}

const noBlock = { block: null, width: 0, cursor: 0, concurrency: null } as const;

async function readBlock(
  tx: Transaction,
  { graph }: RetryFromPlan,
  branch: BranchRow,
  { block, kind, moves }: ReopenedBlock,
  isThere: boolean,
): Promise<Row> {
  const { width, cursor, concurrency } = branch;
  if (isThere && branch.block !== null) return { block: kind, width, cursor, concurrency };
  const [row] = await tx.run(
    `select count(*) as n from ${tx.dialect.table('run_branches')}
      where id > ? and id < ? and parent_id = ?`,
    [`${branch.id}.${moves}.`, `${branch.id}.${moves}.~`, branch.id],
  );
  const node = graph.nodes[block];
  const started = int(row ?? {}, 'n');
  const limit = node?.kind === 'foreach' ? (node.concurrency ?? null) : null;
  return { block: kind, width: started, cursor: started, concurrency: limit };
}

/** Reads the branch's own payload when it reached the step. */
async function readPayloadAt(
  tx: Transaction,
  plan: RetryFromPlan,
  branch: BranchRow,
): Promise<string> {
  const { run, before } = plan;
  const earlier = before.get(branch.id);
  if (earlier !== undefined) {
    const [row] = await tx.run(
      `select output from ${tx.dialect.table('run_steps')} where run_id = ? and id = ?`,
      [run.id, earlier.stepId],
    );
    return text(row ?? {}, 'output');
  }
  if (branch.parentId === null) return run.payload;
  return requireKnown(findInitialPayload(plan, branch, branch.parentId));
}

/**
 * Returns true if an event had replaced the whole payload before the branch reached the step. Returns
 * undefined if the job that would show it was pruned.
 */
async function wasWhole(
  session: Session,
  plan: RetryFromPlan,
  branch: BranchRow,
): Promise<boolean | undefined> {
  const { parentId } = branch;
  if (!branch.isWhole || parentId === null) return branch.isWhole;
  if (plan.reopened.get(parentId)?.kind === 'events') return true;
  if (!plan.before.has(branch.id)) return false;
  const jobId = plan.reached.get(branch.id) ?? null;
  const [job] = await session.run(
    `select base_key from ${session.dialect.table('job_queue')} where id = ?`,
    [jobId],
  );
  return job === undefined ? undefined : textOrNull(job, 'base_key') === null;
}

function ambiguous(step: NodeId, block: NodeId, message: string): DirectiveEnd {
  const advice = `repeat the run from step ${block}, which contains it`;
  const error = `cannot repeat the run from step ${step}: ${message}; ${advice}`;
  return failWith('STEP_AMBIGUOUS', error);
}

/** Finds the baggage without the additions of repeated steps. */
async function findContextBefore(
  tx: Transaction,
  contextId: string | null,
  repeated: ReadonlySet<NodeId>,
): Promise<string | null> {
  let id = contextId;
  while (id !== null) {
    const [row] = await tx.run(
      `select parent_id, step_id from ${tx.dialect.table('event_context')} where id = ?`,
      [id],
    );
    if (row === undefined || !repeated.has(textOrNull(row, 'step_id') ?? '')) break;
    id = textOrNull(row, 'parent_id');
  }
  return id;
}

/** Plans how an ended run is reset to a step. Returns a failure if the run never reached it. */
async function planRetryFrom(
  session: Session,
  run: RunRow,
  step: NodeId,
): Promise<RetryFromPlan | DirectiveEnd> {
  const graph = await findGraph(session, run.definitionHash);
  if (graph === undefined) throw new Error(`the definition of run ${run.id} is gone`);
  if (graph.nodes[step] === undefined) {
    const names = Object.keys(graph.nodes).join(', ');
    const error = `pipeline ${run.pipeline} has no step ${step}; it has ${names}`;
    return failWith('STEP_NOT_FOUND', error);
  }
  const reached = await findReached(session, run.id, step);
  if (reached.size === 0) {
    return failWith('STEP_NOT_FOUND', `run ${run.id} never reached step ${step}`);
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
    if (other === undefined || isLaterStep(graph, step, other)) before.set(branchId, step);
  });
  return before;
}

const deleteBranch = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `delete from ${d.table('run_branches')} where id in (select ${r('id')} ${r.from})`,
});

/** Marks the branch as halted, so that it restarts like all branches that did not succeed. */
const resetBranch = defineRows({
  columns: {
    id: 'text',
    node: 'text',
    payload: 'text',
    is_whole: 'int',
    event_context_id: 'text',
    block: 'text',
    width: 'int',
    cursor: 'int',
    concurrency: 'int',
  },
  sql: (r, d) => `update ${d.table('run_branches')} set status = 'halted', node = ${r('node')},
      payload = coalesce(${r('payload')}, run_branches.payload), is_whole = ${r('is_whole')},
      event_context_id = case when run_branches.event_context_id is null then null
        else ${r('event_context_id')} end,
      block = ${r('block')}, width = ${r('width')}, cursor = ${r('cursor')},
      concurrency = ${r('concurrency')}, output = null,
      outcome = case when ${r('block')} is null then null else run_branches.outcome end
    ${r.from}
    where run_branches.id = ${r('id')}`,
});
