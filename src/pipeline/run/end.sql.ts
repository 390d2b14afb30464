import { makeId } from '../../base/ids.ts';
import { limits } from '../../base/limits.ts';
import type { SubmittedBy } from '../../job/job.ts';
import { defineRows, type Row, type Transaction } from '../../ledger/dialect.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../../signal/signal.ts';
import { hasWaitingBranch, isAdminOnly } from '../../signal/signal.sql.ts';
import type { Graph, Handler } from '../language/graph.ts';
import { stepKeyOf } from './apply.ts';
import type { ApprovalWait, BranchChanges, BranchDraft, RunEnd, RunRow } from './changes.ts';
import { findGraph } from './load-run.sql.ts';
import type { Followers } from './types.ts';
import { flushChanges, insertRoots, insertRuns } from './write-run.sql.ts';

/** Ends the runs whose roots have ended. A halt emits a signal and starts the work that handles it. */
export async function closeRuns(tx: Transaction, changes: BranchChanges): Promise<void> {
  const ends = changes.runEnds.splice(0).toSorted((a, b) => (a.run.id < b.run.id ? -1 : 1));
  if (ends.length === 0) return;
  const halted = ends.filter(({ root }) => root.status === 'halted');
  const leaves = new Map<string, HaltedLeaf[]>();
  if (halted.length > 0) {
    flushChanges(tx, changes);
    for (const { run } of halted) leaves.set(run.id, await readHaltedLeaves(tx, run.id));
  }
  tx.send(
    endRuns,
    ends.map((end) => toEndRow(end, leaves.get(end.run.id)?.[0]?.node)),
    await claimEndNumber(tx),
  );
  for (const { run } of ends) tx.ends?.note(run);
  for (const end of halted) {
    const graph = await findGraph(tx, end.run.definitionHash);
    const { sourceEventId } = end.run;
    const isHidden = await isAdminOnly(tx, { sourceEventId, runId: null });
    const signal = addHaltSignal(
      changes,
      { ...end, isHidden },
      leaves.get(end.run.id) ?? [],
      graph,
    );
    await startHaltFollowers(tx, changes, end, signal);
  }
  if (await hasWaitingBranch(tx, changes.signals)) changes.wakeAdvancer();
}

/**
 * Returns the parameter for the column `end_tx`, by which the event feed orders the ends of runs.
 * With several writers, the database's transaction number is used, and there is no parameter. With one
 * writer, each transaction gets the next number of a sequence. It is also greater than all numbers in
 * the table, which a copied ledger can have. A halted run needs no number, because it has a signal.
 */
export async function claimEndNumber(tx: Transaction): Promise<number[]> {
  const { dialect } = tx;
  if (dialect.ownTransaction !== undefined) return [];
  const [row = {}] = await tx.run(
    `insert into ${dialect.table('storage_sequences')} as s (name, value) values ('run_ends',
        1 + coalesce((select max(end_tx) from ${dialect.table('pipeline_runs')}), 0))
      on conflict (name) do update set value = max(s.value + 1, excluded.value) returning value`,
  );
  return [int(row, 'value')];
}

async function startHaltFollowers(
  tx: Transaction,
  changes: BranchChanges,
  { run, root, context }: RunEnd,
  signal: SignalDraft,
): Promise<void> {
  const parentJobId = root.jobId ?? run.parentJobId;
  const followers = tx.followHalt?.({ run, signal, parentJobId, context });
  await addFollowers(tx, changes, followers);
}

const endRuns = defineRows({
  columns: {
    id: 'text',
    status: 'text',
    output: 'text',
    reason: 'text',
    message: 'text',
    step: 'text',
  },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set status = ${r('status')},
      output = ${r('output')}, halt_reason = ${r('reason')}, halt_message = ${r('message')},
      halted_at_step = ${r('step')}, completed_at = ${d.now},
      end_tx = case when ${r('status')} <> 'halted' then ${d.ownTransaction ?? r.common(0, 'int')} end,
      held_key = case when ${r('status')} = 'succeeded' then pipeline_runs.held_key end,
      held_until = case when ${r('status')} = 'succeeded' and pipeline_runs.held_key is not null
        then ${d.nowPlus('pipeline_runs.dedupe_ttl_ms')} end
    ${r.from}
    where pipeline_runs.id = ${r('id')} and pipeline_runs.status = 'running'`,
});

function toEndRow({ run, root }: RunEnd, leafNode: string | undefined): Row {
  const isHalted = root.status === 'halted';
  return {
    id: run.id,
    status: root.status,
    output: root.output,
    reason: root.haltReason,
    message: root.haltMessage,
    step: isHalted ? haltedStepOf(root, leafNode) : null,
  };
}

/** Returns null if the run never reached its first step. */
function haltedStepOf(root: BranchDraft, leafNode = root.node): string | null {
  return leafNode === '' ? null : leafNode;
}

/** A branch that halted by itself, not because one of its own branches halted. */
interface HaltedLeaf {
  readonly id: string;
  readonly node: string;
  readonly reason: string;
  readonly message: string | null;
}

async function readHaltedLeaves(tx: Transaction, runId: string): Promise<HaltedLeaf[]> {
  const rows = await tx.run(
    `select id, node, halt_reason, halt_message from ${tx.dialect.table('run_branches')}
      where id >= ? and id < ? and status = 'halted' order by id limit ${limits.haltedBranchesMax}`,
    [runId, `${runId}~`],
  );
  const all = rows.map((row) => ({
    id: text(row, 'id'),
    node: text(row, 'node'),
    reason: text(row, 'halt_reason'),
    message: textOrNull(row, 'halt_message'),
  }));
  // The branches below a branch directly follow it in this order.
  return all.filter(({ id }, index) => all[index + 1]?.id.startsWith(`${id}.`) !== true);
}

function addHaltSignal(
  changes: BranchChanges,
  { run, root, isHidden }: RunEnd & { readonly isHidden: boolean },
  leaves: readonly HaltedLeaf[],
  graph: Graph | undefined,
): SignalDraft {
  const payload = {
    run_id: run.id,
    pipeline: run.pipeline,
    reason: root.haltReason,
    message: root.haltMessage ?? `The run halted: ${root.haltReason ?? 'no reason was recorded'}`,
    next: `ductile why ${run.id}`,
    halted_at_step: haltedStepOf(root, leaves[0]?.node),
    branches: leaves.map(({ id, node, reason, message }) => ({
      branch_id: id,
      step_id: node,
      reason,
      message,
    })),
  };
  const data = JSON.stringify(payload);
  const signal: SignalDraft = {
    id: makeId(),
    type: 'run.halted',
    source: RUNTIME_SOURCE,
    subjectType: 'run',
    subjectId: run.id,
    data,
    hops: run.hops + 1,
    correlationId: run.rootJobId,
    ...(run.sourceEventId === null ? {} : { causationId: run.sourceEventId }),
    // The report quotes the run's errors.
    ...(isHidden ? { visibility: 'admin_only' } : {}),
  };
  changes.signals.push(signal);
  if (graph?.onHalt !== undefined) addOnHaltJob(changes, run, root.jobId, graph.onHalt, data);
  return signal;
}

function addOnHaltJob(
  changes: BranchChanges,
  run: RunRow,
  lastJobId: string | null,
  { plugin, command, maxAttempts = limits.attemptsMax }: Handler,
  payload: string,
): void {
  const parentJobId = lastJobId ?? run.parentJobId;
  const id = makeId();
  changes.addJob({
    id,
    plugin,
    command,
    payload,
    submittedBy: run.submittedBy as SubmittedBy,
    actor: run.actor,
    maxAttempts,
    ...(parentJobId === null ? {} : { parentJobId }),
    rootJobId: run.rootJobId,
    idempotencyKey: stepKeyOf(run.id, '', 'on_halt'),
    hops: run.hops + 1,
    runtimeCaused: true,
    ...(run.eventContextId === null ? {} : { eventContextId: run.eventContextId }),
  });
}

/** Emits a signal for each step that started to wait for an approval. */
export async function emitApprovalSignals(tx: Transaction, changes: BranchChanges): Promise<void> {
  const waits = changes.approvalWaits.splice(0);
  if (waits.length === 0) return;
  const hidden = new Map<string, boolean>();
  for (const wait of waits) {
    const { id: runId, sourceEventId, parentJobId } = wait.run;
    const isHidden = hidden.get(runId) ?? (await isAdminOnly(tx, { sourceEventId, runId: null }));
    hidden.set(runId, isHidden);
    const signal = createApprovalSignal(wait, isHidden);
    changes.signals.push(signal);
    const { run, context, jobId } = wait;
    const followers = tx.followApproval?.({
      run,
      signal,
      parentJobId: jobId ?? parentJobId,
      context,
    });
    await addFollowers(tx, changes, followers);
  }
  if (await hasWaitingBranch(tx, changes.signals)) changes.wakeAdvancer();
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

function createApprovalSignal(wait: ApprovalWait, isHidden: boolean): SignalDraft {
  const { run, node, stepId, branchId, message, due } = wait;
  const payload = {
    message: message ?? `A run of the pipeline ${run.pipeline} waits for an approval at ${node}.`,
    // Several branches can wait at the same step; only the id names one of them.
    next: `ductile run approve ${run.id} ${stepId}`,
    run_id: run.id,
    pipeline: run.pipeline,
    step: node,
    step_id: stepId,
    branch_id: branchId,
    timeout_ms: due !== undefined && 'inMs' in due ? due.inMs : null,
  };
  return {
    id: makeId(),
    type: 'run.awaiting_approval',
    source: RUNTIME_SOURCE,
    subjectType: 'run',
    subjectId: run.id,
    data: JSON.stringify(payload),
    hops: run.hops + 1,
    correlationId: run.rootJobId,
    ...(run.sourceEventId === null ? {} : { causationId: run.sourceEventId }),
    // The message can quote the payload.
    ...(isHidden ? { visibility: 'admin_only' } : {}),
  };
}
