import { limits } from '../../base/limits.ts';
import type { HaltReason } from './run.ts';
import type { Transaction } from '../../ledger/dialect.ts';
import { noNews, type ReleaseBranchRequest, type RunNews } from './types.ts';
import { closeAdvancement } from './advance.sql.ts';
import { lockBranches } from './after-job.sql.ts';
import { Effects, type MovedBranch } from './changes.sql.ts';
import { failBranch } from './fail-branch.sql.ts';
import { climb } from './join.sql.ts';
import { text } from '../../ledger/row.ts';
import type { BranchRow, RunRow } from './run-row.sql.ts';
import { inSavepoint } from '../../ledger/savepoint.ts';
import { toStands } from './load-branch.sql.ts';

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
