import { makeId } from '../../base/ids.ts';
import type { SubmittedBy } from '../../job/job.ts';
import type { Graph, Handler } from '../language/graph.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../../signal/signal.ts';
import { defineRows, type Row, type Transaction } from '../../ledger/dialect.ts';
import { limits } from '../../base/limits.ts';
import { flush } from './write-branch.sql.ts';
import type { Effects, MovedBranch, RunEnd, Question } from './changes.ts';
import { keyOfStep } from './apply.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import { type RunRow, findGraph } from './load-branch.sql.ts';
import { hasWaitingBranch, isAdminOnly } from '../../signal/signal.sql.ts';
import type { Followers } from './types.ts';
import { insertRuns, leaveRoots } from './accept.sql.ts';

/** Ends the runs whose roots have ended; what halted is told, and handed to whoever cares for it. */
export async function closeRuns(tx: Transaction, effects: Effects): Promise<void> {
  const ends = effects.runEnds.splice(0).toSorted((a, b) => (a.run.id < b.run.id ? -1 : 1));
  if (ends.length === 0) return;
  const halted = ends.filter(({ root }) => root.status === 'halted');
  const leaves = new Map<string, Leaf[]>();
  if (halted.length > 0) {
    flush(tx, effects);
    for (const { run } of halted) leaves.set(run.id, await readHalted(tx, run.id));
  }
  tx.send(
    endRuns,
    ends.map((end) => toEndRow(end, leaves.get(end.run.id)?.[0]?.node)),
    await numberEnds(tx),
  );
  for (const { run } of ends) tx.ends?.note(run);
  for (const end of halted) {
    const graph = await findGraph(tx, end.run.definitionHash);
    const { sourceEventId } = end.run;
    const isHidden = await isAdminOnly(tx, { sourceEventId, runId: null });
    const signal = addHaltSignal(
      effects,
      { ...end, isHidden },
      leaves.get(end.run.id) ?? [],
      graph,
    );
    await followHalt(tx, effects, end, signal);
  }
  const isAwaited = await hasWaitingBranch(tx, effects.signals);
  if (isAwaited) effects.leaveToAdvancer();
}

/**
 * Where one writes, ends have numbers of their own, one for those of a transaction, and higher than
 * all in a copy of a ledger that had others; elsewhere the transaction has one. A run that halted
 * needs none, because its signal tells of it.
 */
export async function numberEnds(tx: Transaction): Promise<number[]> {
  const { dialect } = tx;
  if (dialect.newTransaction !== undefined) return [];
  const [row = {}] = await tx.run(
    `insert into ${dialect.table('storage_sequences')} as s (name, value) values ('run_ends',
        1 + coalesce((select max(end_tx) from ${dialect.table('pipeline_runs')}), 0))
      on conflict (name) do update set value = max(s.value + 1, excluded.value) returning value`,
  );
  return [int(row, 'value')];
}

async function followHalt(
  tx: Transaction,
  effects: Effects,
  { run, root, context }: RunEnd,
  signal: SignalDraft,
): Promise<void> {
  const parentJobId = root.jobId ?? run.parentJobId;
  const followed = tx.followHalt?.({ run, signal, parentJobId, context });
  await putFollowers(tx, effects, followed);
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
      end_tx = case when ${r('status')} <> 'halted' then ${d.newTransaction ?? r.common(0, 'int')} end,
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
    step: isHalted ? stepOf(root, leafNode) : null,
  };
}

/** None, when the run never came to its first. */
function stepOf(root: MovedBranch, leafNode = root.node): string | null {
  return leafNode === '' ? null : leafNode;
}

/** A branch that could not go on by itself, not because branches of its own could not. */
interface Leaf {
  readonly id: string;
  readonly node: string;
  readonly reason: string;
  readonly message: string | null;
}

async function readHalted(tx: Transaction, runId: string): Promise<Leaf[]> {
  const rows = await tx.run(
    `select id, node, halt_reason, halt_message from ${tx.dialect.table('run_branches')}
      where id >= ? and id < ? and status = 'halted' order by id limit ${limits.haltsToldMax}`,
    [runId, `${runId}~`],
  );
  const all = rows.map((row) => ({
    id: text(row, 'id'),
    node: text(row, 'node'),
    reason: text(row, 'halt_reason'),
    message: textOrNull(row, 'halt_message'),
  }));
  // Those below a branch come right behind it.
  return all.filter(({ id }, index) => all[index + 1]?.id.startsWith(`${id}.`) !== true);
}

function addHaltSignal(
  effects: Effects,
  { run, root, isHidden }: RunEnd & { readonly isHidden: boolean },
  leaves: readonly Leaf[],
  graph: Graph | undefined,
): SignalDraft {
  const told = {
    run_id: run.id,
    pipeline: run.pipeline,
    reason: root.haltReason,
    message: root.haltMessage ?? `The run halted: ${root.haltReason ?? 'no reason was recorded'}`,
    next: `ductile why ${run.id}`,
    halted_at_step: stepOf(root, leaves[0]?.node),
    branches: leaves.map(({ id, node, reason, message }) => ({
      branch_id: id,
      step_id: node,
      reason,
      message,
    })),
  };
  const data = JSON.stringify(told);
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
  effects.signals.push(signal);
  if (graph?.onHalt !== undefined) queueOnHalt(effects, run, root.jobId, graph.onHalt, data);
  return signal;
}

function queueOnHalt(
  effects: Effects,
  run: RunRow,
  lastJobId: string | null,
  { plugin, command, maxAttempts = limits.attemptsMax }: Handler,
  payload: string,
): void {
  const parentJobId = lastJobId ?? run.parentJobId;
  const id = makeId();
  effects.putJob({
    id,
    plugin,
    command,
    payload,
    submittedBy: run.submittedBy as SubmittedBy,
    actor: run.actor,
    maxAttempts,
    ...(parentJobId === null ? {} : { parentJobId }),
    rootJobId: run.rootJobId,
    idempotencyKey: keyOfStep(run.id, '', 'on_halt'),
    hops: run.hops + 1,
    runtimeCaused: true,
    ...(run.eventContextId === null ? {} : { eventContextId: run.eventContextId }),
  });
}

/** Emits a signal for each step that began to wait for a person, in the transaction that begins it. */
export async function announceQuestions(tx: Transaction, effects: Effects): Promise<void> {
  const questions = effects.questions.splice(0);
  if (questions.length === 0) return;
  const hidden = new Map<string, boolean>();
  for (const question of questions) {
    const { id: runId, sourceEventId, parentJobId } = question.run;
    const isHidden = hidden.get(runId) ?? (await isAdminOnly(tx, { sourceEventId, runId: null }));
    hidden.set(runId, isHidden);
    const signal = toSignal(question, isHidden);
    effects.signals.push(signal);
    const { run, context, jobId } = question;
    const followed = tx.followQuestion?.({
      run,
      signal,
      parentJobId: jobId ?? parentJobId,
      context,
    });
    await putFollowers(tx, effects, followed);
  }
  if (await hasWaitingBranch(tx, effects.signals)) effects.leaveToAdvancer();
}

/** Writes what follows from a signal about a run; a run that begins so is left to an advancer. */
async function putFollowers(
  tx: Transaction,
  effects: Effects,
  followed: Followers | undefined,
): Promise<void> {
  if (followed === undefined) return;
  for (const job of followed.jobs) effects.putJob(job);
  if (followed.runs.length === 0) return;
  const accepted = await insertRuns(tx, followed.runs);
  const free = accepted.filter(({ concurrency }) => concurrency === undefined);
  await leaveRoots(
    tx,
    free.map(({ id, payload, eventContextId = null }) => ({ id, payload, eventContextId })),
  );
  effects.leaveToAdvancer();
}

function toSignal(question: Question, isHidden: boolean): SignalDraft {
  const { run, node, stepId, branchId, message, due } = question;
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
    // The question can quote the payload.
    ...(isHidden ? { visibility: 'admin_only' } : {}),
  };
}
