import type { IfRunning } from './schedule.ts';

/** Why a due time passes without a job. */
export type SkipReason =
  | 'missed'
  | 'quiet_hours'
  | 'already_running'
  | 'outstanding_limit'
  | 'circuit_open'
  | 'plugin_disabled'
  | 'plugin_unhealthy'
  | 'tenant_limit'
  | 'tenant_suspended';

export interface Guard {
  readonly ifRunning: IfRunning;
  /** Queued and running jobs of one schedule that `queue` may add up to. */
  readonly outstandingMax: number;
}

/** What is done about jobs of the same schedule that are not finished yet. */
export function decideOverlap(
  { ifRunning, outstandingMax }: Guard,
  outstanding: number,
): 'fire' | 'cancel' | SkipReason {
  if (outstanding === 0) return 'fire';
  if (ifRunning === 'cancel') return 'cancel';
  if (ifRunning === 'skip') return 'already_running';
  return outstanding < outstandingMax ? 'fire' : 'outstanding_limit';
}
