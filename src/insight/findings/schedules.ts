import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import type { Check } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';

/** Finds schedules that will never fire, and schedules whose due times are all skipped. */
export const findIdleSchedules: Check = async ({ ledger, now }) => {
  const rows = await ledger.schedules.list({
    status: ['active', 'exhausted', 'invalid'],
    limit: limits.pageRowsMax,
  });
  return rows.flatMap((row) => describeNever(row) ?? describeSkipped(row, now) ?? []);
};

/** Describes a schedule that will never fire. Undefined if it will, or has fired. */
export function describeNever(row: ScheduleRow): LiveFinding | undefined {
  const reason = findImpossible(row);
  if (reason === undefined) return undefined;
  const { plugin, scheduleId, mode, timing, timezone } = row;
  const key = `${plugin}/${scheduleId}`;
  return {
    kind: 'schedule_never_fires',
    key,
    severity: row.status === 'invalid' ? 'error' : 'warning',
    category: 'schedules',
    message: `The schedule ${key} never fires: ${reason}.`,
    evidence: `${mode} ${timing} (${timezone}), status ${row.status}, no due time ahead`,
    fix: 'Correct the schedule in the configuration, then reload it.',
    commands: [`ductile schedule preview --plugin ${plugin}`, 'ductile system reload'],
    why: key,
    since: row.firstSeenAt,
    detail: { plugin, schedule_id: scheduleId, status: row.status, reason: row.reason },
  };
}

function findImpossible(row: ScheduleRow): string | undefined {
  const { status, reason, mode, nextDueAt, lastFiredAt, firstSeenAt } = row;
  if (status === 'invalid') return describeInvalid(reason);
  const hasFired = lastFiredAt !== null && lastFiredAt >= firstSeenAt;
  if (nextDueAt !== null || hasFired) return undefined;
  if (mode === 'cron') return 'no time of its cron expression is inside its window and days';
  return mode === 'every' ? 'its windows leave no time' : 'its time is over';
}

function describeInvalid(reason: string | null): string {
  if (reason === 'plugin_not_found') return 'its plugin was not found';
  return (
    reason?.replace(/^(\w+): /, (_, code: string) => `${code.replaceAll('_', ' ')}: `) ??
    'it is invalid'
  );
}

/** Describes a schedule whose last due times were all skipped. Undefined if they weren't. */
export function describeSkipped(row: ScheduleRow, now: Timestamp): LiveFinding | undefined {
  const { plugin, scheduleId, status, skippedInRow: count, lastSkipReason } = row;
  const reason = lastSkipReason ?? 'missed';
  if (status !== 'active' || count < limits.checks.skipsMin || otherFindings.has(reason)) {
    return undefined;
  }
  // Quiet hours are skipped every night; only a schedule that has nothing else is a mistake.
  if (reason === 'quiet_hours' && !isQuietForLong(row, now)) return undefined;
  const key = `${plugin}/${scheduleId}`;
  const lastAt = row.lastSkippedAt ?? 'an unknown time';
  const skip = skips[reason] ?? { cause: reason, fix: 'Find out why.', commands: () => [] };
  const fired =
    row.lastFiredAt === null ? 'it has never fired' : `it last fired at ${row.lastFiredAt}`;
  return {
    kind: 'schedule_always_skipped',
    key,
    severity: 'warning',
    category: 'schedules',
    message: `The last ${count} due times of the schedule ${key} passed without a job: ${skip.cause}.`,
    evidence: `skipped ${count} times in a row, last at ${lastAt} (${reason}); ${fired}`,
    fix: skip.fix,
    commands: [...skip.commands(row), `ductile why ${key}`],
    why: key,
    since: row.lastFiredAt ?? row.firstSeenAt,
    count,
    detail: { plugin, schedule_id: scheduleId, reason, job_id: row.lastJobId },
  };
}

/** Reasons that have their own finding: an open breaker, and a suspended tenant. */
const otherFindings: ReadonlySet<string> = new Set(['circuit_open', 'tenant_suspended']);

function isQuietForLong({ lastFiredAt, firstSeenAt }: ScheduleRow, now: Timestamp): boolean {
  const since = lastFiredAt ?? firstSeenAt;
  return fromTimestamp(now) - fromTimestamp(since) >= limits.checks.quietMs;
}

interface SkipGuide {
  readonly cause: string;
  readonly fix: string;
  readonly commands: (row: ScheduleRow) => string[];
}

const none = (): string[] => [];

const skips: Readonly<Record<string, SkipGuide>> = {
  already_running: {
    cause: 'its previous job was still queued or running',
    fix: 'Cancel the job if it hangs; otherwise lengthen the interval or set if_running: queue.',
    commands: ({ lastJobId }) => (lastJobId === null ? [] : [`ductile job cancel ${lastJobId}`]),
  },
  outstanding_limit: {
    cause: 'as many of its jobs wait as may',
    fix: 'Find out why its jobs do not run, or lengthen the interval.',
    commands: () => ['ductile queue'],
  },
  plugin_disabled: {
    cause: 'its plugin is disabled',
    fix: 'Enable the plugin, or remove the schedule.',
    commands: ({ plugin }) => [`ductile plugin enable ${plugin}`],
  },
  plugin_unhealthy: {
    cause: 'the init of its plugin failed',
    fix: 'Fix the cause, then run the init again.',
    commands: ({ plugin }) => [`ductile plugin health ${plugin}`],
  },
  quiet_hours: {
    cause: 'all of them were in its quiet hours',
    fix: 'Move the schedule out of its quiet hours, or change them.',
    commands: ({ plugin }) => [`ductile schedule preview --plugin ${plugin}`],
  },
  missed: {
    cause: 'no service was running at those times',
    fix: 'Keep the service running at those times, or set catch_up: run_once.',
    commands: none,
  },
  tenant_limit: {
    cause: 'the tenant had reached a limit',
    fix: 'Wait until some of its work is done, or raise the limit.',
    commands: none,
  },
};
