import { DuctileError } from '../base/errors.ts';
import type { JobDraft } from './job.ts';

/** The running job on whose behalf something is asked for: whatever comes of it descends from it. */
export interface JobCause {
  readonly jobId: string;
  readonly rootJobId: string;
  readonly sourceEventId: string | null;
  readonly hops: number;
  readonly runtimeCaused: boolean;
}

type Descent = Pick<JobDraft, 'parentJobId' | 'rootJobId' | 'hops' | 'runtimeCaused'>;

/** Where a job or a run stands that was asked for in this way; nothing of that without a cause. */
export function descentOf(cause: JobCause | undefined): Descent {
  if (cause === undefined) return {};
  const { jobId, rootJobId, hops, runtimeCaused } = cause;
  return { parentJobId: jobId, rootJobId, hops: hops + 1, runtimeCaused };
}

/** How a running job that asks for something is called. */
export const JOB_ACTOR = 'job:';

/** What waits for a person is not decided by what that person is to look at. */
export function refuseDecision({ cause }: { readonly cause?: JobCause }, what: string): void {
  if (cause === undefined) return;
  throw new DuctileError('FORBIDDEN', `${what} is for a person to decide, not for a running job`, {
    hint: 'Decide it yourself: `ductile run approve`, or `ductile directive approve`.',
  });
}

/** Jobs that start each other over the API come to an end like signals that go in a circle. */
export function refuseLoop(cause: JobCause | undefined, hopsMax: number): void {
  if (cause === undefined || cause.hops < hopsMax) return;
  const message = `the job ${cause.jobId} is the last in a chain of ${hopsMax}, and may start nothing`;
  throw new DuctileError('HOPS_EXCEEDED', message, { place: 'service.max_hops' });
}
