import type { Json } from '../../base/json.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { Ending } from '../../job/outcome.ts';
import type { Closing } from '../../ledger/commit.ts';
import { haltReasonOf } from './run.ts';

/** What the end of a job means to the branch that stood still for it; nothing to other jobs. */
type Arriving = Pick<Closing, 'arrival'>;

export function arriveDone(job: Job, events: readonly Json[], result: Json): Arriving {
  return job.branchId === null ? {} : { arrival: { kind: 'done', events, result } };
}

/** While the job is tried again, its branch stands where it is. */
export function arriveFailed(job: Job, ending: Ending, error: string | null): Arriving {
  if (job.branchId === null || !isTerminal(ending.status)) return {};
  const reason = haltReasonOf(ending);
  return { arrival: { kind: 'failed', reason, error: error ?? `the job is ${ending.status}` } };
}
