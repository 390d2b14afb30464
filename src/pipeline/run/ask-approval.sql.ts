import { makeId } from '../../base/ids.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../../signal/signal.ts';
import type { Transaction } from '../../ledger/dialect.ts';
import type { Followers } from './types.ts';
import type { Effects, Question } from './changes.sql.ts';
import { insertRuns, leaveRoots } from './accept.sql.ts';
import { hasWaitingBranch, isAdminOnly } from '../../signal/signal.sql.ts';

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
export async function putFollowers(
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
