import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { bareReport } from './attempt.ts';
import { endReleased } from './outcome.ts';
import type { Closing } from '../ledger/commit.ts';
import type { HeartbeatAnswer, RunningClaim } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Dispatcher } from './dispatcher.service.ts';
import { toLogFields } from './settle.service.ts';

/** What the ledger believes that we run, held against what we do. */
export function compareClaims(
  { running }: HeartbeatAnswer,
  dispatcher: Pick<Dispatcher, 'stopJob' | 'holds' | 'close'>,
  ledger: Ledger,
  log: Log,
): void {
  for (const { jobId, cancelRequested } of running) {
    if (cancelRequested) dispatcher.stopJob(jobId, 'cancelled');
  }
  const unheld = running.filter(({ jobId, claimToken }) => !dispatcher.holds(jobId, claimToken));
  if (unheld.length === 0) return;
  releaseUnheld(ledger, unheld, log).then(
    (closings) => dispatcher.close(closings),
    (error: unknown) => log.warn('unheld claims stay for now', { error: messageOf(error) }),
  );
}

/**
 * Claims that the ledger counts as ours and nobody here holds: a claim whose answer was lost. They
 * are given back at once; if one was settled meanwhile, its fence makes this a no-op.
 */
async function releaseUnheld(
  ledger: Ledger,
  unheld: readonly RunningClaim[],
  log: Log,
): Promise<Closing[]> {
  const closings: Closing[] = [];
  for (const { jobId, claimToken } of unheld) {
    const job = await ledger.job(jobId);
    if (job === undefined || job.claimToken !== claimToken) continue;
    log.warn('a claim that nobody holds is given back', toLogFields(job));
    const report = bareReport('released', 'unheld', 'the answer to its claim was lost');
    closings.push({ job, claimToken, report, ending: endReleased(job), signals: [], jobs: [] });
  }
  return closings;
}
