export const breakerStates = ['closed', 'open', 'half_open'] as const;
export type BreakerState = (typeof breakerStates)[number];

export type TransitionReason =
  | 'failure_threshold'
  | 'success'
  | 'cooldown_elapsed'
  | 'manual_reset';

/** The circuit breaker of a (plugin, command), as far as decisions depend on it. */
export interface BreakerFacts {
  readonly state: BreakerState;
  readonly failureCount: number;
  readonly openedMs: number | undefined;
  readonly threshold: number;
  readonly resetAfterMs: number;
  /** Whether the one job that tries a half-open circuit is still under way. */
  readonly isProbing: boolean;
}

/** Whether the scheduler may start a job: freely, as the one probe, or not at all. */
export function permitStart(breaker: BreakerFacts, nowMs: number): 'free' | 'probe' | 'refused' {
  if (breaker.state === 'closed') return 'free';
  if (breaker.state === 'half_open') return breaker.isProbing ? 'refused' : 'probe';
  const { openedMs = nowMs, resetAfterMs } = breaker;
  return nowMs - openedMs >= resetAfterMs ? 'probe' : 'refused';
}

export interface BreakerStep {
  readonly state: BreakerState;
  readonly failureCount: number;
  /** Why the state is another one now. */
  readonly reason: TransitionReason | undefined;
}

/** What the end of a scheduled job does to its breaker. */
export function applyEnd(
  { state, failureCount, threshold }: Pick<BreakerFacts, 'state' | 'failureCount' | 'threshold'>,
  end: 'success' | 'failure',
): BreakerStep {
  if (end === 'success') {
    return { state: 'closed', failureCount: 0, reason: state === 'closed' ? undefined : 'success' };
  }
  const count = failureCount + 1;
  if (state === 'half_open' || (state === 'closed' && count >= threshold)) {
    return { state: 'open', failureCount: count, reason: 'failure_threshold' };
  }
  return { state, failureCount: count, reason: undefined };
}
