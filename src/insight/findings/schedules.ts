import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import { defineFinding, shareReading } from '../define-finding.service.ts';

/** `config check` finds the same in the files, and says the same. */
export const QUIET_FIX = 'Move the schedule out of its quiet hours, or change them.';

export const scheduleNeverFires = defineFinding<ScheduleRow>({
  kind: 'schedule_never_fires',
  condition: 'A schedule is invalid, or has never fired and has no due time ahead.',
  rank: { severity: 'warning', category: 'schedules' },
  fix: 'Correct the schedule in the configuration, then reload it.',
  command: 'ductile schedule preview',
  find: async (context) => (await listIdle(context)).filter(neverFires),
  describe(row) {
    const { plugin, scheduleId, mode, timing, timezone, status } = row;
    const key = `${plugin}/${scheduleId}`;
    return {
      key,
      severity: status === 'invalid' ? 'error' : 'warning',
      message: `The schedule ${key} never fires: ${describeImpossible(row)}.`,
      evidence: `${mode} ${timing} (${timezone}), status ${status}, no due time ahead`,
      commands: [`ductile schedule preview --plugin ${plugin}`, 'ductile system reload'],
      why: key,
      since: row.firstSeenAt,
      detail: { plugin, schedule_id: scheduleId, status, reason: row.reason },
    };
  },
});

const listIdle = shareReading(({ ledger }) =>
  ledger.schedules.list({
    status: ['active', 'exhausted', 'invalid'],
    limit: limits.pageRowsMax,
  }),
);

/** Returns whether a schedule can't fire and hasn't. */
export function neverFires({ status, nextDueAt, lastFiredAt, firstSeenAt }: ScheduleRow): boolean {
  const hasFired = lastFiredAt !== null && lastFiredAt >= firstSeenAt;
  return status === 'invalid' || (nextDueAt === null && !hasFired);
}

function describeImpossible({ status, reason, mode }: ScheduleRow): string {
  if (status === 'invalid') return describeInvalid(reason);
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

export const scheduleAlwaysSkipped = defineFinding<ScheduleRow>({
  kind: 'schedule_always_skipped',
  condition: 'The last 3 or more due times of a schedule passed without a job.',
  rank: { severity: 'warning', category: 'schedules' },
  fix: 'Find out why.',
  command: 'ductile why PLUGIN/SCHEDULE',
  find: async (context) =>
    (await listIdle(context)).filter(
      (row) => !neverFires(row) && isAlwaysSkipped(row, context.now),
    ),
  describe(row) {
    const { plugin, scheduleId, skippedInRow: count } = row;
    const key = `${plugin}/${scheduleId}`;
    const reason = row.lastSkipReason ?? 'missed';
    const { fix, commands = () => [] } = skips[reason] ?? {};
    const lastAt = row.lastSkippedAt ?? 'an unknown time';
    const fired =
      row.lastFiredAt === null ? 'it has never fired' : `it last fired at ${row.lastFiredAt}`;
    return {
      key,
      message: `The last ${count} due times of the schedule ${key} passed without a job: ${describeSkip(reason)}.`,
      evidence: `skipped ${count} times in a row, last at ${lastAt} (${reason}); ${fired}`,
      ...(fix === undefined ? {} : { fix }),
      commands: [...commands(row), `ductile why ${key}`],
      why: key,
      since: row.lastFiredAt ?? row.firstSeenAt,
      count,
      detail: { plugin, schedule_id: scheduleId, reason, job_id: row.lastJobId },
    };
  },
});

/** Returns whether the last due times were all skipped, for a reason without a finding of its own. */
export function isAlwaysSkipped(row: ScheduleRow, now: Timestamp): boolean {
  const reason = row.lastSkipReason ?? 'missed';
  const isReported = row.status === 'active' && row.skippedInRow >= limits.checks.skipsMin;
  if (!isReported || skips[reason]?.hasFinding === true) return false;
  // Quiet hours are skipped every night; only a schedule that has nothing else is a mistake.
  return reason !== 'quiet_hours' || isQuietForLong(row, now);
}

function isQuietForLong({ lastFiredAt, firstSeenAt }: ScheduleRow, now: Timestamp): boolean {
  const since = lastFiredAt ?? firstSeenAt;
  return fromTimestamp(now) - fromTimestamp(since) >= limits.checks.quietMs;
}

interface SkipGuide {
  readonly cause: string;
  readonly fix?: string;
  readonly commands?: (row: ScheduleRow) => string[];
  /** The reason has a finding of its own. */
  readonly hasFinding?: true;
}

const skips: Readonly<Record<string, SkipGuide>> = {
  already_running: {
    cause: 'its previous job was still queued or running',
    fix: 'Cancel the job if it hangs; otherwise lengthen the interval or set if_running: queue.',
    commands: ({ lastJobId }) => (lastJobId === null ? [] : [`ductile job cancel ${lastJobId}`]),
  },
  outstanding_limit: {
    cause: 'its limit of outstanding jobs was reached',
    fix: 'Find out why its jobs do not run, or lengthen the interval.',
    commands: () => ['ductile queue'],
  },
  circuit_open: { cause: 'its breaker was open', hasFinding: true },
  plugin_disabled: {
    cause: 'its plugin was disabled',
    fix: 'Enable the plugin, or remove the schedule.',
    commands: ({ plugin }) => [`ductile plugin enable ${plugin}`],
  },
  plugin_unhealthy: {
    cause: 'the init of its plugin failed',
    fix: 'Fix the cause, then run the init again.',
    commands: ({ plugin }) => [`ductile plugin health ${plugin}`],
  },
  quiet_hours: {
    cause: 'it was in its quiet hours',
    fix: QUIET_FIX,
    commands: ({ plugin }) => [`ductile schedule preview --plugin ${plugin}`],
  },
  missed: {
    cause: 'no service was running',
    fix: 'Keep the service running at those times, or set catch_up: run_once.',
  },
  tenant_limit: {
    cause: 'the tenant had reached a limit',
    fix: 'Wait until some of its work is done, or raise the limit.',
  },
  tenant_suspended: { cause: 'the tenant was suspended', hasFinding: true },
};

/** Describes why a due time was skipped. */
export function describeSkip(reason: string): string {
  return skips[reason]?.cause ?? reason;
}

export const scheduleRedefined = defineFinding<Pick<ScheduleRow, 'plugin' | 'scheduleId'>>({
  kind: 'schedule_redefined',
  condition: 'A host that loaded its configuration later defines the same schedule differently.',
  rank: { severity: 'warning', category: 'schedules' },
  fix: 'Give all hosts the same configuration, then reload it.',
  isHold: true,
  command: 'ductile system reload',
  describe: ({ plugin, scheduleId }) => ({
    key: `${plugin}/${scheduleId}`,
    message: `Another host defines the schedule ${plugin}/${scheduleId} differently, and loaded it later.`,
    evidence: 'the generation in the ledger is not the one of this configuration',
    commands: ['ductile system reload'],
  }),
});
