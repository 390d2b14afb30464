import type { Transaction } from '../../ledger/dialect.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import type { Decision } from './types.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import type { CancelState } from './advancer.ts';
import { claimEndNumber } from './write-run.sql.ts';
import { findGraph } from './load-run.sql.ts';

import { limits } from '../../base/limits.ts';
import { createBareReport } from '../../job/attempt.ts';
import { endAsCancelled } from '../../job/outcome.ts';
import type { Job } from '../../job/job.ts';
import { jobColumns, toJob } from '../../job/job.sql.ts';
import type { Slice } from './copy.sql.ts';
import { requestCancel } from '../../job/bulk.sql.ts';
import { settleClosings } from '../../job/settle.sql.ts';
import type { ErrorCode } from '../../base/errors.ts';
import {
  stepTable,
  runTable,
  describeDecision,
  type Step,
  type Arrival,
  type RunRow,
} from './run.ts';

/**
 * Cancels a run. Nothing of it starts or continues afterwards: queued jobs are cancelled, and running
 * jobs are asked to stop. This transaction ends the first batch of branches. An advancer ends the
 * remaining branches of a wide run.
 */
export async function cancelRun(tx: Transaction, runId: string): Promise<DirectiveEnd> {
  const running = await lockRunningJobs(tx, runId);
  const run = await lockRun(tx, runId);
  if (run === undefined) return runNotFound(runId);
  const { status } = run;
  if (run.completedAt !== null) {
    return { status: 'completed', result: { run_id: runId, outcome: 'unchanged', was: status } };
  }
  await tx.run(
    `update ${tx.dialect.table('pipeline_runs')} set status = 'cancelled', due_at = null,
      held_key = null, completed_at = ${tx.dialect.now},
      end_tx = ${tx.dialect.ownTransaction ?? '?'} where id = ?`,
    [...(await claimEndNumber(tx)), runId],
  );
  tx.ends?.note(run);
  await requestCancel(tx, running);
  const kept = await releaseRoot(tx, runId);
  const { cancelled, stopping, left } = await cancelBranches(tx, runId, { after: runId, kept });
  const result = {
    run_id: runId,
    outcome: 'cancelled',
    was: status,
    cancelled_jobs: cancelled,
    stopping: [...new Set([...running, ...stopping])],
  };
  if (left === undefined) return { status: 'completed', result };
  return { status: 'completed', result: { ...result, sweeping: true } };
}

/** Removes the claim of an advancer that works on the root. Returns the work that was left. */
async function releaseRoot(tx: Transaction, runId: string): Promise<string | null> {
  const [root] = await tx.run(
    `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null
      where id = ? and completed_at is null returning outcome`,
    [runId],
  );
  return textOrNull(root ?? {}, 'outcome');
}

/** Locks a run, so that no other transaction advances, ends or revives it. */
export async function lockRun(tx: Transaction, runId: string): Promise<RunRow | undefined> {
  const [row] = await tx.run(
    `select * from ${tx.dialect.table('pipeline_runs')} where id = ? ${tx.dialect.forUpdate}`,
    [runId],
  );
  return row === undefined ? undefined : runTable.decode(row);
}

export function runNotFound(runId: string): DirectiveEnd {
  return failWith('RUN_NOT_FOUND', `there is no run ${runId}`);
}

export function failWith(code: ErrorCode, error: string): DirectiveEnd {
  return { status: 'failed', code, error };
}

/** Locks the running jobs of a run. Lock order: a settle locks its job before the run, so this must too. */
async function lockRunningJobs(tx: Transaction, runId: string): Promise<string[]> {
  const { dialect } = tx;
  // The expression stops SQLite from scanning all jobs by `seq` instead of sorting the few that run.
  const rows = await tx.run(
    `select id from ${dialect.table('job_queue')} where status = 'running' and run_id = ?
      order by seq + 0 ${dialect.forUpdate}`,
    [runId],
  );
  return rows.map((row) => text(row, 'id'));
}

interface CancelResult {
  /** The number of cancelled jobs. */
  readonly cancelled: number;
  /** Running jobs that were asked to stop. */
  readonly stopping: readonly string[];
  /** Undefined if all branches have ended. */
  readonly left: CancelState | undefined;
}

/** Returns the SQL condition for the root of a run whose cancellation isn't finished. */
export function isCancelling(alias: string): string {
  return `coalesce(${alias}.outcome, '') like '{"kind":"sweep"%'`;
}

/**
 * Ends a bounded number of branches of a cancelled run, with their jobs. The root ends last: as long as
 * it is open, an advancer claims it and continues, even after a crash. No step of the run starts
 * meanwhile, because the branches of a cancelled run are not claimed.
 */
export async function cancelBranches(
  tx: Transaction,
  runId: string,
  { after, kept }: Omit<CancelState, 'kind'>,
): Promise<CancelResult> {
  const { dialect } = tx;
  const rows = await tx.run(
    `select id from ${dialect.table('run_branches')} where id > ? and id < ?
      and completed_at is null order by id limit ${limits.cancelBatchMax}`,
    [after, `${runId}~`],
  );
  const ids = rows.map((row) => text(row, 'id'));
  const isLast = ids.length < limits.cancelBatchMax;
  const [first, last] = [ids[0], ids.at(-1)];
  // The open branches from the first to the last id. The last batch also ends the root.
  const slices: Slice[] = [
    ...(isLast ? [{ first: runId, last: runId }] : []),
    ...(first === undefined || last === undefined ? [] : [{ first, last }]),
  ];
  const open: Job[] = [];
  for (const slice of slices) open.push(...(await lockOpenJobs(tx, slice)));
  const queued = open.filter((job) => job.status === 'queued');
  await cancelQueued(tx, queued);
  const stopping = open.filter((job) => job.status === 'running').map(({ id }) => id);
  await requestCancel(tx, stopping);
  for (const slice of slices) await endSlice(tx, runId, slice);
  const left: CancelState | undefined = isLast
    ? undefined
    : { kind: 'sweep', after: last ?? after, kept };
  if (left === undefined) await restoreOutcome(tx, runId, kept);
  else await storeCancelState(tx, runId, left);
  return { cancelled: queued.length, stopping, left };
}

async function restoreOutcome(tx: Transaction, runId: string, kept: string | null): Promise<void> {
  await tx.run(`update ${tx.dialect.table('run_branches')} set outcome = ? where id = ?`, [
    kept,
    runId,
  ]);
}

/** Makes the root due: at once without a claim, and when the lease ends with one. */
async function storeCancelState(tx: Transaction, runId: string, left: CancelState): Promise<void> {
  const { dialect } = tx;
  const leaseMs = String(limits.branchLeaseMs);
  await tx.run(
    `update ${dialect.table('run_branches')} set status = 'advancing', outcome = ?,
      due_at = case when claim_token is null then ${dialect.now} else ${dialect.nowPlus(leaseMs)} end,
      deadline_at = null, waits_for = null where id = ?`,
    [JSON.stringify(left), runId],
  );
}

/** Locks the open jobs of branches in the order of `seq`, so that none of them starts meanwhile. */
async function lockOpenJobs(tx: Transaction, { first, last }: Slice): Promise<Job[]> {
  const { dialect } = tx;
  const rows = await tx.run(
    `select ${jobColumns} from ${dialect.table('job_queue')} where completed_at is null
      and id in (select job_id from ${dialect.table('run_branches')}
        where id >= ? and id <= ? and status = 'running') order by seq ${dialect.forUpdate}`,
    [first, last],
  );
  return rows.map(toJob);
}

/** Settles the jobs as if they were not steps of a run, because their branches end without advancing. */
async function cancelQueued(tx: Transaction, jobs: readonly Job[]): Promise<void> {
  if (jobs.length === 0) return;
  const report = createBareReport(
    'cancelled',
    'cancelled',
    'its run was cancelled before it started',
  );
  await settleClosings(
    tx,
    jobs.map((job) => ({
      job: { ...job, runId: null, branchId: null },
      claimToken: null,
      report,
      ending: endAsCancelled(job),
      signals: [],
      jobs: [],
    })),
  );
}

async function endSlice(tx: Transaction, runId: string, { first, last }: Slice): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('run_branches')} set status = 'cancelled',
      completed_at = ${dialect.now}, due_at = null, deadline_at = null, waits_for = null,
      claim_token = null, claimed_by = null
      where id >= ? and id <= ? and completed_at is null`,
    [first, last],
  );
  await tx.run(
    `update ${dialect.table('run_steps')} set status = 'cancelled', completed_at = ${dialect.now}
      where run_id = ? and branch_id >= ? and branch_id <= ? and status = 'waiting'`,
    [runId, first, last],
  );
}

/** The most step ids in a message. */
const NAMED_MAX = 5;

/** Stores the decision about a step that waits for approval. An advancer continues the branch. */
export async function decideStep(
  tx: Transaction,
  decision: Decision,
  actor: string,
): Promise<DirectiveEnd> {
  const { runId, step: name, approved, why } = decision;
  const run = await lockRun(tx, runId);
  if (run === undefined) return runNotFound(runId);
  const steps = await readApproveSteps(tx, runId, name);
  const waiting = steps.filter(({ status }) => status === 'waiting');
  const [step] = waiting;
  if (step === undefined) return await explainNoneWaiting(tx, run, name, steps);
  if (waiting.length > 1) return ambiguous(name, waiting);
  const [clock] = await tx.run(`select ${tx.dialect.now} as now`);
  const at = text(clock ?? {}, 'now');
  const arrival: Arrival = { kind: 'decided', approved, by: actor, why: why ?? null, at };
  const moved = await tx.run(
    `update ${tx.dialect.table('run_branches')} set status = 'advancing', outcome = ?,
      due_at = ${tx.dialect.now}, deadline_at = null, claim_token = null, claimed_by = null
      where id = ? and status = 'waiting' returning id`,
    [JSON.stringify(arrival), step.branchId],
  );
  if (moved.length === 0)
    return failWith('STEP_NOT_WAITING', `step ${step.node} is decided already`);
  const result = { run_id: runId, step: step.node, step_id: step.id, approved, by: actor, at };
  return { status: 'completed', result };
}

async function readApproveSteps(tx: Transaction, runId: string, name: string): Promise<Step[]> {
  const rows = await tx.run(
    `select * from ${tx.dialect.table('run_steps')}
      where run_id = ? and kind = 'approve' and (node = ? or id = ?)
      order by case when status = 'waiting' then 0 else 1 end, id limit ?`,
    [runId, name, name, NAMED_MAX + 1],
  );
  return rows.map((row) => stepTable.decode(row));
}

async function explainNoneWaiting(
  tx: Transaction,
  run: RunRow,
  name: string,
  steps: readonly Step[],
): Promise<DirectiveEnd> {
  const last = steps.at(-1);
  if (last !== undefined) {
    return failWith(
      'STEP_NOT_WAITING',
      `step ${last.node} no longer waits for approval: ${describeDecision(last)}`,
    );
  }
  const graph = await findGraph(tx, run.definitionHash);
  const node = graph?.nodes[name];
  if (node === undefined) return failWith('STEP_NOT_FOUND', `run ${run.id} has no step ${name}`);
  if (node.kind !== 'approve') {
    const error = `step ${name} does not wait for approval: it is a ${node.kind} step`;
    return failWith('STEP_NOT_WAITING', error);
  }
  return failWith(
    'STEP_NOT_WAITING',
    `run ${run.id}, which is ${run.status}, has not reached step ${name}`,
  );
}

function ambiguous(name: string, waiting: readonly Step[]): DirectiveEnd {
  const ids = waiting.slice(0, NAMED_MAX).map(({ id }) => id);
  const more = waiting.length > NAMED_MAX ? ', …' : '';
  return failWith(
    'STEP_AMBIGUOUS',
    `step ${name} waits on several branches: ${ids.join(', ')}${more}`,
  );
}
