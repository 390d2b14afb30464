import type { Log } from '../base/log.ts';
import { bareReport } from '../job/attempt.ts';
import { endReleased } from '../job/outcome.ts';
import type { ClaimedJob, Closing, Ledger, RunningClaim } from '../ledger/ledger.ts';
import { nameOf } from './settle.ts';

/**
 * Claims that the ledger counts as ours and nobody here holds: a claim whose answer was lost. They
 * are given back at once; if one was settled meanwhile, its fence makes this a no-op.
 */
export async function releaseUnheld(
  ledger: Ledger,
  unheld: readonly RunningClaim[],
  log: Log,
): Promise<Closing[]> {
  const closings: Closing[] = [];
  for (const { jobId, claimToken } of unheld) {
    const job = await ledger.job(jobId);
    if (job === undefined || job.claimToken !== claimToken) continue;
    log.warn('a claim that nobody holds is given back', nameOf(job));
    const report = bareReport('released', 'unheld', 'the answer to its claim was lost');
    closings.push({ job, claimToken, report, ending: endReleased(job), signals: [], jobs: [] });
  }
  return closings;
}

/** A claim whose turn did not come here. */
export function releaseUnstarted(job: ClaimedJob): Closing {
  const report = bareReport('released', 'not_started', 'there was no slot for it soon enough');
  const { claimToken, queueMs } = job;
  const ending = endReleased(job);
  return { job, claimToken, report: { ...report, queueMs }, ending, signals: [], jobs: [] };
}
