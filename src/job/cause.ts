import { DuctileError } from '../base/errors.ts';
import type { JobDraft } from './job.ts';

/**
 * The running job on whose behalf a caller acts. Everything that it starts descends from this job.
 */
export interface JobCause {
  readonly jobId: string;
  readonly rootJobId: string;
  readonly sourceEventId: string | null;
  readonly hops: number;
  readonly runtimeCaused: boolean;
}

type Descent = Pick<JobDraft, 'parentJobId' | 'rootJobId' | 'hops' | 'runtimeCaused'>;

/**
 * Returns the lineage of a job or run that was started on behalf of a job. Empty without a cause.
 */
export function descentOf(cause: JobCause | undefined): Descent {
  if (cause === undefined) return {};
  const { jobId, rootJobId, hops, runtimeCaused } = cause;
  return { parentJobId: jobId, rootJobId, hops: hops + 1, runtimeCaused };
}

/** The prefix of the actor name of a running job. */
export const JOB_ACTOR = 'job:';

/** Throws if a running job tries to make a decision that is reserved for a person. */
export function refuseDecision({ cause }: { readonly cause?: JobCause }, what: string): void {
  if (cause === undefined) return;
  throw new DuctileError('FORBIDDEN', `${what} is for a person to decide, not for a running job`, {
    hint: 'Decide it yourself: `ductile run approve`, or `ductile directive approve`.',
  });
}

/** Throws if a chain of jobs that start each other over the API has reached its limit. */
export function refuseLoop(cause: JobCause | undefined, hopsMax: number): void {
  if (cause === undefined || cause.hops < hopsMax) return;
  const message = `the job ${cause.jobId} is the last in a chain of ${hopsMax}, and may start nothing`;
  throw new DuctileError('HOPS_EXCEEDED', message, { place: 'service.max_hops' });
}
