import { fromTimestamp } from '../../base/clock.ts';
import { makeId } from '../../base/ids.ts';
import { limits } from '../../base/limits.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { Arrival } from './transition.ts';
import {
  defineRows,
  type Dialect,
  type Row,
  type Session,
  type Transaction,
} from '../../ledger/dialect.ts';
import {
  noNews,
  type AdvanceResult,
  type AdvanceRequest,
  type BranchClaim,
  type BranchClaimRequest,
} from './types.ts';
import { lockBranches } from './after-job.sql.ts';
import { lookForSignal, type Look } from './await-signal.sql.ts';
import { Effects } from './changes.sql.ts';
import { failBranch, failingOf } from './fail-branch.sql.ts';
import { climb, readJoin } from './join.sql.ts';
import { beginChildren, moveOn, roomOf, type Opening } from './apply.sql.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { toBranch, type BranchRow } from './run-row.sql.ts';
import { beginDue, beginQueued, recallNews } from './start.sql.ts';
import { isSweeping, sweep, type Sweeping } from './sweep.sql.ts';
import { findGraph, toStands, type Stand } from './load-branch.sql.ts';
import { FROM_THE_START, FROM_THE_START_AGAIN } from './wake-from.sql.ts';

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

/** What the branches of a wide block gave, read before the transaction that uses it. */
export async function prepareJoin(
  session: Session,
  { branchId, token }: AdvanceRequest,
): Promise<Arrival | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('run_branches')} where id = ?`,
    [branchId],
  );
  if (row === undefined || row['claim_token'] !== token) return undefined;
  const branch = toBranch(row);
  return isJoin(branch.outcome) ? await readJoin(session, branch) : undefined;
}

function isJoin(outcome: string | null): boolean {
  return outcome === '{"kind":"join"}';
}

export async function advanceBranch(
  tx: Transaction,
  { branchId, token }: AdvanceRequest,
  join: Arrival | undefined,
): Promise<AdvanceResult> {
  const runId = branchId.split('.')[0] ?? '';
  const [runs, branches] = await lockBranches(tx, [{ runId, branchId }]);
  const [run, branch] = [runs.get(runId), branches.get(branchId)];
  if (run === undefined || branch?.claimToken !== token) {
    if (!tx.again) return { ...noNews, verdict: 'fenced' };
    return { ...(await recallNews(tx, [runId])), verdict: 'done' };
  }
  if (run.status !== 'running') return await advanceEnded(tx, branch);
  const graph = await findGraph(tx, run.definitionHash);
  // A root that was only accepted does not know yet where its pipeline begins.
  const node = branch.node === '' ? (graph?.first ?? '') : branch.node;
  const [stand] = await toStands(tx, [{ run, branch: { ...branch, node } }]);
  if (stand === undefined) return { ...noNews, verdict: 'fenced' };
  const effects = new Effects();
  const verdict = await advanceStand(tx, effects, stand, join);
  await climb(tx, effects);
  if (verdict === 'done') await closeAdvancement(tx, branchId, null);
  return { ...effects.news, verdict };
}

/** Of a run that is over, only a cancellation has something left to do. */
async function advanceEnded(tx: Transaction, { id, outcome }: BranchRow): Promise<AdvanceResult> {
  const left = outcome === null ? undefined : toOutcome(outcome);
  if (left?.kind !== 'sweep') {
    await tx.run(
      `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null
        where id = ?`,
      [id],
    );
    return { ...noNews, verdict: 'done' };
  }
  const swept = await sweep(tx, id, left);
  if (swept.left === undefined) await closeAdvancement(tx, id, null);
  // What stood behind its jobs in the queue can be claimed now.
  return { ...noNews, queued: true, verdict: swept.left === undefined ? 'done' : 'more' };
}

async function advanceStand(
  tx: Transaction,
  effects: Effects,
  stand: Stand,
  join: Arrival | undefined,
): Promise<'done' | 'more'> {
  const { branch } = stand;
  const isNew = false;
  if (branch.crashes >= limits.crashesMax) {
    const reason = 'advancement_crashes_exhausted';
    const error = `${branch.crashes} processes died while they moved it on`;
    failBranch(effects, stand, { kind: 'failed', reason, error });
    return 'done';
  }
  const outcome = branch.outcome === null ? undefined : toOutcome(branch.outcome);
  if (outcome?.kind === 'sweep') throw new Error(`run ${branch.runId} is not over`);
  if (outcome?.kind === 'open') return advanceOpening(effects, stand, outcome);
  if (outcome?.kind === 'join') {
    moveOn(effects, stand, { arrival: join ?? (await readJoin(tx, branch)), isNew });
    return 'done';
  }
  const { arrival, goOnFrom } =
    outcome === undefined ? await findWakening(tx, stand) : { arrival: outcome };
  if (arrival === undefined) goOnWaiting(effects, stand, goOnFrom);
  else moveOn(effects, stand, { arrival, isNew });
  return 'done';
}

type Outcome = Arrival | Opening | Sweeping | { readonly kind: 'join' };

function toOutcome(outcome: string): Outcome {
  const failing = failingOf(outcome);
  return parseJson(failing === undefined ? outcome : (failing.left ?? OPEN)) as Outcome;
}

const OPEN = '{"kind":"open"}';

/** One batch of a wide block. */
function advanceOpening(effects: Effects, stand: Stand, { events }: Opening): 'done' | 'more' {
  const { branch } = stand;
  const opened = {
    ...stand,
    branch: { ...branch, due: { inMs: limits.branchLeaseMs }, wasPlain: false },
    isNew: false,
  };
  const to = roomOf(opened.branch);
  const begunMax = limits.advanceBatchMax;
  const begun = beginChildren(effects, opened, { events, to, begunMax });
  if (begun.cursor < to) return 'more';
  effects.put(
    {
      ...begun,
      status: 'waiting',
      outcome: null,
      due: undefined,
      claimToken: null,
      claimedBy: null,
      tries: 0,
      crashes: 0,
    },
    false,
  );
  return 'done';
}

/** Its time has come, or a signal for which it waits; else from where it looks on, if anywhere. */
async function findWakening(tx: Transaction, stand: Stand): Promise<Look> {
  const { waitsFor: type, wakeFrom: from, deadlineAt } = stand.branch;
  if (type !== null && from !== null) {
    const look = await lookForSignal(tx, stand, { type, from });
    if (look.arrival !== undefined || look.goOnFrom !== undefined) return look;
  }
  const [clock] = await tx.run(`select ${tx.dialect.now} as now`);
  const at = text(clock ?? {}, 'now');
  if (deadlineAt !== null && deadlineAt <= at) return { arrival: { kind: 'due', at } };
  // Where several write at once, a signal may be on its way that did not see this branch wait.
  const isUnsure = tx.dialect.settledBelow !== undefined && from === FROM_THE_START;
  return isUnsure ? { goOnFrom: FROM_THE_START_AGAIN } : {};
}

function goOnWaiting(effects: Effects, { branch }: Stand, goOnFrom: number | undefined): void {
  const isLater = goOnFrom === FROM_THE_START_AGAIN;
  const lookInMs = isLater ? limits.signalLookAgainMs : 0;
  effects.put(
    {
      ...branch,
      wakeFrom: goOnFrom ?? null,
      due: undefined,
      lookInMs: goOnFrom === undefined ? undefined : lookInMs,
      wasPlain: false,
      claimToken: null,
      claimedBy: null,
    },
    false,
  );
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
