import { parseJson } from '../../base/parse-json.ts';
import type { Transaction } from '../../ledger/dialect.ts';
import { int, text } from '../../ledger/row.ts';
import { depthOf } from './changes.ts';
import { branchRowsOf, forEachSlice } from './copy.sql.ts';
import { DELAYED_DAY, type BranchRow } from './run.ts';

/**
 * Stored in the parent of a block with limited concurrency, in a revived run that has more unfinished
 * branches than the limit. The branches after `after` are delayed; the end of one releases the next.
 */
interface DelayState {
  readonly kind: 'hold';
  /** The last branch that isn't delayed. */
  readonly after: string;
  /** The number of delayed branches. */
  readonly left: number;
}

type LimitedBlock = Pick<BranchRow, 'id' | 'moves'> & { readonly concurrency: number };

/** Delays branches of a revived run, so that no block exceeds its concurrency. */
export async function delayExcessBranches(tx: Transaction, runId: string): Promise<void> {
  const limited: LimitedBlock[] = [];
  await forEachSlice(tx, branchRowsOf(tx.dialect, runId), async ({ first, last }) => {
    const rows = await tx.run(
      `select id, moves, concurrency from ${tx.dialect.table('run_branches')}
        where id >= ? and id <= ? and concurrency is not null and status = 'waiting'`,
      [first, last],
    );
    for (const row of rows) {
      const concurrency = int(row, 'concurrency');
      limited.push({ id: text(row, 'id'), moves: int(row, 'moves'), concurrency });
    }
  });
  // Outer blocks first: the delay of an inner block replaces that of the outer one.
  for (const branch of limited.toSorted((a, b) => depthOf(a.id) - depthOf(b.id))) {
    await delayBlock(tx, branch);
  }
}

async function delayBlock(tx: Transaction, branch: LimitedBlock): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('run_branches');
  const running = await listOpenAfter(tx, branch, blockPrefixOf(branch), branch.concurrency);
  const after = running.at(-1);
  if (after === undefined || running.length < branch.concurrency) return;
  let left = 0;
  const rows = {
    table,
    where: 'completed_at is null',
    values: [],
    from: endOf(after),
    below: endOf(blockPrefixOf(branch)),
  };
  await forEachSlice(tx, rows, async ({ first, last }) => {
    const [counted] = await tx.run(
      `select count(*) as n from ${table}
        where id >= ? and id <= ? and parent_id = ? and completed_at is null`,
      [first, last, branch.id],
    );
    left += int(counted ?? {}, 'n');
    await tx.run(
      `update ${table} set due_at = ? where id >= ? and id <= ? and due_at is not null`,
      [delayedUntil(branch), first, last],
    );
  });
  if (left === 0) return;
  const state: DelayState = { kind: 'hold', after, left };
  await tx.run(`update ${table} set outcome = ? where id = ?`, [JSON.stringify(state), branch.id]);
}

/** Releases as many delayed branches as the block can run now. Returns the new state of the delay. */
export async function releaseDelayedBranches(
  tx: Transaction,
  branch: BranchRow,
): Promise<string | null> {
  const { outcome, concurrency, pending, width, cursor } = branch;
  if (outcome === null || concurrency === null) return outcome;
  const { after, left } = parseJson(outcome) as DelayState;
  const running = pending - (width - cursor) - left;
  const room = Math.max(0, concurrency - running);
  const next = await listOpenAfter(tx, branch, endOf(after), room);
  for (const id of next) {
    await tx.run(
      `update ${tx.dialect.table('run_branches')} set due_at = ${tx.dialect.now}
        where id >= ? and id < ? and due_at = ?`,
      [id, endOf(id), delayedUntil(branch)],
    );
  }
  const state: DelayState = { kind: 'hold', after: next.at(-1) ?? after, left: left - next.length };
  return state.left > 0 ? JSON.stringify(state) : null;
}

/** Lists the next branches of a block that have not ended. */
async function listOpenAfter(
  tx: Transaction,
  branch: Pick<BranchRow, 'id' | 'moves'>,
  after: string,
  limit: number,
): Promise<string[]> {
  const rows = await tx.run(
    `select id from ${tx.dialect.table('run_branches')} where id > ? and id < ? and parent_id = ?
      and completed_at is null order by id limit ?`,
    [after, endOf(blockPrefixOf(branch)), branch.id, limit],
  );
  return rows.map((row) => text(row, 'id'));
}

/** Returns the prefix of the ids of a block's branches. */
function blockPrefixOf({ id, moves }: Pick<BranchRow, 'id' | 'moves'>): string {
  return `${id}.${moves}.`;
}

/** Returns a text that sorts after all ids with this prefix. */
function endOf(id: string): string {
  return `${id}~`;
}

/** Returns a time that never comes. Its milliseconds are the depth of the block that set it. */
function delayedUntil(branch: Pick<BranchRow, 'id'>): string {
  return `${DELAYED_DAY}T23:59:59.${String(depthOf(branch.id)).padStart(3, '0')}Z`;
}
