import type { Transaction } from '../../ledger/dialect.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import type { Decision } from './types.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { numberEnds } from './end.sql.ts';
import { toRun, toStep, findGraph, type RunRow } from './load-branch.sql.ts';
import { limits } from '../../base/limits.ts';
import { createBareReport } from '../../job/attempt.ts';
import { endAsCancelled } from '../../job/outcome.ts';
import type { Job } from '../../job/job.ts';
import { jobColumns, toJob } from '../../job/job.sql.ts';
import type { Slice } from './copy.sql.ts';
import { requestCancel } from '../../job/bulk.sql.ts';
import { settleClosings } from '../../job/settle.sql.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { Arrival } from './transition.ts';
import { describeAnswer, type Step } from './run.ts';

/**
 * Ends a run by somebody's will. From then on nothing of it starts and nothing follows; what is queued
 * is cancelled, and what runs is asked to stop. Of a wide run that takes many steps, of which this is
 * the first: whoever advances takes the others.
 */
export async function cancelRun(tx: Transaction, runId: string): Promise<DirectiveEnd> {
  const running = await lockRunning(tx, runId);
  const run = await lockRun(tx, runId);
  if (run === undefined) return noRun(runId);
  const { status } = run;
  if (run.completedAt !== null) {
    return { status: 'completed', result: { run_id: runId, outcome: 'unchanged', was: status } };
  }
  await tx.run(
    `update ${tx.dialect.table('pipeline_runs')} set status = 'cancelled', due_at = null,
      held_key = null, completed_at = ${tx.dialect.now},
      end_tx = ${tx.dialect.newTransaction ?? '?'} where id = ?`,
    [...(await numberEnds(tx)), runId],
  );
  tx.ends?.note(run);
  await requestCancel(tx, running);
  const kept = await takeRoot(tx, runId);
  const { cancelled, stopping, left } = await sweep(tx, runId, { after: runId, kept });
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

/** Whoever moves it on at this moment has lost it. Gives what was left to be done with it. */
async function takeRoot(tx: Transaction, runId: string): Promise<string | null> {
  const [root] = await tx.run(
    `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null
      where id = ? and completed_at is null returning outcome`,
    [runId],
  );
  return textOrNull(root ?? {}, 'outcome');
}

/** Nobody moves the run, ends it or takes it up while this transaction lasts. */
export async function lockRun(tx: Transaction, runId: string): Promise<RunRow | undefined> {
  const [row] = await tx.run(
    `select * from ${tx.dialect.table('pipeline_runs')} where id = ? ${tx.dialect.forUpdate}`,
    [runId],
  );
  return row === undefined ? undefined : toRun(row);
}

export function noRun(runId: string): DirectiveEnd {
  return { status: 'failed', code: 'RUN_NOT_FOUND', error: `there is no run ${runId}` };
}

/** Whoever settles one of its jobs has the job before it asks for the run; so must this one. */
async function lockRunning(tx: Transaction, runId: string): Promise<string[]> {
  const { dialect } = tx;
  // By an expression: SQLite would rather walk over all jobs in their order than sort the few that run.
  const rows = await tx.run(
    `select id from ${dialect.table('job_queue')} where status = 'running' and run_id = ?
      order by seq + 0 ${dialect.forUpdate}`,
    [runId],
  );
  return rows.map((row) => text(row, 'id'));
}

/** What is left to be ended of a run that was cancelled: its root keeps this until all else has ended. */
export interface Sweeping {
  readonly kind: 'sweep';
  /** The last branch that was looked at. */
  readonly after: string;
  /** What was left to be done with the root itself, for a run that goes on with its work. */
  readonly kept: string | null;
}

interface Swept {
  readonly cancelled: number;
  /** Jobs that were found running. */
  readonly stopping: readonly string[];
  /** Undefined when nothing is left. */
  readonly left: Sweeping | undefined;
}

/** The root of a run whose sweeping is not over. */
export function isSweeping(alias: string): string {
  return `coalesce(${alias}.outcome, '') like '{"kind":"sweep"%'`;
}

/**
 * Ends a bounded number of a cancelled run's branches, with their jobs. The root is the last one: as
 * long as it is open, whoever claims it goes on, also after a crash. Nothing of the run starts
 * meanwhile, because nothing of a cancelled run is claimed.
 */
export async function sweep(
  tx: Transaction,
  runId: string,
  { after, kept }: Omit<Sweeping, 'kind'>,
): Promise<Swept> {
  const { dialect } = tx;
  const rows = await tx.run(
    `select id from ${dialect.table('run_branches')} where id > ? and id < ?
      and completed_at is null order by id limit ${limits.sweepBatchMax}`,
    [after, `${runId}~`],
  );
  const ids = rows.map((row) => text(row, 'id'));
  const isLast = ids.length < limits.sweepBatchMax;
  const [first, last] = [ids[0], ids.at(-1)];
  // All that is open between the first and the last of them, and in the end the root.
  const slices: Slice[] = [
    ...(isLast ? [{ first: runId, last: runId }] : []),
    ...(first === undefined || last === undefined ? [] : [{ first, last }]),
  ];
  const open: Job[] = [];
  for (const slice of slices) open.push(...(await openJobs(tx, slice)));
  const queued = open.filter((job) => job.status === 'queued');
  await cancelQueued(tx, queued);
  const stopping = open.filter((job) => job.status === 'running').map(({ id }) => id);
  await requestCancel(tx, stopping);
  for (const slice of slices) await endSlice(tx, runId, slice);
  const left: Sweeping | undefined = isLast
    ? undefined
    : { kind: 'sweep', after: last ?? after, kept };
  if (left === undefined) await restore(tx, runId, kept);
  else await keepSweeping(tx, runId, left);
  return { cancelled: queued.length, stopping, left };
}

async function restore(tx: Transaction, runId: string, kept: string | null): Promise<void> {
  await tx.run(`update ${tx.dialect.table('run_branches')} set outcome = ? where id = ?`, [
    kept,
    runId,
  ]);
}

/** With a claim it is due when the claim may be presumed lost; without one, now. */
async function keepSweeping(tx: Transaction, runId: string, left: Sweeping): Promise<void> {
  const { dialect } = tx;
  const leaseMs = String(limits.branchLeaseMs);
  await tx.run(
    `update ${dialect.table('run_branches')} set status = 'advancing', outcome = ?,
      due_at = case when claim_token is null then ${dialect.now} else ${dialect.nowPlus(leaseMs)} end,
      deadline_at = null, waits_for = null where id = ?`,
    [JSON.stringify(left), runId],
  );
}

/** Locked in the order of their numbers, so that none of them starts meanwhile. */
async function openJobs(tx: Transaction, { first, last }: Slice): Promise<Job[]> {
  const { dialect } = tx;
  const rows = await tx.run(
    `select ${jobColumns} from ${dialect.table('job_queue')} where completed_at is null
      and id in (select job_id from ${dialect.table('run_branches')}
        where id >= ? and id <= ? and status = 'running') order by seq ${dialect.forUpdate}`,
    [first, last],
  );
  return rows.map(toJob);
}

/** They are settled as if they were no steps: their branches are ended here, and not moved on. */
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

/** In one statement each, not one for each branch: of a wide run there are many. */
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

/** As many as a message names. */
const NAMED_MAX = 5;

/** Somebody answers a step that asks: the answer is kept with the branch, and an advancer goes on. */
export async function decide(
  tx: Transaction,
  decision: Decision,
  actor: string,
): Promise<DirectiveEnd> {
  const { runId, step: name, approved, why } = decision;
  const run = await lockRun(tx, runId);
  if (run === undefined) return noRun(runId);
  const asked = await askedSteps(tx, runId, name);
  const waiting = asked.filter(({ status }) => status === 'waiting');
  const [step] = waiting;
  if (step === undefined) return await explainNone(tx, run, name, asked);
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
  if (moved.length === 0) return fail('STEP_NOT_WAITING', `step ${step.node} is decided already`);
  const result = { run_id: runId, step: step.node, step_id: step.id, approved, by: actor, at };
  return { status: 'completed', result };
}

async function askedSteps(tx: Transaction, runId: string, name: string): Promise<Step[]> {
  const rows = await tx.run(
    `select * from ${tx.dialect.table('run_steps')}
      where run_id = ? and kind = 'approve' and (node = ? or id = ?)
      order by case when status = 'waiting' then 0 else 1 end, id limit ?`,
    [runId, name, name, NAMED_MAX + 1],
  );
  return rows.map(toStep);
}

async function explainNone(
  tx: Transaction,
  run: RunRow,
  name: string,
  asked: readonly Step[],
): Promise<DirectiveEnd> {
  const last = asked.at(-1);
  if (last !== undefined) {
    return fail(
      'STEP_NOT_WAITING',
      `step ${last.node} does not wait any more: ${describeAnswer(last)}`,
    );
  }
  const graph = await findGraph(tx, run.definitionHash);
  const node = graph?.nodes[name];
  if (node === undefined) return fail('STEP_NOT_FOUND', `run ${run.id} has no step ${name}`);
  if (node.kind !== 'approve') {
    return fail('STEP_NOT_WAITING', `step ${name} waits for nobody: it is a ${node.kind}`);
  }
  return fail('STEP_NOT_WAITING', `run ${run.id}, which is ${run.status}, did not come to ${name}`);
}

function ambiguous(name: string, waiting: readonly Step[]): DirectiveEnd {
  const ids = waiting.slice(0, NAMED_MAX).map(({ id }) => id);
  const more = waiting.length > NAMED_MAX ? ', …' : '';
  return fail('STEP_AMBIGUOUS', `step ${name} waits on several branches: ${ids.join(', ')}${more}`);
}

function fail(code: ErrorCode, error: string): DirectiveEnd {
  return { status: 'failed', code, error };
}
