import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import type { Job } from '../../job/job.ts';
import { isTerminal } from '../../job/state.ts';
import type { BreakerRow, ScheduleRow } from '../../ledger/schedules.ts';
import { quote, toExplanation, type Cause, type Explanation, type Fact } from './answer.ts';
import { houseCauses, pluginCauses, type By, type HouseFacts, type PluginFacts } from './waits.ts';

export interface ScheduleFacts {
  readonly row: ScheduleRow;
  readonly now: Timestamp;
  readonly house: HouseFacts;
  readonly plugin: PluginFacts;
  /** Another host defines it otherwise. */
  readonly isOtherwise: boolean;
  /** What its windows and quiet hours mean for its next time. */
  readonly hours?: Cause | undefined;
  readonly pausedBy?: By | undefined;
  readonly lastJob?: Job | undefined;
  readonly breaker?: BreakerRow | undefined;
}

/** Why a schedule fires, does not, or did not the last time. */
export function explainSchedule(facts: ScheduleFacts): Explanation {
  const { row } = facts;
  const id = `${row.plugin}/${row.scheduleId}`;
  const subject = { kind: 'schedule', id, state: row.status } as const;
  const blocks = row.status === 'active' ? activeCauses(facts) : [inactive(facts)];
  const [first = nextDue(facts), ...others] = blocks;
  const more = [`ductile schedule preview --plugin ${quote(row.plugin)}`];
  return toExplanation(subject, [first, ...others], [...history(facts), defined(row)], more);
}

function inactive({ row, pausedBy }: ScheduleFacts): Cause {
  const named = `${quote(row.plugin)} ${quote(row.scheduleId)}`;
  const reason = row.reason ?? row.status;
  if (row.status === 'paused') {
    const { actor = null, at = null } = pausedBy ?? {};
    return {
      fact: 'it is paused',
      evidence: actor === null ? reason : `paused by ${actor}`,
      at,
      movesBy: 'it goes on when somebody resumes it',
      commands: [`ductile schedule resume ${named}`],
    };
  }
  if (row.status === 'exhausted') {
    return {
      fact: 'it was due only once, and that is over',
      evidence: row.timing,
      at: row.lastFiredAt,
    };
  }
  if (row.status === 'retired') {
    return {
      fact: 'it is not in the configuration any more',
      evidence: reason,
      commands: ['ductile config show'],
    };
  }
  return {
    fact: `it cannot be fired: ${reason}`,
    evidence: `${row.mode} ${row.timing}`,
    commands: ['ductile config check'],
  };
}

function activeCauses(facts: ScheduleFacts): Cause[] {
  const { row, house, plugin, isOtherwise } = facts;
  const causes = [...houseCauses(house), ...tenantCause(house), ...pluginCauses(plugin)];
  if (isOtherwise) {
    causes.push({
      fact: 'another host defines it otherwise, and was loaded later',
      evidence: 'the generation in the ledger is not the one of this configuration',
      commands: ['ductile system reload'],
    });
  }
  causes.push(...breakerCause(facts));
  const { lastJob, hours } = facts;
  if (hours !== undefined) causes.push(hours);
  if (row.mode === 'every' && lastJob !== undefined && !isTerminal(lastJob.status)) {
    causes.push({
      fact: `its interval counts from the end of its last job, which is ${lastJob.status}`,
      evidence: `job ${lastJob.id}`,
      at: lastJob.startedAt ?? lastJob.createdAt,
      movesBy: 'it is due one interval after that job has ended',
      commands: [`ductile why ${lastJob.id}`],
    });
  }
  return causes;
}

function tenantCause({ tenant }: HouseFacts): Cause[] {
  if (tenant?.held !== 'tenant_limit') return [];
  return [
    {
      fact: `the tenant ${tenant.slug} has reached a limit`,
      evidence: 'nothing new is taken in its ledger',
      movesBy: 'it goes on when there is room again',
      commands: [`ductile tenant show ${quote(tenant.slug)}`],
    },
  ];
}

function breakerCause({ row, breaker, now }: ScheduleFacts): Cause[] {
  if (breaker === undefined || breaker.state === 'closed') return [];
  const { openedAt, resetAfterMs, probeJobId } = breaker;
  const reset = [`ductile system reset ${quote(row.plugin)} --command ${quote(row.command)}`];
  const evidence = `${breaker.failureCount} of ${breaker.threshold} failures in a row`;
  if (breaker.state === 'half_open') {
    return [
      {
        fact: `the breaker of ${row.plugin} ${row.command} lets one job through to try it`,
        evidence: probeJobId === null ? evidence : `job ${probeJobId}`,
        movesBy: 'it closes when that job succeeds',
        commands: reset,
      },
    ];
  }
  const until = openedAt === null ? null : toTimestamp(fromTimestamp(openedAt) + resetAfterMs);
  return [
    {
      fact: `the breaker of ${row.plugin} ${row.command} is open`,
      evidence,
      at: openedAt,
      movesAt: until !== null && until < now ? row.nextDueAt : until,
      movesBy: 'the next due time after that tries it with one job',
      commands: reset,
    },
  ];
}

function nextDue({ row, now }: ScheduleFacts): Cause {
  const { nextDueAt, timing, mode, timezone } = row;
  const evidence = `${mode} ${timing} (${timezone})`;
  if (nextDueAt === null) return { fact: 'it is never due', evidence };
  if (nextDueAt > now) {
    return {
      fact: 'its time has not come',
      evidence,
      at: nextDueAt,
      movesAt: nextDueAt,
      movesBy: 'it fires then',
    };
  }
  return {
    fact: 'it is due, and fires as soon as a process looks',
    evidence,
    at: nextDueAt,
    movesBy: 'schedules are looked at all the time',
  };
}

/** What it did last, and why not more. */
function history({ row, lastJob }: ScheduleFacts): Fact[] {
  const facts: Fact[] = [];
  const { lastFiredAt, lastJobId, lastSkippedAt, lastSkipReason } = row;
  if (lastSkippedAt !== null) {
    const reason = lastSkipReason ?? 'unknown';
    facts.push({
      fact: `a due time passed without a job: ${skips[reason] ?? reason}`,
      evidence: reason,
      at: lastSkippedAt,
    });
  }
  if (lastFiredAt === null) facts.push({ fact: 'it has never fired', evidence: 'the ledger' });
  else {
    const became = lastJob === undefined ? (row.lastJobStatus ?? 'gone') : lastJob.status;
    const fact = `it fired, and its job is ${became}`;
    facts.push({ fact, evidence: `job ${lastJobId ?? 'unknown'}`, at: lastFiredAt });
  }
  return facts.toSorted((a, b) => ((a.at ?? '') > (b.at ?? '') ? -1 : 1));
}

const skips: Readonly<Record<string, string>> = {
  missed: 'nobody was there at that time',
  already_running: 'its job from before was not finished',
  outstanding_limit: 'as many of its jobs wait as may',
  circuit_open: 'its breaker was open',
  plugin_disabled: 'its plugin was switched off',
  plugin_unhealthy: 'its plugin was not set up',
  quiet_hours: 'it was in its quiet hours',
  tenant_limit: 'the tenant had reached a limit',
  tenant_suspended: 'the tenant was suspended',
};

function defined({ plugin, command, mode, timing, timezone, firstSeenAt }: ScheduleRow): Fact {
  const fact = `${plugin} ${command} is scheduled: ${mode} ${timing}`;
  return { fact, evidence: `configuration, ${timezone}`, at: firstSeenAt };
}
