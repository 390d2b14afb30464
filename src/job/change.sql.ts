import type { ErrorCode } from '../base/errors.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import type { Transaction } from '../ledger/dialect.ts';
import { insertRow } from '../ledger/insert.ts';
import { writeMeta } from '../ledger/meta.ts';
import { cancelJob, retryJobs } from './bulk.sql.ts';
import type { Retry } from './bulk.ts';
import { switchTable } from './types.ts';

/** Cancels one job, for a directive. */
export async function cancelOneJob(tx: Transaction, jobId: string): Promise<DirectiveEnd> {
  const outcome = await cancelJob(tx, jobId);
  if (outcome === 'unknown') return fail('JOB_NOT_FOUND', `there is no job ${jobId}`);
  return { status: 'completed', result: { job_id: jobId, outcome } };
}

/** Retries one job, for a directive. */
export async function retryOneJob(tx: Transaction, retry: Retry): Promise<DirectiveEnd> {
  const { of } = retry;
  const {
    results: [retried],
  } = await retryJobs(tx, [retry]);
  if (retried === undefined || retried.kind === 'unknown')
    return fail('JOB_NOT_FOUND', `there is no job ${of}`);
  if (retried.kind === 'open') return fail('JOB_OPEN', `job ${of} has not ended yet`);
  const { kind, jobId } = retried;
  return { status: 'completed', result: { job_id: jobId, retry_of: of, outcome: kind } };
}

/** Pauses or resumes the service. */
export async function switchPause(tx: Transaction, paused: boolean): Promise<DirectiveEnd> {
  await lockClaims(tx);
  await writeMeta(tx, 'paused', paused ? '1' : '0');
  return { status: 'completed', result: { paused } };
}

/** Enables or disables a plugin. */
export async function switchPlugin(
  tx: Transaction,
  { plugin, enabled }: { readonly plugin: string; readonly enabled: boolean },
  actor: string,
): Promise<DirectiveEnd> {
  await lockClaims(tx);
  await insertRow(
    tx,
    switchTable,
    { plugin, enabled, changedBy: actor, changedAt: { sql: tx.dialect.now } },
    `on conflict (plugin_name) do update set enabled = excluded.enabled,
      changed_by = excluded.changed_by, changed_at = excluded.changed_at`,
  );
  return { status: 'completed', result: { plugin, enabled } };
}

/** Waits for claims in progress on other hosts; later claims see the change. */
async function lockClaims(tx: Transaction): Promise<void> {
  if (tx.dialect.lockClaims !== undefined) await tx.run(tx.dialect.lockClaims);
}

function fail(code: ErrorCode, error: string): DirectiveEnd {
  return { status: 'failed', code, error };
}
