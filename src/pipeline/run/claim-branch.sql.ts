import { fromTimestamp } from '../../base/clock.ts';
import { makeId } from '../../base/ids.ts';
import { limits } from '../../base/limits.ts';
import { defineRows, type Dialect, type Row, type Transaction } from '../../ledger/dialect.ts';
import {
  noNews,
  type BranchClaim,
  type BranchClaimRequest,
  type ReleaseBranchRequest,
  type RunNews,
} from './types.ts';
import { lockBranches } from './after-job.sql.ts';
import { Effects, type MovedBranch } from './changes.ts';
import { failBranch, climb } from './join.sql.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { toStands, type BranchRow, type RunRow } from './load-branch.sql.ts';
import { beginDue, beginQueued } from './start.sql.ts';
import { isSweeping } from './change.sql.ts';
import type { HaltReason } from './run.ts';
import { inSavepoint } from '../../ledger/savepoint.ts';

/** Takes what is due, for a process that the ledger knows. */
export async function claimBranches(
  tx: Transaction,
  { processId, token, limit }: BranchClaimRequest,
): Promise<BranchClaim> {
  const { dialect } = tx;
  const branches = dialect.table('run_branches');
  // Held until the end: whoever reaps this process waits, and then finds what it has claimed.
  const known = await tx.run(
    `select id from ${dialect.table('processes')} where id = ? ${dialect.forShare}`,
    [processId],
  );
  if (known.length === 0 || limit <= 0) return { branchIds: [], nextInMs: undefined };
  if (!tx.again) {
    await beginDue(tx, limit);
    await beginQueued(tx, limit);
  }
  const earlier = tx.again
    ? await tx.run(`select id from ${branches} where claimed_by = ? and claim_token = ?`, [
        processId,
        token,
      ])
    : [];
  const claimed = earlier.length > 0 ? earlier : await takeDue(tx, { processId, token, limit });
  return { branchIds: claimed.map((row) => text(row, 'id')), nextInMs: await nextDue(tx) };
}

async function takeDue(
  tx: Transaction,
  { processId, token, limit }: BranchClaimRequest,
): Promise<Row[]> {
  const { dialect } = tx;
  const branches = dialect.table('run_branches');
  const due = await tx.run(
    `select b.id, b.run_id, b.node, b.claim_token from ${branches} b
      where ${isClaimable(dialect)} and b.due_at <= (select ${dialect.now}) order by b.due_at
      limit ? ${dialect.skipLocked}`,
    [limit],
  );
  const claims = due.map((row) => ({
    id: text(row, 'id'),
    run_id: text(row, 'run_id'),
    node: text(row, 'node'),
    advancement: makeId(),
    lost: row['claim_token'] === null ? 0 : 1,
  }));
  await tx.each(
    closeLost,
    claims.filter(({ lost }) => lost === 1),
  );
  await tx.each(markClaimed, claims, [token, processId]);
  await tx.each(insertAdvancements, claims, [processId]);
  return due;
}

/** The end of an advancement that nobody has seen. */
const closeLost = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('run_advancements')} set completed_at = ${d.now}, crashed = 1
    ${r.from}
    where run_advancements.branch_id = ${r('id')} and run_advancements.completed_at is null`,
});

/** Of a run that waits for others nothing is moved, even if it has branches already. */
function isClaimable(d: Dialect): string {
  return `b.due_at is not null and (select case when r.status = 'running' or ${isSweeping('b')}
    then 1 else 0 end from ${d.table('pipeline_runs')} r where r.id = b.run_id) = 1`;
}

const markClaimed = defineRows({
  columns: { id: 'text', lost: 'int' },
  sql: (r, d) => `update ${d.table('run_branches')} set claim_token = ${r.common(0)},
      claimed_by = ${r.common(1)}, crashes = run_branches.crashes + ${r('lost')},
      due_at = ${d.nowPlus(String(limits.branchLeaseMs))}
    ${r.from} where run_branches.id = ${r('id')}`,
});

const insertAdvancements = defineRows({
  columns: { advancement: 'text', run_id: 'text', id: 'text', node: 'text' },
  sql: (r, d) => `insert into ${d.table('run_advancements')}
    (id, run_id, branch_id, node, process_id, started_at)
    select ${r('advancement')}, ${r('run_id')}, ${r('id')}, ${r('node')}, ${r.common(0)}, ${d.now}
    ${r.from}`,
});

async function nextDue(tx: Transaction): Promise<number | undefined> {
  const { dialect } = tx;
  const [row] = await tx.run(
    `select (select b.due_at from ${dialect.table('run_branches')} b where ${isClaimable(dialect)}
        order by b.due_at limit 1) as branch,
      (select due_at from ${dialect.table('pipeline_runs')} where due_at is not null
        order by due_at limit 1) as run,
      ${dialect.now} as now`,
  );
  if (row === undefined) return undefined;
  const dues = ['branch', 'run'].flatMap((what) => textOrNull(row, what) ?? []);
  const [first] = dues.toSorted();
  if (first === undefined) return undefined;
  return Math.max(0, fromTimestamp(first) - fromTimestamp(text(row, 'now')));
}

export async function closeAdvancement(
  tx: Transaction,
  branchId: string,
  error: string | null,
): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('run_advancements')} set completed_at = ${dialect.now}, error = ?
      where branch_id = ? and completed_at is null`,
    [error, branchId],
  );
}

/** Gives a branch back whose advancement failed; when its tries are used up, it halts. */
export async function releaseBranch(
  tx: Transaction,
  { branchId, token, error, triesMax }: ReleaseBranchRequest,
): Promise<RunNews> {
  const runId = branchId.split('.')[0] ?? '';
  const [runs, branches] = await lockBranches(tx, [{ runId, branchId }]);
  const [run, branch] = [runs.get(runId), branches.get(branchId)];
  if (run === undefined || branch?.claimToken !== token) return noNews;
  const told = error.slice(0, limits.errorCharsMax);
  await closeAdvancement(tx, branchId, told);
  const tries = branch.tries + 1;
  if (tries >= triesMax && run.status === 'running') {
    const reason = 'advancement_retries_exhausted';
    const halted = await inSavepoint(tx, async (inner) => {
      const effects = new Effects();
      for (const stand of await toStands(inner, [{ run, branch }])) {
        failBranch(effects, stand, { kind: 'failed', reason, error: told });
      }
      await climb(inner, effects);
      return effects.news;
    });
    if (halted.isDone) return halted.value;
    if (isUnbegun(branch)) return await haltUnbegun(tx, run, branch, { reason, message: told });
  }
  // Even where halting it is what fails, it is not held for ever.
  const delayMs = limits.advancementBackoffMs * 2 ** Math.min(tries - 1, DOUBLED_MAX);
  await tx.run(
    `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null,
      tries = ?, due_at = ${tx.dialect.nowPlus('?')} where id = ?`,
    [tries, delayMs, branchId],
  );
  return { ...noNews, dueInMs: delayMs };
}

const DOUBLED_MAX = 12;

/** A root that has not come to its first step. */
function isUnbegun({ parentId, node }: BranchRow): boolean {
  return parentId === null && node === '';
}

/** Nothing of its definition is needed for that, which may be what keeps it from beginning. */
async function haltUnbegun(
  tx: Transaction,
  run: RunRow,
  branch: BranchRow,
  { reason, message }: { readonly reason: HaltReason; readonly message: string },
): Promise<RunNews> {
  const root: MovedBranch = {
    ...branch,
    status: 'halted',
    haltReason: reason,
    haltMessage: message,
    claimToken: null,
    claimedBy: null,
    due: undefined,
    wasPlain: false,
  };
  const effects = new Effects();
  effects.put(root, false);
  effects.endRun({ run, root, context: {} });
  await climb(tx, effects);
  return effects.news;
}

/** What a process holds is free again; when it died under it, each branch has met one more crash. */
export async function freeBranches(
  tx: Transaction,
  processId: string,
  crashed: boolean,
): Promise<void> {
  const { dialect } = tx;
  const freed = await tx.run(
    `update ${dialect.table('run_branches')} set claim_token = null, claimed_by = null,
      due_at = ${dialect.now}, crashes = crashes + ?
      where claimed_by = ? and claim_token is not null returning id`,
    [crashed ? 1 : 0, processId],
  );
  for (const row of freed) {
    await tx.run(
      `update ${dialect.table('run_advancements')} set completed_at = ${dialect.now}, crashed = ?
        where branch_id = ? and completed_at is null`,
      [crashed ? 1 : 0, text(row, 'id')],
    );
  }
}
