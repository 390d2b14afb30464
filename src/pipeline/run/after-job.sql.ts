import { makeId } from '../../base/ids.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { Ending } from '../../job/outcome.ts';
import type { Arrival } from './transition.ts';
import { haltReasonOf } from './run.ts';
import { defineRows, together, type Transaction } from '../../ledger/dialect.ts';
import type { Closing } from '../../ledger/commit.ts';
import { noNews, type Advancement, type RunNews } from './types.ts';
import { Effects } from './changes.ts';
import { climb } from './join.sql.ts';
import { moveOn } from './apply.ts';
import { toBranch, toRun, toStands, type BranchRow, type RunRow } from './load-branch.sql.ts';
import { inSavepoint } from '../../ledger/savepoint.ts';
import { text } from '../../ledger/row.ts';

/** The end of the job that a branch stood still for. */
interface JobArrival {
  readonly job: Job;
  readonly runId: string;
  readonly branchId: string;
  readonly arrival: Arrival;
}

/**
 * Moves the branches on whose jobs have ended for good. When that is not possible the jobs have
 * ended all the same, and what they brought is kept for an advancer.
 */
export async function arrive(tx: Transaction, closed: readonly Closing[]): Promise<RunNews> {
  const arrivals = closed.flatMap(toArrival).toSorted((a, b) => (a.branchId < b.branchId ? -1 : 1));
  if (arrivals.length === 0) return noNews;
  const moved = await inSavepoint(tx, (inner) => moveAll(inner, arrivals));
  if (moved.isDone) return moved.value;
  const { error } = moved;
  const left = await tx.each(
    leaveToAdvancer,
    arrivals.map(({ job, branchId, arrival }) => ({
      id: branchId,
      job_id: job.id,
      outcome: JSON.stringify(arrival),
    })),
  );
  const isLeft = new Set(left.map((row) => text(row, 'id')));
  const failed = arrivals.filter(({ branchId }) => isLeft.has(branchId));
  await recordFailures(
    tx,
    failed.map(({ job, runId, branchId }) => {
      return { runId, branchId, node: job.stepId ?? '', processId: job.claimedBy ?? '', error };
    }),
  );
  const failures = failed.map(({ branchId }) => ({ branchId, error }));
  return { ...noNews, advancing: true, failures };
}

/** Whether more than the job's own rows follows from its end. */
export function movesRun({ job, ending, runs }: Closing): boolean {
  if (runs !== undefined && runs.length > 0) return true;
  return job.branchId !== null && isTerminal(ending.status);
}

function toArrival(closing: Closing): JobArrival[] {
  const { job, ending, report } = closing;
  const { runId, branchId } = job;
  if (runId === null || branchId === null || !isTerminal(ending.status)) return [];
  const error = report.error ?? `the job is ${ending.status}`;
  const arrival = closing.arrival ?? arrivalOf(ending, error);
  return [{ job, runId, branchId, arrival }];
}

function arrivalOf(ending: Ending, error: string): Arrival {
  if (ending.status === 'succeeded') return { kind: 'done', events: [], result: null };
  return { kind: 'failed', reason: haltReasonOf(ending), error };
}

async function moveAll(tx: Transaction, arrivals: readonly JobArrival[]): Promise<RunNews> {
  const [runs, branches] = await lockBranches(tx, arrivals);
  const standing = arrivals.flatMap((arrival) => {
    const run = runs.get(arrival.runId);
    const branch = branches.get(arrival.branchId);
    // A run that is over or was cancelled keeps its branches as they are.
    if (run?.status !== 'running' || branch?.status !== 'running') return [];
    return branch.jobId === arrival.job.id ? [{ run, branch, ...arrival }] : [];
  });
  const stands = await toStands(tx, standing);
  const effects = new Effects();
  stands.forEach((stand, index) => {
    const cause = standing[index];
    if (cause !== undefined) moveOn(effects, stand, cause);
  });
  await climb(tx, effects);
  return effects.news;
}

/** Runs first, shared, so that nobody ends or cancels them meanwhile; each kind in its order. */
export async function lockBranches(
  tx: Transaction,
  wanted: readonly { readonly runId: string; readonly branchId: string }[],
): Promise<[Map<string, RunRow>, Map<string, BranchRow>]> {
  const runIds = [...new Set(wanted.map(({ runId }) => runId))].toSorted();
  const branchIds = [...new Set(wanted.map(({ branchId }) => branchId))].toSorted();
  const [runs, branches] = await together(
    tx.each(
      lockRuns,
      runIds.map((id) => ({ id })),
    ),
    tx.each(
      lockOwn,
      branchIds.map((id) => ({ id })),
    ),
  );
  return [
    new Map(runs.map((row) => [text(row, 'id'), toRun(row)])),
    new Map(branches.map((row) => [text(row, 'id'), toBranch(row)])),
  ];
}

const lockRuns = defineRows({
  columns: { id: 'text' },
  key: 'id',
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select p.* from ${d.table('pipeline_runs')} p where p.id ${r.isKey()} order by p.id
        ${d.forShare}`,
    )}`,
});

const lockOwn = defineRows({
  columns: { id: 'text' },
  key: 'id',
  sql: (r, d) =>
    `select q.*, coalesce((select p.payload from ${d.table('run_payloads')} p
        where p.id = q.payload_ref), q.payload) as payload
      from ${r.lateral(
        `select b.* from ${d.table('run_branches')} b where b.id ${r.isKey()} order by b.id
          ${d.forUpdate}`,
      )}`,
});

const leaveToAdvancer = defineRows({
  columns: { id: 'text', job_id: 'text', outcome: 'text' },
  sql: (r, d) => `update ${d.table('run_branches')} set status = 'advancing',
      outcome = ${r('outcome')}, due_at = ${d.now}
    ${r.from}
    where run_branches.id = ${r('id')} and run_branches.job_id = ${r('job_id')}
      and run_branches.status = 'running'
    returning run_branches.id`,
});

/** A try at moving a branch on that failed where its cause was written. */
export async function recordFailures(
  tx: Transaction,
  failures: readonly Pick<Advancement, 'runId' | 'branchId' | 'node' | 'processId' | 'error'>[],
): Promise<void> {
  await tx.each(
    recordFailed,
    failures.map(({ runId, branchId, node, processId, error }) => {
      return {
        id: makeId(),
        run_id: runId,
        branch_id: branchId,
        node,
        process_id: processId,
        error,
      };
    }),
  );
}

const recordFailed = defineRows({
  columns: {
    id: 'text',
    run_id: 'text',
    branch_id: 'text',
    node: 'text',
    process_id: 'text',
    error: 'text',
  },
  sql: (r, d) => `insert into ${d.table('run_advancements')}
    (id, run_id, branch_id, node, process_id, started_at, completed_at, error)
    select ${r('id')}, ${r('run_id')}, ${r('branch_id')}, ${r('node')}, ${r('process_id')},
      ${d.now}, ${d.now}, ${r('error')} ${r.from}`,
});
