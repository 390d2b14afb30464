import { insertRow } from './insert.ts';
import { switchTable } from '../job/types.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { CancelResult } from '../job/job.ts';
import type { Transaction } from './dialect.ts';
import type { BulkResult, Retry, RetryResult } from '../job/directives.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import type { DirectiveWork } from './directive-work.ts';
import type { PauseRequest } from '../schedule/types.ts';
import type { BreakerRow } from '../schedule/breaker.ts';
import { resetBreakers } from '../schedule/breaker.sql.ts';
import { cancelJob, retryJobs } from '../job/bulk.sql.ts';
import { deleteCredential, setCredential } from '../access/credential.sql.ts';
import { cancelRun, decideStep } from '../pipeline/run/change.sql.ts';
import { changeInstallation, insertInstallation } from '../package/installation.sql.ts';
import { writeMeta } from './meta.ts';
import { reviveRun } from '../pipeline/run/revive.sql.ts';
import { pauseSchedule } from '../schedule/schedule.sql.ts';
import { createToken, revokeToken, rotateToken } from '../access/token.sql.ts';
import { changeWebhook, createWebhook, deleteWebhook } from '../webhook/webhook.sql.ts';

type SqlWork = Exclude<DirectiveWork, { readonly kind: 'process' }>;

/** Executes the SQL work of a directive with the statements of its slice. A failure has written nothing. */
export async function performDirective(
  tx: Transaction,
  work: SqlWork,
  actor: string,
): Promise<DirectiveEnd> {
  if (work.kind === 'refused') return work.end;
  if (work.kind === 'job.cancel') return endCancel(work.jobId, await cancelJob(tx, work.jobId));
  if (work.kind === 'job.retry') return endRetry(work.retry, await retryJobs(tx, [work.retry]));
  if (work.kind === 'plugin.switch') return switchPlugin(tx, work.plugin, work.enabled, actor);
  if (work.kind === 'schedule.pause') return endPause(work, await pauseSchedule(tx, work));
  if (work.kind === 'breaker.reset') return endReset(await resetBreakers(tx, work));
  if (work.kind === 'run.cancel') return cancelRun(tx, work.runId);
  if (work.kind === 'run.revive') return reviveRun(tx, work.revival, actor);
  if (work.kind === 'run.decide') return decideStep(tx, work.decision, actor);
  if (work.kind === 'credential.set') return setCredential(tx, work.credential, actor);
  if (work.kind === 'credential.delete') return deleteCredential(tx, work.name);
  if (work.kind === 'webhook.create') return createWebhook(tx, work.webhook, actor);
  if (work.kind === 'webhook.change') return changeWebhook(tx, work.change, actor);
  if (work.kind === 'webhook.delete') return deleteWebhook(tx, work.webhookId);
  if (work.kind === 'package.install') return insertInstallation(tx, work.installation, actor);
  if (work.kind === 'package.change') return changeInstallation(tx, work.change);
  if (work.kind === 'token.create') return createToken(tx, work.token, actor);
  if (work.kind === 'token.revoke') return revokeToken(tx, work.tokenId);
  if (work.kind === 'token.rotate') return rotateToken(tx, work.tokenId, work.digest);
  await lockClaims(tx);
  await writeMeta(tx, 'paused', work.paused ? '1' : '0');
  return { status: 'completed', result: { paused: work.paused } };
}

function endCancel(jobId: string, answer: CancelResult): DirectiveEnd {
  if (answer === 'unknown') return fail('JOB_NOT_FOUND', `there is no job ${jobId}`);
  return { status: 'completed', result: { job_id: jobId, outcome: answer } };
}

function endRetry({ of }: Retry, { results: [answer] }: BulkResult<RetryResult>): DirectiveEnd {
  if (answer === undefined || answer.kind === 'unknown')
    return fail('JOB_NOT_FOUND', `there is no job ${of}`);
  if (answer.kind === 'open') return fail('JOB_OPEN', `job ${of} has not ended yet`);
  const { kind, jobId } = answer;
  return { status: 'completed', result: { job_id: jobId, retry_of: of, outcome: kind } };
}

function endPause({ plugin, scheduleId, paused }: PauseRequest, changed: boolean): DirectiveEnd {
  return { status: 'completed', result: { plugin, schedule_id: scheduleId, paused, changed } };
}

function endReset(reset: readonly BreakerRow[]): DirectiveEnd {
  const breakers = reset.map(({ plugin, command }) => `${plugin}/${command}`);
  return { status: 'completed', result: { reset: breakers } };
}

async function switchPlugin(
  tx: Transaction,
  plugin: string,
  enabled: boolean,
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
