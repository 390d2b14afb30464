import type { Json } from '../../base/json.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { Ending } from '../../job/outcome.ts';
import { haltReasonOf } from './run.ts';
import type { Arrival } from './transition.ts';

/** The part of a closing that is for the branch which waits for the job. Empty if no branch does. */
type Arriving = { readonly arrival?: Arrival };

export function arriveDone(job: Job, events: readonly Json[], result: Json): Arriving {
  return job.branchId === null ? {} : { arrival: { kind: 'done', events, result } };
}

/** While the job is retried, its branch keeps waiting. */
export function arriveFailed(job: Job, ending: Ending, error: string | null): Arriving {
  if (job.branchId === null || !isTerminal(ending.status)) return {};
  const reason = haltReasonOf(ending);
  return { arrival: { kind: 'failed', reason, error: error ?? `the job is ${ending.status}` } };
}
