import { fromTimestamp } from '../base/clock.ts';
import { columnOf, table, type RowOf } from '../ledger/table.ts';

export const breakerStates = ['closed', 'open', 'half_open'] as const;
export type BreakerState = (typeof breakerStates)[number];

type TransitionReason = 'failure_threshold' | 'success' | 'cooldown_elapsed' | 'manual_reset';

export interface BreakerFilter {
  readonly plugin?: string;
  readonly command?: string;
}

/** The circuit breakers of commands of plugins. They hold back schedules after failures in a row. */
export const breakerTable = table('circuit_breakers', {
  plugin: 'text',
  command: 'text',
  state: columnOf<BreakerState>('text'),
  failureCount: 'int',
  openedAt: 'time?',
  lastFailureAt: 'time?',
  lastJobId: 'text?',
  probeJobId: 'text?',
  threshold: 'int',
  resetAfterMs: 'int',
  updatedAt: 'time',
});

export type BreakerRow = RowOf<typeof breakerTable>;

/** The changes of state of breakers. */
export const transitionTable = table('circuit_breaker_transitions', {
  id: 'text',
  plugin: 'text',
  command: 'text',
  fromState: columnOf<BreakerState | null>('text?'),
  toState: columnOf<BreakerState>('text'),
  failureCount: 'int',
  reason: columnOf<TransitionReason>('text'),
  jobId: 'text?',
  createdAt: 'time',
});

export type TransitionRow = RowOf<typeof transitionTable>;

/** The part of a breaker that decides whether a job may start. */
export interface BreakerFacts {
  readonly state: BreakerState;
  readonly failureCount: number;
  readonly openedMs: number | undefined;
  readonly threshold: number;
  readonly resetAfterMs: number;
  /** The probe of a half-open circuit is still open. */
  readonly isProbing: boolean;
}

/** Reduces a row to its facts. `openJobs` contains the id of the probe if that job is still open. */
export function toBreakerFacts(row: BreakerRow, openJobs: ReadonlySet<string>): BreakerFacts {
  return {
    state: row.state,
    failureCount: row.failureCount,
    openedMs: row.openedAt === null ? undefined : fromTimestamp(row.openedAt),
    threshold: row.threshold,
    resetAfterMs: row.resetAfterMs,
    isProbing: row.probeJobId !== null && openJobs.has(row.probeJobId),
  };
}

/** Decides whether the scheduler may start a job: freely, as the single probe, or not at all. */
export function permitStart(breaker: BreakerFacts, nowMs: number): 'free' | 'probe' | 'refused' {
  if (breaker.state === 'closed') return 'free';
  if (breaker.state === 'half_open') return breaker.isProbing ? 'refused' : 'probe';
  const { openedMs = nowMs, resetAfterMs } = breaker;
  return nowMs - openedMs >= resetAfterMs ? 'probe' : 'refused';
}

interface BreakerStep {
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
