export const breakerStates = ['closed', 'open', 'half_open'] as const;
export type BreakerState = (typeof breakerStates)[number];

export type TransitionReason =
  | 'failure_threshold'
  | 'success'
  | 'cooldown_elapsed'
  | 'manual_reset';

/** The circuit breaker of a (plugin, command), reduced to what decisions need. */
export interface BreakerFacts {
  readonly state: BreakerState;
  readonly failureCount: number;
  readonly openedMs: number | undefined;
  readonly threshold: number;
  readonly resetAfterMs: number;
  /** Whether the probe of a half-open circuit is still open. */
  readonly isProbing: boolean;
}

/** Decides whether the scheduler may start a job: freely, as the single probe, or not at all. */
export function permitStart(breaker: BreakerFacts, nowMs: number): 'free' | 'probe' | 'refused' {
  if (breaker.state === 'closed') return 'free';
  if (breaker.state === 'half_open') return breaker.isProbing ? 'refused' : 'probe';
  const { openedMs = nowMs, resetAfterMs } = breaker;
  return nowMs - openedMs >= resetAfterMs ? 'probe' : 'refused';
}

export interface BreakerStep {
  readonly state: BreakerState;
  readonly failureCount: number;
  /** The reason for a change of state. Undefined if the state is the same. */
  readonly reason: TransitionReason | undefined;
}

/** Applies the end of a scheduled job to its breaker. */
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
