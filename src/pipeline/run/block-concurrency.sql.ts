import { parseJson } from '../../base/parse-json.ts';
import { HELD_DAY } from './run.ts';
import type { Transaction } from '../../ledger/dialect.ts';
import { int, text } from '../../ledger/row.ts';
import type { BranchRow } from './load-branch.sql.ts';
import { branchesOf, inSlices } from './copy.sql.ts';

/**
 * Kept by a branch whose block may only have so many branches under way, while more of them than that
 * are to be gone on with: those behind `after` are held back, and the end of one lets the next go.
 */
interface Holding {
  readonly kind: 'hold';
  readonly after: string;
  readonly left: number;
}

type Limited = Pick<BranchRow, 'id' | 'moves'> & { readonly concurrency: number };

/** In a run that goes on with the work of another, no block has more under way than it may. */
export async function holdBack(tx: Transaction, runId: string): Promise<void> {
  const limited: Limited[] = [];
  await inSlices(tx, branchesOf(tx.dialect, runId), async ({ first, last }) => {
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
  // What an inner block holds back is let go by that block, whatever the outer one does.
  for (const branch of limited.toSorted((a, b) => depthOf(a) - depthOf(b))) await hold(tx, branch);
}

async function hold(tx: Transaction, branch: Limited): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('run_branches');
  const begun = await openAfter(tx, branch, blockOf(branch), branch.concurrency);
  const after = begun.at(-1);
  if (after === undefined || begun.length < branch.concurrency) return;
  let left = 0;
  const rows = {
    table,
    where: 'completed_at is null',
    values: [],
    from: endOf(after),
    below: endOf(blockOf(branch)),
  };
  await inSlices(tx, rows, async ({ first, last }) => {
    const [counted] = await tx.run(
      `select count(*) as n from ${table}
        where id >= ? and id <= ? and parent_id = ? and completed_at is null`,
      [first, last, branch.id],
    );
    left += int(counted ?? {}, 'n');
    await tx.run(
      `update ${table} set due_at = ? where id >= ? and id <= ? and due_at is not null`,
      [heldBy(branch), first, last],
    );
  });
  if (left === 0) return;
  const holding: Holding = { kind: 'hold', after, left };
  await tx.run(`update ${table} set outcome = ? where id = ?`, [
    JSON.stringify(holding),
    branch.id,
  ]);
}

/** One or more have ended: as many of those that are held back may go. Gives what is left to hold. */
export async function letGo(tx: Transaction, branch: BranchRow): Promise<string | null> {
  const { outcome, concurrency, pending, width, cursor } = branch;
  if (outcome === null || concurrency === null) return outcome;
  const { after, left } = parseJson(outcome) as Holding;
  const underWay = pending - (width - cursor) - left;
  const room = Math.max(0, concurrency - underWay);
  const next = await openAfter(tx, branch, endOf(after), room);
  for (const id of next) {
    await tx.run(
      `update ${tx.dialect.table('run_branches')} set due_at = ${tx.dialect.now}
        where id >= ? and id < ? and due_at = ?`,
      [id, endOf(id), heldBy(branch)],
    );
  }
  const holding: Holding = { kind: 'hold', after: next.at(-1) ?? after, left: left - next.length };
  return holding.left > 0 ? JSON.stringify(holding) : null;
}

/** The next branches of its block that have not ended. */
async function openAfter(
  tx: Transaction,
  branch: Pick<BranchRow, 'id' | 'moves'>,
  after: string,
  limit: number,
): Promise<string[]> {
  const rows = await tx.run(
    `select id from ${tx.dialect.table('run_branches')} where id > ? and id < ? and parent_id = ?
      and completed_at is null order by id limit ?`,
    [after, endOf(blockOf(branch)), branch.id, limit],
  );
  return rows.map((row) => text(row, 'id'));
}

/** Where the ids of its branches begin. */
function blockOf({ id, moves }: Pick<BranchRow, 'id' | 'moves'>): string {
  return `${id}.${moves}.`;
}

/** Behind all ids that begin so. */
function endOf(id: string): string {
  return `${id}~`;
}

function depthOf({ id }: Pick<BranchRow, 'id'>): number {
  return id.split('.').length;
}

/** A time that does not come, and says whose branches wait for it. */
function heldBy(branch: Pick<BranchRow, 'id'>): string {
  return `${HELD_DAY}T23:59:59.${String(depthOf(branch)).padStart(3, '0')}Z`;
}
