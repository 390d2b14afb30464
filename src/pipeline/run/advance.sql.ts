import { limits } from '../../base/limits.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { Closing } from '../../ledger/commit.ts';
import {
  defineRows,
  awaitBoth,
  type Row,
  type Session,
  type Transaction,
  runInSavepoint,
} from '../../ledger/dialect.ts';
import { int, intOrNull, text, textOrNull } from '../../ledger/row.ts';
import { insertAdvancements } from './advancement.sql.ts';
import {
  applyArrivals,
  applyEndedBranches,
  applyTransition,
  isParentReady,
  startNext,
  type TransitionCause,
} from './apply.ts';
import { releaseDelayedBranches } from './block-concurrency.sql.ts';
import {
  mergeRunEvents,
  createRoot,
  noRunEvents,
  createJobArrival,
  type LoadedBranch,
  type BranchChanges,
} from './changes.ts';
import type { HaltReason } from './halt.ts';
import { loadBranches, loadLockedBranches, readRuns, lockBranchRows } from './load-run.sql.ts';
import type { HaltedLeaves } from './report.ts';
import { readHaltedLeaves, reportApprovals, reportHalts } from './report.sql.ts';
import {
  runTable,
  branchTable,
  type BranchStatus,
  type BranchRow,
  type RunStatus,
  type Arrival,
  type RunRow,
  type BlockKind,
} from './run.ts';
import type { Advancement, RunCommitEvents, RunDraft, RunStart } from './types.ts';
import { flushChanges } from './write-branch.sql.ts';
import { insertOnce, insertRoots, writeRunEnds } from './write-run.sql.ts';

/**
 * Inserts runs, each once. Runs that don't have to wait start in this transaction and go as far as
 * they can. An advancer starts the others.
 */
export async function createRuns(
  tx: Transaction,
  drafts: readonly RunDraft[],
): Promise<RunCreation> {
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

interface RunCreation {
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
  const roots = runs.map((run) => ({ run, branch: createRoot(run), arrival: START }));
  const started = await runInSavepoint(tx, (inner) => advanceBranches(inner, roots));
  if (started.isDone) return started.value;
  if (runs.length > 1) return await startEachRoot(tx, runIds);
  await insertRoots(tx, runs);
  const failed = runs.map(({ id }) => ({ runId: id, branchId: id, node: '', processId: '' }));
  return { events: await recordFailures(tx, failed, started.error), endedAs };
}

const START: Arrival = { kind: 'start' };

/** Loads branches, computes what follows from their arrivals, and writes it. */
async function advanceBranches(
  tx: Transaction,
  causes: readonly (TransitionCause & Pick<LoadedBranch, 'run' | 'branch'>)[],
): Promise<BranchChanges> {
  const changes = applyArrivals(await loadBranches(tx, causes));
  await writeChanges(tx, changes);
  return changes;
}

/** Records branches that were not advanced, and leaves them to an advancer. */
async function recordFailures(
  tx: Transaction,
  failed: readonly Pick<Advancement, 'runId' | 'branchId' | 'node' | 'processId'>[],
  error: string,
): Promise<RunCommitEvents> {
  await insertAdvancements(
    tx,
    failed.map((branch) => ({ ...branch, error })),
  );
  const failures = failed.map(({ branchId }) => ({ branchId, error }));
  return { ...noRunEvents, advancing: true, failures };
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

/** The final end of the job that a branch waited for. */
interface JobArrival {
  readonly job: Job;
  readonly runId: string;
  readonly branchId: string;
  readonly arrival: Arrival;
}

/**
 * Advances the branches whose jobs have ended for good. If that fails, the jobs have still ended, and
 * their results are stored with the branches for an advancer.
 */
export async function advanceAfterJobs(
  tx: Transaction,
  closings: readonly Closing[],
): Promise<RunCommitEvents> {
  const arrivals = closings
    .flatMap(toJobArrival)
    .toSorted((a, b) => (a.branchId < b.branchId ? -1 : 1));
  if (arrivals.length === 0) return noRunEvents;
  const advanced = await runInSavepoint(tx, (inner) => advanceSettled(inner, arrivals));
  if (advanced.isDone) return advanced.value;
  const left = await tx.each(
    storeArrival,
    arrivals.map(({ job, branchId, arrival }) => ({
      id: branchId,
      job_id: job.id,
      outcome: JSON.stringify(arrival),
    })),
  );
  const isLeft = new Set(left.map((row) => text(row, 'id')));
  const failed = arrivals
    .filter(({ branchId }) => isLeft.has(branchId))
    .map(({ job, runId, branchId }) => {
      return { runId, branchId, node: job.stepId ?? '', processId: job.claimedBy ?? '' };
    });
  return await recordFailures(tx, failed, advanced.error);
}

function toJobArrival({ job, ending, report, output }: Closing): JobArrival[] {
  const { runId, branchId } = job;
  if (runId === null || branchId === null || !isTerminal(ending.status)) return [];
  return [{ job, runId, branchId, arrival: createJobArrival(ending, report.error, output) }];
}

async function advanceSettled(
  tx: Transaction,
  arrivals: readonly JobArrival[],
): Promise<RunCommitEvents> {
  const [runs, branches] = await lockBranches(tx, arrivals);
  const causes = arrivals.flatMap((arrival) => {
    const run = runs.get(arrival.runId);
    const branch = branches.get(arrival.branchId);
    // The branches of a run that ended or was cancelled don't change any more.
    if (run?.status !== 'running' || branch?.status !== 'running') return [];
    return branch.jobId === arrival.job.id ? [{ run, branch, ...arrival }] : [];
  });
  return (await advanceBranches(tx, causes)).events;
}

/**
 * Locks branches and their runs. Lock order: runs before branches, each in the order of ids. Runs are
 * locked shared, so that no other transaction ends or cancels them meanwhile.
 */
export async function lockBranches(
  tx: Transaction,
  wanted: readonly { readonly runId: string; readonly branchId: string }[],
): Promise<[Map<string, RunRow>, Map<string, BranchRow>]> {
  const runIds = [...new Set(wanted.map(({ runId }) => runId))].toSorted();
  const branchIds = [...new Set(wanted.map(({ branchId }) => branchId))].toSorted();
  const [runs, branches] = await awaitBoth(
    tx.each(
      lockRunRows,
      runIds.map((id) => ({ id })),
    ),
    tx.each(
      lockBranchRows,
      branchIds.map((id) => ({ id })),
    ),
  );
  return [
    new Map(runs.map((row) => [text(row, 'id'), runTable.decode(row)])),
    new Map(branches.map((row) => [text(row, 'id'), branchTable.decode(row)])),
  ];
}

const lockRunRows = defineRows({
  columns: { id: 'text' },
  key: 'id',
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select p.* from ${d.table('pipeline_runs')} p where p.id ${r.isKey()} order by p.id
        ${d.forShare}`,
    )}`,
});

const storeArrival = defineRows({
  columns: { id: 'text', job_id: 'text', outcome: 'text' },
  sql: (r, d) => `update ${d.table('run_branches')} set status = 'advancing',
      outcome = ${r('outcome')}, due_at = ${d.now}
    ${r.from}
    where run_branches.id = ${r('id')} and run_branches.job_id = ${r('job_id')}
      and run_branches.status = 'running'
    returning run_branches.id`,
});

/**
 * Writes the changes, and advances the parents of branches that ended, from the deepest level up. The
 * transaction that ends the last branch of a block also advances the parent.
 */
export async function writeChanges(tx: Transaction, changes: BranchChanges): Promise<void> {
  for (let level = readLevel(changes); level.length > 0; level = readLevel(changes)) {
    flushChanges(tx, changes);
    const parents = await tx.each(countEnded, level);
    const ids = parents.filter((row) => isParentReady(toParent(row))).map((row) => text(row, 'id'));
    for (const parent of await loadLockedBranches(tx, ids)) {
      await advanceParent(tx, changes, parent);
    }
  }
  if (changes.approvalWaits.length > 0) await reportApprovals(tx, changes);
  await endRuns(tx, changes);
  flushChanges(tx, changes);
}

/** Ends the runs whose roots have ended. Lock order: runs are updated in the order of ids. */
async function endRuns(tx: Transaction, changes: BranchChanges): Promise<void> {
  const ends = changes.runEnds.splice(0).toSorted((a, b) => (a.run.id < b.run.id ? -1 : 1));
  if (ends.length === 0) return;
  const halted = ends.filter(({ root }) => root.status === 'halted');
  if (halted.length > 0) flushChanges(tx, changes);
  const leaves = halted.length === 0 ? noLeaves : await readHaltedLeaves(tx, halted);
  await writeRunEnds(tx, ends, leaves);
  for (const { run } of ends) tx.ends?.note(run);
  if (halted.length > 0) await reportHalts(tx, changes, halted, leaves);
}

const noLeaves: HaltedLeaves = new Map();

function readLevel(changes: BranchChanges): Row[] {
  return changes.drainDeepestParents().map(([id, { count, halted }]) => ({ id, count, halted }));
}

/** Skips parents that have ended: they were cancelled, and don't wait for their branches. */
const countEnded = defineRows({
  columns: { id: 'text', count: 'int', halted: 'int' },
  sql: (r, d) => `update ${d.table('run_branches')} set
      pending = run_branches.pending - ${r('count')}, halted = run_branches.halted + ${r('halted')}
    ${r.from}
    where run_branches.id = ${r('id')} and run_branches.completed_at is null
    returning run_branches.id, run_branches.pending, run_branches.width, run_branches.cursor,
      run_branches.concurrency, run_branches.outcome, run_branches.status`,
});

function toParent(row: Row): Parameters<typeof isParentReady>[0] {
  return {
    status: text(row, 'status') as BranchStatus,
    pending: int(row, 'pending'),
    width: int(row, 'width'),
    cursor: int(row, 'cursor'),
    concurrency: intOrNull(row, 'concurrency'),
    outcome: textOrNull(row, 'outcome'),
  };
}

/** Advances a parent whose branches have all ended, or starts the next branches of its block. */
async function advanceParent(
  tx: Transaction,
  changes: BranchChanges,
  parent: LoadedBranch,
): Promise<void> {
  const need = applyEndedBranches(changes, parent);
  if (need === 'join') {
    applyTransition(changes, parent, { arrival: await readJoin(tx, parent.branch) });
  } else if (need === 'delay') {
    startNext(changes, parent, await releaseDelayedBranches(tx, parent.branch));
  }
}

/** Reads the outputs of all branches of a block, or the reason of the first that halted. */
export async function readJoin(session: Session, branch: BranchRow): Promise<Arrival> {
  if (branch.halted > 0) return await readFirstHalt(session, branch);
  const block = branch.block ?? 'split';
  const outputs: string[] = [];
  let chars = 0;
  for await (const slice of readOutputSlices(session, branch)) {
    for (const output of slice) chars += output.length;
    if (chars > limits.runOutputBytesMax) return createTooLarge(block);
    // Only a split needs single outputs. A few long texts are joined faster than many short ones.
    if (block === 'split') outputs.push(...slice);
    else outputs.push(slice.join(','));
  }
  return { kind: 'joined', block, outputs };
}

function createTooLarge(block: BlockKind): Arrival {
  const error = `its outputs have more than ${limits.runOutputBytesMax} bytes together`;
  return { kind: 'failed', reason: 'invalid_transition', error, block };
}

/** Ended branches never change, so the slices can be read even outside of a transaction. */
async function* readOutputSlices(
  session: Session,
  { id, moves, width }: BranchRow,
): AsyncGenerator<string[]> {
  let after = `${id}.${moves}.`;
  for (let read = 0; read < width;) {
    const rows = await session.run(
      `select id, output from ${session.dialect.table('run_branches')}
        where id > ? and id < ? and parent_id = ? order by id limit ${limits.advanceBatchMax}`,
      [after, `${id}.${moves}.~`, id],
    );
    const last = rows.at(-1);
    if (last === undefined) throw new Error(`branches of ${id} are missing`);
    read += rows.length;
    after = text(last, 'id');
    yield rows.map((row) => text(row, 'output'));
    if (read < width) await new Promise((resolve) => setImmediate(resolve));
  }
}

async function readFirstHalt(session: Session, branch: BranchRow): Promise<Arrival> {
  const { id, moves, block } = branch;
  const [row] = await session.run(
    `select halt_reason, halt_message from ${session.dialect.table('run_branches')}
      where id > ? and id < ? and parent_id = ? and status in ('halted', 'cancelled')
      order by id limit 1`,
    [`${id}.${moves}.`, `${id}.${moves}.~`, id],
  );
  return {
    kind: 'failed',
    reason: (textOrNull(row ?? {}, 'halt_reason') ?? 'cancelled') as HaltReason,
    error: textOrNull(row ?? {}, 'halt_message') ?? 'one of its branches was cancelled',
    ...(block === null ? {} : { block }),
  };
}
