import type { Ending } from '../../job/outcome.ts';

/** The reasons why a branch, and with it its run, can't continue. */
export const haltReasons = [
  'retries_exhausted',
  'attempt_failed',
  'crashes_exhausted',
  'advancement_retries_exhausted',
  'advancement_crashes_exhausted',
  'invalid_transition',
  'fanout_limit',
  'unmatched_condition',
  'timeout',
  'rejected',
  'cancelled',
] as const;
export type HaltReason = (typeof haltReasons)[number];

/** Maps the end of a job to the reason why its branch can't continue. */
export function haltReasonOf({ status, reason }: Ending): HaltReason {
  if (status === 'cancelled') return 'cancelled';
  if (status === 'timed_out') return 'timeout';
  if (reason === 'crashes_exhausted' || reason === 'attempt_failed') return reason;
  return 'retries_exhausted';
}

/** A fault that halts a branch, found while its next step is computed. */
export class PipelineFault extends Error {
  readonly reason: HaltReason;

  constructor(message: string, reason: HaltReason = 'invalid_transition') {
    super(message);
    this.name = 'PipelineFault';
    this.reason = reason;
  }
}
