import { limits } from '../../base/limits.ts';
import type { Signal } from '../../signal/signal.ts';
import type { Session } from '../../ledger/dialect.ts';
import type { StepJob } from './types.ts';
import { textOrNull } from '../../ledger/row.ts';
import { toSignal } from '../../signal/signal.sql.ts';

/**
 * Finds the signal whose payload a step continues with: the one that started the run for the first
 * step, else the only event of the step before it. A branch that was begun for one of several events
 * has its own.
 */
export async function findStepSignal(
  session: Session,
  { idempotencyKey, ...place }: StepJob,
): Promise<Signal | undefined> {
  let { parentJobId } = place;
  for (let back = 0; back <= limits.revivalsFollowedMax; back += 1) {
    const signal = await findSignal(session, { ...place, parentJobId });
    if (signal !== undefined || parentJobId === null) return signal;
    // The parent of a revived step's job is the job of the same step that failed.
    const [earlier] = await session.run(
      `select parent_job_id from ${session.dialect.table('job_queue')}
        where id = ? and idempotency_key = ?`,
      [parentJobId, idempotencyKey],
    );
    if (earlier === undefined) return undefined;
    parentJobId = textOrNull(earlier, 'parent_job_id');
  }
  return undefined;
}

async function findSignal(
  session: Session,
  { runId, branchId, parentJobId }: Omit<StepJob, 'idempotencyKey'>,
): Promise<Signal | undefined> {
  const { dialect } = session;
  const [runs, branches, signals] = [
    dialect.table('pipeline_runs'),
    dialect.table('run_branches'),
    dialect.table('signals'),
  ];
  // A step with no task before it in its run has the parent of the run as its own.
  const isFirst = `r.id = ? and coalesce(r.parent_job_id, '') = ?`;
  const indexInBlock = `select b.idx from ${branches} b join ${branches} p on p.id = b.parent_id
    where b.id = ? and p.block = 'events' and p.job_id = ?`;
  const parent = parentJobId ?? '';
  const [row] = await session.run(
    `select s.* from ${signals} s where s.id = coalesce(
      (select r.source_event_id from ${runs} r where ${isFirst}),
      (select e.id from ${signals} e
        where e.job_id = ? and e.event_index = coalesce((${indexInBlock}), 0)
          and not exists (select 1 from ${runs} r where ${isFirst})
          and (exists (${indexInBlock}) or not exists (select 1 from ${signals} o
            where o.job_id = ? and o.event_index = 1))))`,
    [runId, parent, parent, branchId, parent, runId, parent, branchId, parent, parent],
  );
  return row === undefined ? undefined : toSignal(row);
}
