import type { Transaction } from '../../ledger/dialect.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { numberEnds } from './end.sql.ts';
import { toRun, type RunRow } from './run-row.sql.ts';
import { askToStop, sweep } from './sweep.sql.ts';

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
  await askToStop(tx, running);
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
