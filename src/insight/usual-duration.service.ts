import { limits } from '../base/limits.ts';
import type { Job } from '../job/job.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** How long the last successful attempts of a command took. */
export interface UsualDuration {
  readonly medianMs: number;
  /** The duration that 95 % of the attempts stay below. */
  readonly p95Ms: number;
  readonly attempts: number;
}

/** Reads the usual duration of a job's command; undefined without enough attempts to tell. */
export async function readUsualDuration(
  ledger: Pick<Ledger, 'runDurations'>,
  { plugin, command }: Pick<Job, 'plugin' | 'command'>,
): Promise<UsualDuration | undefined> {
  return toUsualDuration(await ledger.runDurations({ plugin, command }));
}

/** Sums up durations; undefined when they are too few to tell. */
export function toUsualDuration(runMs: readonly number[]): UsualDuration | undefined {
  if (runMs.length < limits.checks.usualAttemptsMin) return undefined;
  const sorted = runMs.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
  return { medianMs: at(0.5), p95Ms: at(0.95), attempts: sorted.length };
}

/** From when on a running job counts as overlong. A command without a history gets more time. */
export function overlongAfterMs(usual: UsualDuration | undefined): number {
  const { overlongMinMs, overlongUnknownMs, overlongFactor } = limits.checks;
  if (usual === undefined) return overlongUnknownMs;
  return Math.max(overlongMinMs, usual.p95Ms * overlongFactor);
}
