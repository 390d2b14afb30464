import { limits } from '../../base/limits.ts';
import { bareReport } from '../../job/attempt.ts';
import { endAsCancelled } from '../../job/outcome.ts';
import type { Job } from '../../job/job.ts';
import { defineRows, type Transaction } from '../../ledger/dialect.ts';
import { text } from '../../ledger/row.ts';
import { jobColumns, toJob } from '../../job/job.sql.ts';
import type { Slice } from './copy.sql.ts';
import { settleClosings } from '../../job/settle.sql.ts';

/** What is left to be ended of a run that was cancelled: its root keeps this until all else has ended. */
export interface Sweeping {
  readonly kind: 'sweep';
  /** The last branch that was looked at. */
  readonly after: string;
  /** What was left to be done with the root itself, for a run that goes on with its work. */
  readonly kept: string | null;
}

export interface Swept {
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
  await askToStop(tx, stopping);
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
  const report = bareReport('cancelled', 'cancelled', 'its run was cancelled before it started');
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

export async function askToStop(tx: Transaction, jobIds: readonly string[]): Promise<void> {
  await tx.each(
    requestStop,
    jobIds.map((id) => ({ id })),
  );
}

const requestStop = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('job_queue')} set cancel_requested_at =
      coalesce(job_queue.cancel_requested_at, ${d.now}) ${r.from}
    where job_queue.id = ${r('id')} and job_queue.status = 'running'`,
});

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
