import type { Json, JsonObject } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { NodeId } from '../language/graph.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import type { Revival, RetryFromRefusal } from './types.ts';
import { planRewind, type Cut, type RewindPlan } from './retry-from-plan.sql.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import { noRun } from './change.sql.ts';
import { toBranch, toRun, type BranchRow, type RunRow } from './load-branch.sql.ts';
import { branchesOf, inSlices, type Slice } from './copy.sql.ts';

/** In the copy of a run, puts branches back to where they were when they came to a step. */
export async function rewind(
  tx: Transaction,
  { of, id }: Revival,
  plan: RewindPlan,
): Promise<void> {
  const toNew = (old: BranchRow): string => `${id}${old.id.slice(of.length)}`;
  await inSlices(tx, branchesOf(tx.dialect, of), async (slice) => {
    const dropped: Row[] = [];
    const resets: Row[] = [];
    for (const branch of await readSlice(tx, slice)) {
      const place = await placeOf(tx, plan, branch);
      if (place !== undefined) resets.push({ ...place, id: toNew(branch) });
      else if (plan.isDropped(branch.id, branch.node)) dropped.push({ id: toNew(branch) });
    }
    await tx.each(deleteBranch, dropped);
    await tx.each(resetBranch, resets);
  });
}

/** What would be answered to whoever wants to begin again there. */
export async function refusesRewind(
  session: Session,
  runId: string,
  step: NodeId,
): Promise<RetryFromRefusal | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('pipeline_runs')} where id = ?`,
    [runId],
  );
  const found = row === undefined ? noRun(runId) : await findRewind(session, toRun(row), step);
  return 'status' in found && found.status === 'failed' ? found : undefined;
}

/** How an ended run is put back to a step, or why it cannot be. */
export async function findRewind(
  session: Session,
  run: RunRow,
  step: NodeId,
): Promise<RewindPlan | DirectiveEnd> {
  const plan = await planRewind(session, run, step);
  return 'status' in plan ? plan : ((await findAmbiguity(session, plan)) ?? plan);
}

/** The first branch of which it cannot be told with what it came to the step. */
async function findAmbiguity(
  session: Session,
  plan: RewindPlan,
): Promise<DirectiveEnd | undefined> {
  let found: DirectiveEnd | undefined;
  await inSlices(session, branchesOf(session.dialect, plan.run.id), async (slice) => {
    if (found !== undefined) return;
    for (const branch of await readSlice(session, slice)) {
      found ??= await ambiguityOf(session, plan, branch);
    }
  });
  return found;
}

async function ambiguityOf(
  session: Session,
  plan: RewindPlan,
  branch: BranchRow,
): Promise<DirectiveEnd | undefined> {
  const { node, isThere } = destinationOf(plan, branch);
  const { parentId, path } = branch;
  if (node === undefined || isThere || parentId === null) return undefined;
  const block = plan.above.get(parentId)?.block ?? plan.step;
  if (!plan.before.has(branch.id) && beginningOf(plan, branch, parentId) === undefined) {
    return ambiguous(plan.step, block, `branch ${path} has not kept what it began with`);
  }
  if ((await wasWhole(session, plan, branch)) !== undefined) return undefined;
  const message = `what branch ${path} had from before its block cannot be told`;
  return ambiguous(plan.step, block, message);
}

/** Where a branch is put back to, if it is, and whether it stands there already. */
function destinationOf(
  { above, passed, step }: RewindPlan,
  branch: BranchRow,
): { readonly node: NodeId | undefined; readonly isThere: boolean } {
  const node = above.get(branch.id)?.block ?? (passed.has(branch.id) ? step : undefined);
  return { node, isThere: branch.node === node && branch.status !== 'succeeded' };
}

async function readSlice(session: Session, { first, last }: Slice): Promise<BranchRow[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('run_branches')} where id >= ? and id <= ? order by id`,
    [first, last],
  );
  return rows.map(toBranch);
}

/** Undefined for a branch that is not put back. */
async function placeOf(
  tx: Transaction,
  plan: RewindPlan,
  branch: BranchRow,
): Promise<Row | undefined> {
  const cut = plan.above.get(branch.id);
  const { node, isThere } = destinationOf(plan, branch);
  if (node === undefined) return undefined;
  const undone = cut?.behind ?? plan.again;
  return {
    node,
    event_context_id: await contextBefore(tx, branch.eventContextId, undone),
    payload: isThere ? null : await payloadAt(tx, plan, branch),
    is_whole: (isThere ? branch.isWhole : known(await wasWhole(tx, plan, branch))) ? 1 : 0,
    ...(cut === undefined ? noBlock : await blockOf(tx, plan, branch, cut, isThere)),
  };
}

const noBlock = { block: null, width: 0, cursor: 0, concurrency: null } as const;

async function blockOf(
  tx: Transaction,
  { graph }: RewindPlan,
  branch: BranchRow,
  { block, kind, moves }: Cut,
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
  const begun = int(row ?? {}, 'n');
  const limit = node?.kind === 'foreach' ? (node.concurrency ?? null) : null;
  return { block: kind, width: begun, cursor: begun, concurrency: limit };
}

/** The payload of its own that a branch came with. */
async function payloadAt(tx: Transaction, plan: RewindPlan, branch: BranchRow): Promise<string> {
  const { run, before } = plan;
  const taken = before.get(branch.id);
  if (taken !== undefined) {
    const [row] = await tx.run(
      `select output from ${tx.dialect.table('run_steps')} where run_id = ? and id = ?`,
      [run.id, taken.stepId],
    );
    return text(row ?? {}, 'output');
  }
  if (branch.parentId === null) return run.payload;
  return known(beginningOf(plan, branch, branch.parentId));
}

/** Whoever puts branches back has asked before whether that is possible. */
function known<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a branch is put back that cannot be');
  return value;
}

/** Undefined when the branch has not kept what it began with. */
function beginningOf(
  { above, graph }: RewindPlan,
  branch: BranchRow,
  parent: string,
): string | undefined {
  const cut = above.get(parent);
  if (cut === undefined) throw new Error(`branch ${branch.id} is in no block`);
  if (cut.kind === 'split') return '{}';
  const block = graph.nodes[cut.block];
  if (block?.kind === 'foreach') {
    const { [block.as]: item, index } = parseJson(branch.payload) as JsonObject;
    if (item !== undefined && index === branch.index) return ownOf(block.as, item, index);
  }
  return undefined;
}

function ownOf(as: string, item: Json, index: Json): string {
  return JSON.stringify({ [as]: item, index });
}

/**
 * Whether nothing of the payload from before its block was left when a branch came to the step;
 * undefined when nothing that would tell is on the ledger any more.
 */
async function wasWhole(
  session: Session,
  plan: RewindPlan,
  branch: BranchRow,
): Promise<boolean | undefined> {
  const { parentId } = branch;
  if (!branch.isWhole || parentId === null) return branch.isWhole;
  const cut = plan.above.get(parentId);
  if (cut?.kind === 'events') return true;
  if (!plan.before.has(branch.id)) return false;
  const jobId = plan.passed.get(branch.id) ?? null;
  const [job] = await session.run(
    `select base_key from ${session.dialect.table('job_queue')} where id = ?`,
    [jobId],
  );
  return job === undefined ? undefined : textOrNull(job, 'base_key') === null;
}

function ambiguous(step: NodeId, block: NodeId, message: string): DirectiveEnd {
  const error = `cannot begin again at step ${step}: ${message}; begin at step ${block}, around it`;
  return { status: 'failed', code: 'STEP_AMBIGUOUS', error };
}

/** The baggage without what was added by steps that are done again. */
async function contextBefore(
  tx: Transaction,
  contextId: string | null,
  undone: ReadonlySet<NodeId>,
): Promise<string | null> {
  let id = contextId;
  while (id !== null) {
    const [row] = await tx.run(
      `select parent_id, step_id from ${tx.dialect.table('event_context')} where id = ?`,
      [id],
    );
    if (row === undefined || !undone.has(textOrNull(row, 'step_id') ?? '')) break;
    id = textOrNull(row, 'parent_id');
  }
  return id;
}

const deleteBranch = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `delete from ${d.table('run_branches')} where id in (select ${r('id')} ${r.from})`,
});

/** As if it had halted there: what is put back is begun again like everything that did not end well. */
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
