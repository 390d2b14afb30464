import { bareReport } from './attempt.ts';
import { endReleased } from './outcome.ts';
import type { ClaimedJob } from './types.ts';
import type { Closing } from '../ledger/commit.ts';

/** A claim whose turn did not come here. */
export function releaseUnstarted(job: ClaimedJob): Closing {
  const report = bareReport('released', 'not_started', 'there was no slot for it soon enough');
  const { claimToken, queueMs } = job;
  const ending = endReleased(job);
  return { job, claimToken, report: { ...report, queueMs }, ending, signals: [], jobs: [] };
}
