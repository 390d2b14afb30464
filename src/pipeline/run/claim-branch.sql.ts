import { fromTimestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import {
  defineRows,
  type Dialect,
  type Row,
  type Transaction,
  runInSavepoint,
} from '../../ledger/dialect.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { closeAdvancements, insertAdvancements } from './advancement.sql.ts';
import { failBranch, haltUnstarted, isUnstarted } from './advancer.ts';
import { isCancelling } from './change.sql.ts';
import { BranchChanges, noRunEvents, runIdOf } from './changes.ts';
import { loadBranches, readRuns } from './load-run.sql.ts';
import { lockBranches, writeChanges } from './advance.sql.ts';
import type {
  BranchClaim,
  BranchClaimRequest,
  ReleaseBranchRequest,
  RunCommitEvents,
} from './types.ts';
import { insertRoots } from './write-run.sql.ts';

/** Claims due branches for a process that has a row in `processes`. */
export async function claimBranches(
  tx: Transaction,
  { processId, token, limit }: BranchClaimRequest,
): Promise<BranchClaim> {
  const { dialect } = tx;
  const branches = dialect.table('run_branches');
  // Locked until the commit: a reaper of this process waits, and then finds its claims.
  const known = await tx.run(
    `select id from ${dialect.table('processes')} where id = ? ${dialect.forShare}`,
    [processId],
  );
  if (known.length === 0 || limit <= 0) return { branchIds: [], nextInMs: undefined };
  if (!tx.isRetry) {
    await startDueRuns(tx, limit);
    await startQueuedRuns(tx, limit);
  }
  const earlier = tx.isRetry
    ? await tx.run(`select id from ${branches} where claimed_by = ? and claim_token = ?`, [
        processId,
        token,
      ])
    : [];
  const claimed = earlier.length > 0 ? earlier : await claimDue(tx, { processId, token, limit });
  return { branchIds: claimed.map((row) => text(row, 'id')), nextInMs: await readNextDue(tx) };
}

/** Starts runs that are due now. Runs with a concurrency key are queued instead. */
async function startDueRuns(tx: Transaction, limit: number): Promise<void> {
  const { dialect } = tx;
  const due = await tx.run(
    `select id from ${dialect.table('pipeline_runs')} where due_at is not null
      and due_at <= (select ${dialect.now}) order by due_at
      limit ? ${dialect.skipLocked}`,
    [limit],
  );
  if (due.length === 0) return;
  const started = await tx.each(
    startDue,
    due.map((row) => ({ id: text(row, 'id') })),
  );
  const running = started.filter((row) => row['status'] === 'running');
  await insertRootsOf(tx, running);
}

const startDue = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set due_at = null,
      status = case when concurrency_key is null then 'running' else 'queued' end,
      started_at = case when concurrency_key is null then ${d.now} end
    ${r.from}
    where pipeline_runs.id = ${r('id')} and pipeline_runs.due_at is not null
    returning pipeline_runs.id, pipeline_runs.status`,
});

/** Starts queued runs that their concurrency limit allows, oldest first. */
async function startQueuedRuns(tx: Transaction, limit: number): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  const waiting = await tx.run(
    `select concurrency_key as key, min(seq) as first from ${table}
      where concurrency_key is not null and completed_at is null and due_at is null
        and status = 'queued'
      group by concurrency_key order by 2 limit ?`,
    [limit],
  );
  if (waiting.length === 0) return;
  // A statement of its own, because the next one must see the runs that other transactions started.
  if (dialect.lockRuns !== undefined) await tx.run(dialect.lockRuns);
  const started: Row[] = [];
  for (const row of waiting) {
    started.push(...(await startRunsOfKey(tx, text(row, 'key'), limit)));
  }
  // A revived run has its branches already.
  await insertRootsOf(
    tx,
    started.filter((row) => row['branches'] === 0),
  );
}

async function insertRootsOf(tx: Transaction, rows: readonly Row[]): Promise<void> {
  const runs = await readRuns(
    tx,
    rows.map((row) => text(row, 'id')),
  );
  await insertRoots(tx, [...runs.values()]);
}

async function startRunsOfKey(tx: Transaction, key: string, limit: number): Promise<Row[]> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  const isOfKey = `concurrency_key = ? and concurrency_key is not null and completed_at is null
    and due_at is null`;
  const [counted] = await tx.run(
    `select count(*) as n from ${table} where ${isOfKey} and status = 'running'`,
    [key],
  );
  const running = Number(counted?.['n'] ?? 0);
  const queued = await tx.run(
    `select id, concurrency_limit from ${table} where ${isOfKey} and status = 'queued'
      order by seq limit ?`,
    [key, limit],
  );
  // The limit of a run is that of its definition when it was accepted.
  const ids = queued
    .filter((row, index) => running + index < Number(row['concurrency_limit'] ?? 1))
    .map((row) => ({ id: text(row, 'id') }));
  return await tx.each(startQueued, ids);
}

const startQueued = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set status = 'running', started_at = ${d.now}
    ${r.from}
    where pipeline_runs.id = ${r('id')} and pipeline_runs.status = 'queued'
    returning pipeline_runs.id, (select count(*) from ${d.table('run_branches')} b
      where b.id = pipeline_runs.id) as branches`,
});

async function claimDue(
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
  // A branch that is due although it is claimed was lost by its process.
  const claims = due.map((row) => ({
    id: text(row, 'id'),
    lost: row['claim_token'] === null ? 0 : 1,
  }));
  const crashed = claims.filter(({ lost }) => lost === 1).map(({ id }) => id);
  await closeAdvancements(tx, crashed, { crashed: true });
  await tx.each(markClaimed, claims, [token, processId]);
  await insertAdvancements(
    tx,
    due.map((row) => ({
      branchId: text(row, 'id'),
      runId: text(row, 'run_id'),
      node: text(row, 'node'),
      processId,
    })),
  );
  return due;
}

/** The branches of a queued run are not claimed: a revived run has branches while it is queued. */
function isClaimable(d: Dialect): string {
  return `b.due_at is not null and (select case when r.status = 'running' or ${isCancelling('b')}
    then 1 else 0 end from ${d.table('pipeline_runs')} r where r.id = b.run_id) = 1`;
}

const markClaimed = defineRows({
  columns: { id: 'text', lost: 'int' },
  sql: (r, d) => `update ${d.table('run_branches')} set claim_token = ${r.common(0)},
      claimed_by = ${r.common(1)}, crashes = run_branches.crashes + ${r('lost')},
      due_at = ${d.nowPlus(String(limits.branchLeaseMs))}
    ${r.from} where run_branches.id = ${r('id')}`,
});

async function readNextDue(tx: Transaction): Promise<number | undefined> {
  const { dialect } = tx;
  const [row] = await tx.run(
    `select (select b.due_at from ${dialect.table('run_branches')} b where ${isClaimable(dialect)}
        order by b.due_at limit 1) as branch,
      (select due_at from ${dialect.table('pipeline_runs')} where due_at is not null
        order by due_at limit 1) as run,
      ${dialect.now} as now`,
  );
  if (row === undefined) return undefined;
  const dues = ['branch', 'run'].flatMap((column) => textOrNull(row, column) ?? []);
  const [first] = dues.toSorted();
  if (first === undefined) return undefined;
  return Math.max(0, fromTimestamp(first) - fromTimestamp(text(row, 'now')));
}

/** Releases a branch whose advancement failed. After the last try, the branch halts. */
export async function releaseBranch(
  tx: Transaction,
  { branchId, token, error, triesMax }: ReleaseBranchRequest,
): Promise<RunCommitEvents> {
  const runId = runIdOf(branchId);
  const [runs, branches] = await lockBranches(tx, [{ runId, branchId }]);
  const [run, branch] = [runs.get(runId), branches.get(branchId)];
  if (run === undefined || branch?.claimToken !== token) return noRunEvents;
  const message = error.slice(0, limits.errorCharsMax);
  await closeAdvancements(tx, [branchId], { error: message });
  const tries = branch.tries + 1;
  if (tries >= triesMax && run.status === 'running') {
    const reason = 'advancement_retries_exhausted';
    const failure = { kind: 'failed', reason, error: message } as const;
    if (isUnstarted(branch)) {
      const changes = new BranchChanges();
      haltUnstarted(changes, run, branch, failure);
      await writeChanges(tx, changes);
      return changes.events;
    }
    const halted = await runInSavepoint(tx, async (inner) => {
      const changes = new BranchChanges();
      const [loaded] = await loadBranches(inner, [{ run, branch }]);
      if (loaded !== undefined) failBranch(changes, loaded, failure);
      await writeChanges(inner, changes);
      return changes.events;
    });
    if (halted.isDone) return halted.value;
  }
  // The branch is released even if halting it failed.
  const delayMs = limits.advancementBackoffMs * 2 ** Math.min(tries - 1, DOUBLED_MAX);
  await tx.run(
    `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null,
      tries = ?, due_at = ${tx.dialect.nowPlus('?')} where id = ?`,
    [tries, delayMs, branchId],
  );
  return { ...noRunEvents, dueInMs: delayMs };
}

/** The delay doubles this often. */
const DOUBLED_MAX = 12;

/** Releases all branches that a process has claimed. After a crash, each counts one more crash. */
export async function releaseProcessBranches(
  tx: Transaction,
  processId: string,
  crashed: boolean,
): Promise<void> {
  const { dialect } = tx;
  const released = await tx.run(
    `update ${dialect.table('run_branches')} set claim_token = null, claimed_by = null,
      due_at = ${dialect.now}, crashes = crashes + ?
      where claimed_by = ? and claim_token is not null returning id`,
    [crashed ? 1 : 0, processId],
  );
  const branchIds = released.map((row) => text(row, 'id'));
  await closeAdvancements(tx, branchIds, { crashed });
}
