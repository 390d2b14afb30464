import { limits } from '../../base/limits.ts';
import type { Transaction } from '../../ledger/dialect.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { hasWaitingBranch, isAdminOnly } from '../../signal/signal.sql.ts';
import type { SignalDraft } from '../../signal/signal.ts';
import type { RunEnd, BranchChanges } from './changes.ts';
import { findGraph } from './load-run.sql.ts';
import {
  createApprovalSignal,
  createHaltSignal,
  draftHaltJob,
  findHaltedLeaves,
  type HaltedBranch,
  type HaltedLeaves,
} from './report.ts';
import type { Followers } from './types.ts';
import { insertRoots, insertRuns } from './write-run.sql.ts';
import type { RunRow } from './run.ts';

/** Emits a signal for each step that started to wait for an approval. */
export async function reportApprovals(tx: Transaction, changes: BranchChanges): Promise<void> {
  const signals: SignalDraft[] = [];
  const hidden = new Map<string, boolean>();
  for (const wait of changes.approvalWaits.splice(0)) {
    const { run, context, jobId } = wait;
    if (!hidden.has(run.id)) hidden.set(run.id, await isHidden(tx, run));
    const signal = createApprovalSignal(wait, hidden.get(run.id) === true);
    signals.push(signal);
    const parentJobId = jobId ?? run.parentJobId;
    await addFollowers(tx, changes, tx.followApproval?.({ run, signal, parentJobId, context }));
  }
  await addSignals(tx, changes, signals);
}

/** Emits a signal for each run that halted, and starts the work that handles it. */
export async function reportHalts(
  tx: Transaction,
  changes: BranchChanges,
  halted: readonly RunEnd[],
  leaves: HaltedLeaves,
): Promise<void> {
  const signals: SignalDraft[] = [];
  for (const end of halted) {
    const { run, root, context } = end;
    const graph = await findGraph(tx, run.definitionHash);
    const signal = createHaltSignal(end, leaves.get(run.id) ?? [], await isHidden(tx, run));
    signals.push(signal);
    if (graph?.onHalt !== undefined) changes.addJob(draftHaltJob(end, graph.onHalt, signal.data));
    const parentJobId = root.jobId ?? run.parentJobId;
    await addFollowers(tx, changes, tx.followHalt?.({ run, signal, parentJobId, context }));
  }
  await addSignals(tx, changes, signals);
}

/** Reads the branches that halted by themselves, by run. */
export async function readHaltedLeaves(
  tx: Transaction,
  ends: readonly RunEnd[],
): Promise<HaltedLeaves> {
  const leaves = new Map<string, HaltedBranch[]>();
  for (const { run } of ends) {
    const rows = await tx.run(
      `select id, node, halt_reason, halt_message from ${tx.dialect.table('run_branches')}
        where id >= ? and id < ? and status = 'halted'
        order by id limit ${limits.haltedBranchesMax}`,
      [run.id, `${run.id}~`],
    );
    const halted = rows.map((row) => ({
      id: text(row, 'id'),
      node: text(row, 'node'),
      reason: text(row, 'halt_reason'),
      message: textOrNull(row, 'halt_message'),
    }));
    leaves.set(run.id, findHaltedLeaves(halted));
  }
  return leaves;
}

async function addSignals(
  tx: Transaction,
  changes: BranchChanges,
  signals: readonly SignalDraft[],
): Promise<void> {
  changes.signals.push(...signals);
  if (await hasWaitingBranch(tx, signals)) changes.wakeAdvancer();
}

/** True if only administrators may see the cause of a run, and with it the reports about the run. */
function isHidden(tx: Transaction, { sourceEventId }: RunRow): Promise<boolean> {
  return isAdminOnly(tx, { sourceEventId, runId: null });
}

/** Adds the jobs and runs that a signal starts. An advancer starts the runs. */
async function addFollowers(
  tx: Transaction,
  changes: BranchChanges,
  followers: Followers | undefined,
): Promise<void> {
  if (followers === undefined) return;
  for (const job of followers.jobs) changes.addJob(job);
  if (followers.runs.length === 0) return;
  const inserted = await insertRuns(tx, followers.runs);
  const ready = inserted.filter(({ concurrency }) => concurrency === undefined);
  await insertRoots(
    tx,
    ready.map(({ id, payload, eventContextId = null }) => ({ id, payload, eventContextId })),
  );
  changes.wakeAdvancer();
}
