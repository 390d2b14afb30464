import type { ErrorCode } from '../../base/errors.ts';
import type { Dialect, Transaction } from '../../ledger/dialect.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import type { Revival } from './types.ts';
import { holdBack } from './block-concurrency.sql.ts';
import { int, text } from '../../ledger/row.ts';
import { inheritKey } from './accept.sql.ts';
import { lockRun, noRun } from './change.sql.ts';
import { copyRun, copySteps, branchesOf, inSlices, type RunRows } from './copy.sql.ts';
import type { RunRow } from './load-branch.sql.ts';
import { findRewind, rewind } from './retry-from.sql.ts';

/**
 * Goes on with the work of an ended run in a new one. What ended well stays so, and what it gave
 * reaches the join; what did not is begun again where it stood; with `from`, branches that came past
 * that step are first put back to it.
 */
export async function reviveRun(
  tx: Transaction,
  revival: Revival,
  actor: string,
): Promise<DirectiveEnd> {
  const run = await lockRun(tx, revival.of);
  if (run === undefined) return noRun(revival.of);
  const refusal = await refuse(tx, run, revival);
  if (refusal !== undefined) return refusal;
  const plan = revival.from === undefined ? undefined : await findRewind(tx, run, revival.from);
  if (plan !== undefined && 'status' in plan) return plan;
  await copyRun(tx, revival, actor);
  await inheritKey(tx, revival);
  if (plan !== undefined) await rewind(tx, revival, plan);
  await copySteps(tx, revival, plan?.isDropped);
  await beginAgain(tx, revival.id);
  await holdBack(tx, revival.id);
  const result = { run_id: revival.id, revived_from: revival.of };
  return { status: 'completed', result };
}

async function refuse(
  tx: Transaction,
  { id, status, completedAt }: RunRow,
  { from }: Revival,
): Promise<DirectiveEnd | undefined> {
  const [successor] = await tx.run(
    `select id from ${tx.dialect.table('pipeline_runs')} where revived_from = ?`,
    [id],
  );
  if (successor !== undefined) {
    return fail('RUN_REVIVED', `run ${text(successor, 'id')} goes on with the work of run ${id}`);
  }
  if (from === undefined && status !== 'halted') {
    return fail('RUN_NOT_HALTED', `run ${id} is ${status}, not halted`);
  }
  if (completedAt === null) return fail('RUN_OPEN', `run ${id} is ${status}`);
  const [root] = await tx.run(
    `select id from ${tx.dialect.table('run_branches')} where id = ? and completed_at is null`,
    [id],
  );
  if (root === undefined) return undefined;
  return fail('RUN_OPEN', `run ${id} is ${status}, but not all of its branches have ended yet`);
}

/** Branches that did not end well wait for their own ones again, or are begun where they stood. */
async function beginAgain(tx: Transaction, runId: string): Promise<void> {
  const { dialect } = tx;
  const rows = branchesOf(dialect, runId);
  for (const [id, block] of await countBlocks(tx, rows)) await waitAgain(tx, id, block);
  await inSlices(tx, rows, ({ first, last }) =>
    tx.run(
      `update ${rows.table} set status = 'advancing', ${cleared}, due_at = ${dialect.now},
        created_at = ${dialect.now}, outcome = ${leftToDo},
        pending = case when block is null then 0 else ${pendingOf(dialect)} end
        where id >= ? and id <= ? and status in ('halted', 'cancelled')`,
      [first, last],
    ),
  );
}

/** Branches of which some did not end well, with the moves of that block and how many did. */
async function countBlocks(tx: Transaction, rows: RunRows): Promise<Map<string, Block>> {
  const blocks = new Map<string, Block & { readonly parentId: string; readonly ill: number }>();
  await inSlices(tx, rows, async ({ first, last }) => {
    const found = await tx.run(
      `select parent_id, parent_moves as moves,
          sum(case when status = 'succeeded' then 1 else 0 end) as well,
          sum(case when status = 'succeeded' then 0 else 1 end) as ill
        from ${rows.table} where id >= ? and id <= ? and parent_id is not null
        group by parent_id, parent_moves`,
      [first, last],
    );
    for (const row of found) {
      const [parentId, moves] = [text(row, 'parent_id'), int(row, 'moves')];
      const { well, ill } = blocks.get(`${parentId}.${moves}`) ?? { well: 0, ill: 0 };
      const sum = { well: well + int(row, 'well'), ill: ill + int(row, 'ill') };
      blocks.set(`${parentId}.${moves}`, { parentId, moves, ...sum });
    }
  });
  const open = [...blocks.values()].filter(({ ill }) => ill > 0);
  return new Map(open.map((block) => [block.parentId, block]));
}

interface Block {
  readonly moves: number;
  readonly well: number;
}

/** One whose branches were not all begun is left to an advancer, which begins the others. */
async function waitAgain(tx: Transaction, id: string, { moves, well }: Block): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('run_branches')} set ${cleared}, moves = ?,
      pending = width - cast(? as ${dialect.types.int}),
      status = case when ${isPartlyBegun} then 'advancing' else 'waiting' end,
      due_at = case when ${isPartlyBegun} then ${dialect.now} end,
      outcome = case when ${isPartlyBegun} then coalesce(outcome, '{"kind":"open"}') end
      where id = ?`,
    [moves, well, id],
  );
}

const cleared = `completed_at = null, halt_reason = null, halt_message = null, halted = 0,
  output = null, tries = 0, crashes = 0`;

/** With a limit of how many may be under way, the end of one begins the next. */
const isPartlyBegun = 'cursor < width and concurrency is null';

/** How many branches of its block have not ended well, begun or not. */
function pendingOf(dialect: Dialect): string {
  const table = dialect.table('run_branches');
  return `width - (select count(*) from ${table} c where c.id > run_branches.id
    and c.id < run_branches.id || '~' and c.parent_id = run_branches.id
    and c.parent_moves = run_branches.moves and c.status = 'succeeded')`;
}

/**
 * What had happened and could not be followed is followed now; a block of which every branch ended
 * well is joined; everything else is begun again.
 */
const leftToDo = `case
  when outcome is not null and outcome not like '{"kind":"fail%'
    and (status = 'cancelled' or halt_reason like 'advancement%') then outcome
  when block is null then '{"kind":"start"}'
  when cursor < width then '{"kind":"open"}'
  else '{"kind":"join"}' end`;

function fail(code: ErrorCode, error: string): DirectiveEnd {
  return { status: 'failed', code, error };
}
