import type { DirectiveEnd } from '../../directive/types.ts';
import { type Dialect, type Transaction, runInSavepoint } from '../../ledger/dialect.ts';
import { int, text } from '../../ledger/row.ts';
import { delayExcessBranches } from './block-concurrency.sql.ts';
import { failWith, lockRun, runNotFound } from './change.sql.ts';

import { branchRowsOf, copyRun, copySteps, forEachSlice, type RunRows } from './copy.sql.ts';
import { findRetryFromPlan, resetBranches } from './retry-from.sql.ts';
import type { Revival } from './types.ts';
import type { RunRow } from './run.ts';

/**
 * Continues the work of an ended run in a new run. Branches that succeeded keep their output for the
 * join. The others restart where they stopped. With `from`, branches that reached this step are first
 * reset to it.
 */
export async function reviveRun(
  tx: Transaction,
  revival: Revival,
  actor: string,
): Promise<DirectiveEnd> {
  const run = await lockRun(tx, revival.of);
  if (run === undefined) return runNotFound(revival.of);
  const refusal = await findRefusal(tx, run, revival);
  if (refusal !== undefined) return refusal;
  const plan =
    revival.from === undefined ? undefined : await findRetryFromPlan(tx, run, revival.from);
  if (plan !== undefined && 'status' in plan) return plan;
  await copyRun(tx, revival, actor);
  await inheritKey(tx, revival);
  if (plan !== undefined) await resetBranches(tx, revival, plan);
  await copySteps(tx, revival, plan?.isDropped);
  await restartBranches(tx, revival.id);
  await delayExcessBranches(tx, revival.id);
  const result = { run_id: revival.id, revived_from: revival.of };
  return { status: 'completed', result };
}

/**
 * Gives a revived run the dedupe key of the old one, if no other run holds it by now. The savepoint
 * covers a run that claims the key at the same moment: the revived run then continues without it.
 */
async function inheritKey(
  tx: Transaction,
  { of, id }: { readonly of: string; readonly id: string },
): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  const isOfKey = `held_key = (select n.dedupe_key from ${table} n where n.id = ?)
    and held_key is not null and pipeline = (select n.pipeline from ${table} n where n.id = ?)`;
  await runInSavepoint(tx, async (inner) => {
    await inner.run(
      `update ${table} set held_key = null, held_until = null
        where ${isOfKey} and (id = ? or held_until <= (select ${dialect.now}))`,
      [id, id, of],
    );
    await inner.run(
      `update ${table} set held_key = dedupe_key where id = ? and dedupe_key is not null
        and not exists (select 1 from ${table} h where h.held_key = pipeline_runs.dedupe_key
          and h.held_key is not null and h.pipeline = pipeline_runs.pipeline)`,
      [id],
    );
  });
}

async function findRefusal(
  tx: Transaction,
  { id, status, completedAt }: RunRow,
  { from }: Revival,
): Promise<DirectiveEnd | undefined> {
  const [successor] = await tx.run(
    `select id from ${tx.dialect.table('pipeline_runs')} where revived_from = ?`,
    [id],
  );
  if (successor !== undefined) {
    return failWith('RUN_REVIVED', `run ${text(successor, 'id')} continues the work of run ${id}`);
  }
  if (from === undefined && status !== 'halted') {
    return failWith('RUN_NOT_HALTED', `run ${id} is ${status}, not halted`);
  }
  if (completedAt === null) return failWith('RUN_OPEN', `run ${id} is ${status}`);
  const [root] = await tx.run(
    `select id from ${tx.dialect.table('run_branches')} where id = ? and completed_at is null`,
    [id],
  );
  if (root === undefined) return undefined;
  return failWith('RUN_OPEN', `run ${id} is ${status}, but not all of its branches have ended yet`);
}

/** Reopens branches that did not succeed: a parent waits for its block again, the others restart. */
async function restartBranches(tx: Transaction, runId: string): Promise<void> {
  const { dialect } = tx;
  const rows = branchRowsOf(dialect, runId);
  for (const [id, block] of await countBlocks(tx, rows)) await reopenBlock(tx, id, block);
  await forEachSlice(tx, rows, ({ first, last }) =>
    tx.run(
      `update ${rows.table} set status = 'advancing', ${cleared}, due_at = ${dialect.now},
        created_at = ${dialect.now}, outcome = ${nextOutcome},
        pending = case when block is null then 0 else ${pendingOf(dialect)} end
        where id >= ? and id <= ? and status in ('halted', 'cancelled')`,
      [first, last],
    ),
  );
}

/** Counts the blocks in which a branch did not succeed, by the id of their parent. */
async function countBlocks(tx: Transaction, rows: RunRows): Promise<Map<string, BlockCount>> {
  const blocks = new Map<
    string,
    BlockCount & { readonly parentId: string; readonly failed: number }
  >();
  await forEachSlice(tx, rows, async ({ first, last }) => {
    const found = await tx.run(
      `select parent_id, parent_moves as moves,
          sum(case when status = 'succeeded' then 1 else 0 end) as succeeded,
          sum(case when status = 'succeeded' then 0 else 1 end) as failed
        from ${rows.table} where id >= ? and id <= ? and parent_id is not null
        group by parent_id, parent_moves`,
      [first, last],
    );
    for (const row of found) {
      const [parentId, moves] = [text(row, 'parent_id'), int(row, 'moves')];
      const key = `${parentId}.${moves}`;
      const { succeeded, failed } = blocks.get(key) ?? { succeeded: 0, failed: 0 };
      blocks.set(key, {
        parentId,
        moves,
        succeeded: succeeded + int(row, 'succeeded'),
        failed: failed + int(row, 'failed'),
      });
    }
  });
  const open = [...blocks.values()].filter(({ failed }) => failed > 0);
  return new Map(open.map((block) => [block.parentId, block]));
}

interface BlockCount {
  readonly moves: number;
  readonly succeeded: number;
}

/** Makes a parent wait for its block again. An advancer starts branches that have not started yet. */
async function reopenBlock(
  tx: Transaction,
  id: string,
  { moves, succeeded }: BlockCount,
): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('run_branches')} set ${cleared}, moves = ?,
      pending = width - cast(? as ${dialect.types.int}),
      status = case when ${isPartlyStarted} then 'advancing' else 'waiting' end,
      due_at = case when ${isPartlyStarted} then ${dialect.now} end,
      outcome = case when ${isPartlyStarted} then coalesce(outcome, '{"kind":"open"}') end
      where id = ?`,
    [moves, succeeded, id],
  );
}

const cleared = `completed_at = null, halt_reason = null, halt_message = null, halted = 0,
  output = null, tries = 0, crashes = 0`;

/** A block with limited concurrency is excluded: there, the end of one branch starts the next. */
const isPartlyStarted = 'cursor < width and concurrency is null';

/** Returns the number of branches of a block that have not succeeded, started or not. */
function pendingOf(dialect: Dialect): string {
  const table = dialect.table('run_branches');
  return `width - (select count(*) from ${table} c where c.id > run_branches.id
    and c.id < run_branches.id || '~' and c.parent_id = run_branches.id
    and c.parent_moves = run_branches.moves and c.status = 'succeeded')`;
}

/**
 * The work for the advancer. An arrival that was not applied yet is applied now. A block whose branches
 * all succeeded is joined. Everything else restarts.
 */
const nextOutcome = `case
  when outcome is not null and outcome not like '{"kind":"fail%'
    and (status = 'cancelled' or halt_reason like 'advancement%') then outcome
  when block is null then '{"kind":"start"}'
  when cursor < width then '{"kind":"open"}'
  else '{"kind":"join"}' end`;
