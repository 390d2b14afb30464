import { enqueueJobs } from '../../job/enqueue.sql.ts';
import { requireQueueRoom } from '../../job/queue.sql.ts';
import type { EnqueueResult } from '../../job/types.ts';
import type { EnqueueBatch, StartedBatch } from '../../ledger/commit.ts';
import { type Transaction, runInSavepoint } from '../../ledger/dialect.ts';
import { hasWaitingBranch } from '../../signal/signal.sql.ts';
import { applyTransition } from './apply.ts';
import {
  BranchChanges,
  createRoot,
  mergeRunEvents,
  noRunEvents,
  type BranchRow,
  type RunRow,
} from './changes.ts';
import { findGraph, loadBranches, readRuns } from './load-run.sql.ts';
import type { RunStatus } from './run.ts';
import { writeChanges } from './advance.sql.ts';
import type { RunCommitEvents, RunDraft, RunStart } from './types.ts';
import { insertFailures } from './advancement.sql.ts';
import { insertOnce, insertRoots } from './write-run.sql.ts';

/** Inserts jobs, and the runs and signals that belong to them. */
export async function enqueueBatch(tx: Transaction, batch: EnqueueBatch): Promise<EnqueueResult[]> {
  await checkQueueLimit(tx, batch);
  const enqueued = await enqueueJobs(tx, batch);
  await createRuns(tx, batch.runs ?? []);
  return enqueued;
}

/** Inserts runs, and the jobs and signals that belong to them. */
export async function startRuns(tx: Transaction, batch: EnqueueBatch): Promise<StartedBatch> {
  await checkQueueLimit(tx, batch);
  const jobs = await enqueueJobs(tx, batch);
  const { events, runs } = await createRuns(tx, batch.runs ?? []);
  const advancing = events.advancing || (await hasWaitingBranch(tx, batch.signals ?? []));
  return { ...events, advancing, jobs, runs };
}

async function checkQueueLimit(
  tx: Transaction,
  { queueLimit, jobs, runs = [] }: EnqueueBatch,
): Promise<void> {
  if (queueLimit !== undefined) await requireQueueRoom(tx, queueLimit, jobs.length + runs.length);
}

/**
 * Inserts runs, each once. Runs that don't have to wait start in this transaction and go as far as
 * they can. An advancer starts the others.
 */
export async function createRuns(
  tx: Transaction,
  drafts: readonly RunDraft[],
): Promise<RunCreation> {
  if (drafts.length === 0) return { events: noRunEvents, runs: [] };
  const { starts, ready, hasQueued, dueInMs, repeated } = await insertOnce(tx, drafts);
  const dropped = starts.filter(({ duplicateOf }) => duplicateOf !== undefined);
  const waits = { ...noRunEvents, advancing: hasQueued, dueInMs, dropped };
  const { events, endedAs } = await startRoots(tx, ready);
  const recalled =
    tx.isRetry && repeated.length > 0 ? await recallEvents(tx, repeated) : noRunEvents;
  // A run can end in the transaction that starts it.
  const runs = starts.map((start) => {
    const status = endedAs.get(start.duplicateOf ?? start.runId);
    return status === undefined ? start : { ...start, status };
  });
  return { events: mergeRunEvents([waits, events, recalled]), runs };
}

export interface RunCreation {
  readonly events: RunCommitEvents;
  /** The result of each draft, in their order. */
  readonly runs: readonly RunStart[];
}

/**
 * Returns the events of an earlier commit whose response was lost. They can be repeated, because a
 * needless check does no harm.
 */
export async function recallEvents(
  tx: Transaction,
  runIds: readonly string[],
): Promise<RunCommitEvents> {
  const runs = [...(await readRuns(tx, [...new Set(runIds)])).values()];
  for (const run of runs) if (run.completedAt !== null) tx.ends?.note(run);
  return { advancing: true, queued: true, dueInMs: 0 };
}

/** Creates the first branch of each running run, and advances it. */
async function startRoots(
  tx: Transaction,
  runIds: readonly string[],
): Promise<Pick<BranchChanges, 'events' | 'endedAs'>> {
  const endedAs = new Map<string, RunStatus>();
  if (runIds.length === 0) return { events: noRunEvents, endedAs };
  const runs = [...(await readRuns(tx, runIds)).values()];
  const started = await runInSavepoint(tx, async (inner) => {
    const pairs: { run: RunRow; branch: BranchRow }[] = [];
    for (const run of runs) pairs.push({ run, branch: await loadRoot(inner, run) });
    const changes = new BranchChanges();
    for (const loaded of await loadBranches(inner, pairs)) {
      applyTransition(changes, loaded, { arrival: { kind: 'start' }, isNew: true });
    }
    await writeChanges(inner, changes);
    return changes;
  });
  if (started.isDone) return started.value;
  if (runs.length > 1) return await startEachRoot(tx, runIds);
  await insertRoots(tx, runs);
  const { error } = started;
  await insertFailures(
    tx,
    runs.map(({ id }) => ({ runId: id, branchId: id, node: '', processId: '', error })),
  );
  const failures = runs.map(({ id: branchId }) => ({ branchId, error }));
  return { events: { ...noRunEvents, advancing: true, failures }, endedAs };
}

/** Starts the runs one by one, so that the failure of one doesn't stop the others. */
async function startEachRoot(
  tx: Transaction,
  runIds: readonly string[],
): Promise<Pick<BranchChanges, 'events' | 'endedAs'>> {
  const events: RunCommitEvents[] = [];
  const endedAs = new Map<string, RunStatus>();
  for (const id of runIds) {
    const started = await startRoots(tx, [id]);
    events.push(started.events);
    for (const [runId, status] of started.endedAs) endedAs.set(runId, status);
  }
  return { events: mergeRunEvents(events), endedAs };
}

async function loadRoot(tx: Transaction, run: RunRow): Promise<BranchRow> {
  const graph = await findGraph(tx, run.definitionHash);
  if (graph === undefined) throw new Error(`there is no definition ${run.definitionHash}`);
  return createRoot(run, graph);
}
