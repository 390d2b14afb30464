import { limits } from '../base/limits.ts';
import type { Job } from '../job/job.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import { formatDuration } from '../base/quantity.ts';

/** The durations of the last successful attempts of a command. */
export interface UsualDuration {
  readonly medianMs: number;
  /** The duration that 95 % of the attempts stay below. */
  readonly p95Ms: number;
  readonly attempts: number;
}

/** Reads the usual duration of a job's command. Undefined if there are too few attempts. */
export async function readUsualDuration(
  ledger: LedgerSubset<'jobs.listDurations'>,
  { plugin, command }: Pick<Job, 'plugin' | 'command'>,
): Promise<UsualDuration | undefined> {
  return toUsualDuration(await ledger.jobs.listDurations({ plugin, command }));
}

/** Sums up durations. Undefined if there are too few. */
export function toUsualDuration(runMs: readonly number[]): UsualDuration | undefined {
  if (runMs.length < limits.checks.usualAttemptsMin) return undefined;
  const sorted = runMs.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
  return { medianMs: at(0.5), p95Ms: at(0.95), attempts: sorted.length };
}

/** Returns from when on a running job counts as overlong. A command without a history gets more time. */
export function overlongAfterMs(usual: UsualDuration | undefined): number {
  const { overlongMinMs, overlongUnknownMs, overlongFactor } = limits.checks;
  if (usual === undefined) return overlongUnknownMs;
  return Math.max(overlongMinMs, usual.p95Ms * overlongFactor);
}

/** The start of a running attempt, and the usual duration of its command. */
export interface ProgressFacts {
  readonly now: Timestamp;
  readonly startedAt: Timestamp;
  /** When the attempt last caused a signal or a job. */
  readonly lastRecordAt: Timestamp | undefined;
  readonly usual: UsualDuration | undefined;
}

export interface Progress {
  readonly runningMs: number;
  readonly silentMs: number;
  readonly isOverlong: boolean;
  /** A sentence without a capital letter and full stop. */
  readonly text: string;
}

export function describeProgress({ now, startedAt, lastRecordAt, usual }: ProgressFacts): Progress {
  const nowMs = fromTimestamp(now);
  const runningMs = Math.max(0, nowMs - fromTimestamp(startedAt));
  const latestAt =
    lastRecordAt !== undefined && lastRecordAt > startedAt ? lastRecordAt : startedAt;
  const silentMs = Math.max(0, nowMs - fromTimestamp(latestAt));
  const silence = latestAt === startedAt ? 'since it started' : `for ${roundDuration(silentMs)}`;
  const text =
    `it has run for ${roundDuration(runningMs)} and recorded nothing ${silence}; ` +
    describeUsual(usual);
  return { runningMs, silentMs, isOverlong: runningMs >= overlongAfterMs(usual), text };
}

export function describeUsual(
  usual: UsualDuration | undefined,
  [owner, parts]: readonly [string, string] = ['command', 'attempts'],
): string {
  if (usual === undefined) return `too few ${parts} of its ${owner} have succeeded to compare with`;
  const { medianMs, p95Ms, attempts } = usual;
  return (
    `its ${owner} usually takes ${roundDuration(medianMs)} ` +
    `(95 % of the last ${attempts} ${parts}: at most ${roundDuration(p95Ms)})`
  );
}

/** Formats a duration in at most two units, without small fractions. */
export function roundDuration(ms: number): string {
  const unit = ms >= HOUR_MS ? MINUTE_MS : ms >= MINUTE_MS ? SECOND_MS : ms >= SECOND_MS ? 100 : 1;
  return formatDuration(Math.max(0, Math.round(ms / unit) * unit));
}

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
