import type { Json, JsonObject } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import type { NodeId } from '../language/graph.ts';
import { failWith, runNotFound } from './change.sql.ts';
import type { BranchRow, RunRow } from './changes.ts';
import { branchRowsOf, forEachSlice, type Slice } from './copy.sql.ts';
import { readRuns, toBranch } from './load-run.sql.ts';
import { planRetryFrom, type ReopenedBlock, type RetryFromPlan } from './retry-from-plan.sql.ts';
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
    return ambiguous(plan.step, block, `branch ${path} has not kept what it began with`);
  }
  if ((await wasWhole(session, plan, branch)) !== undefined) return undefined;
  const message = `what branch ${path} had from before its block cannot be told`;
  return ambiguous(plan.step, block, message);
}

/** Finds the node that a branch is reset to, if any, and whether it stopped there already. */
function findDestination(
  { reopened, reached, step }: RetryFromPlan,
  branch: BranchRow,
): { readonly node: NodeId | undefined; readonly isThere: boolean } {
  const node = reopened.get(branch.id)?.block ?? (reached.has(branch.id) ? step : undefined);
  return { node, isThere: branch.node === node && branch.status !== 'succeeded' };
}

async function readSlice(session: Session, { first, last }: Slice): Promise<BranchRow[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('run_branches')} where id >= ? and id <= ? order by id`,
    [first, last],
  );
  return rows.map(toBranch);
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

/** The plan was checked for ambiguity before, so the value is known. */
function requireKnown<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a branch is put back that cannot be');
  return value;
}

/** Returns undefined if the payload that the branch started with can't be recovered. */
function findInitialPayload(
  { reopened, graph }: RetryFromPlan,
  branch: BranchRow,
  parent: string,
): string | undefined {
  const around = reopened.get(parent);
  if (around === undefined) throw new Error(`branch ${branch.id} is in no block`);
  if (around.kind === 'split') return '{}';
  const block = graph.nodes[around.block];
  if (block?.kind === 'foreach') {
    const { [block.as]: item, index } = parseJson(branch.payload) as JsonObject;
    if (item !== undefined && index === branch.index)
      return formatItemPayload(block.as, item, index);
  }
  return undefined;
}

function formatItemPayload(as: string, item: Json, index: Json): string {
  return JSON.stringify({ [as]: item, index });
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
  const error = `cannot begin again at step ${step}: ${message}; begin at step ${block}, around it`;
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
