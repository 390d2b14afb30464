import { quoteShell } from '../../base/text.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import type { BreakerRow } from '../../schedule/breaker.ts';
import {
  toExplanation,
  type ExplanationCause,
  type Explanation,
  type ExplanationFact,
} from './explanation.ts';
import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import { findNextStart } from '../../schedule/preview.ts';
import type { TimedSchedule } from '../../schedule/plan.ts';
import type { DirectiveAuthor, ServiceFacts, PluginFacts } from './wait-facts.ts';
import { listServiceCauses, orderRepairs, listPluginCauses } from './waits.ts';

/** Why a schedule fires, does not, or did not the last time. */
export function explainSchedule(facts: ScheduleFacts): Explanation {
  const { row } = facts;
  const id = `${row.plugin}/${row.scheduleId}`;
  const subject = { kind: 'schedule', id, state: row.status } as const;
  const blocks = listScheduleHolds(facts).map(({ cause }) => cause);
  const [first = describeNextDue(facts), ...others] = blocks;
  const more = [`ductile schedule preview --plugin ${quoteShell(row.plugin)}`];
  const origin = [...describeHistory(facts), describeDefinition(row)];
  return toExplanation(subject, [first, ...others], origin, more, { blockers: blocks });
}

function describeNextDue({ row, now }: ScheduleFacts): ExplanationCause {
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
function describeHistory({ row, lastJob }: ScheduleFacts): ExplanationFact[] {
  const facts: ExplanationFact[] = [];
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

function describeDefinition({
  plugin,
  command,
  mode,
  timing,
  timezone,
  firstSeenAt,
}: ScheduleRow): ExplanationFact {
  const fact = `${plugin} ${command} is scheduled: ${mode} ${timing}`;
  return { fact, evidence: `configuration, ${timezone}`, at: firstSeenAt };
}

export interface ScheduleFacts {
  readonly row: ScheduleRow;
  readonly now: Timestamp;
  readonly service: ServiceFacts;
  readonly plugin: PluginFacts;
  /** Another host defines it otherwise. */
  readonly isDefinedElsewhere: boolean;
  /** Its times by the configuration; undefined when it isn't in there. */
  readonly timed?: TimedSchedule | undefined;
  /** What its windows and quiet hours mean for its next time. */
  readonly hours?: ExplanationCause | undefined;
  readonly pausedBy?: DirectiveAuthor | undefined;
  readonly lastJob?: Pick<Job, 'id' | 'status' | 'startedAt' | 'createdAt'> | undefined;
  readonly breaker?: BreakerRow | undefined;
}

export const holdKinds = [
  'status',
  'service',
  'tenant',
  'plugin',
  'configuration',
  'breaker',
  'hours',
  'job',
] as const;

/** A reason why a schedule does not start a job at its due time. */
export interface ScheduleHold {
  readonly kind: (typeof holdKinds)[number];
  readonly cause: ExplanationCause;
}

/** Lists what keeps a schedule from starting, in the order of repair. */
export function listScheduleHolds(facts: ScheduleFacts): ScheduleHold[] {
  if (facts.row.status !== 'active') return [{ kind: 'status', cause: describeInactive(facts) }];
  const of = (kind: ScheduleHold['kind'], causes: readonly ExplanationCause[]): ScheduleHold[] =>
    causes.map((cause) => ({ kind, cause }));
  return [
    ...orderHolds([
      ...of('service', listServiceCauses(facts.service)),
      ...of('tenant', tenantCause(facts.service)),
      ...of('plugin', listPluginCauses(facts.plugin)),
    ]),
    ...of('configuration', listConfigCauses(facts)),
    ...of('breaker', breakerCause(facts)),
    ...of('hours', facts.hours === undefined ? [] : [facts.hours]),
    ...of('job', openJobCause(facts)),
  ];
}

function orderHolds(holds: readonly ScheduleHold[]): ScheduleHold[] {
  const kinds = new Map(holds.map(({ kind, cause }) => [cause.fact, kind]));
  const causes = orderRepairs(holds.map(({ cause }) => cause));
  return causes.map((cause) => ({ kind: kinds.get(cause.fact) ?? 'service', cause }));
}

/** When the schedule really starts next: null when that depends on something without a time. */
export function readNextStart({ row, now }: ScheduleFacts, holds: readonly ScheduleHold[]) {
  if (row.status !== 'active') return null;
  const times = holds.map(({ cause }) => cause.movesAt ?? null);
  if (times.includes(null)) return null;
  const latest = times.flatMap((at) => at ?? []).toSorted();
  return latest.at(-1) ?? (row.nextDueAt === null || row.nextDueAt > now ? row.nextDueAt : now);
}

function describeInactive({ row, pausedBy }: ScheduleFacts): ExplanationCause {
  const named = `${quoteShell(row.plugin)} ${quoteShell(row.scheduleId)}`;
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

function listConfigCauses({ isDefinedElsewhere }: ScheduleFacts): ExplanationCause[] {
  if (!isDefinedElsewhere) return [];
  return [
    {
      fact: 'another host defines it otherwise, and was loaded later',
      evidence: 'the generation in the ledger is not the one of this configuration',
      commands: ['ductile system reload'],
    },
  ];
}

function openJobCause({ row, lastJob }: ScheduleFacts): ExplanationCause[] {
  if (row.mode !== 'every' || lastJob === undefined || isTerminal(lastJob.status)) return [];
  return [
    {
      fact: `its interval counts from the end of its last job, which is ${lastJob.status}`,
      evidence: `job ${lastJob.id}`,
      at: lastJob.startedAt ?? lastJob.createdAt,
      movesBy: 'it is due one interval after that job has ended',
      commands: [`ductile why ${lastJob.id}`],
    },
  ];
}

function tenantCause({ tenant }: ServiceFacts): ExplanationCause[] {
  if (tenant?.held !== 'tenant_limit') return [];
  return [
    {
      fact: `the tenant ${tenant.slug} has reached a limit`,
      evidence: 'nothing new is taken in its ledger',
      movesBy: 'it goes on when there is room again',
      commands: [`ductile tenant show ${quoteShell(tenant.slug)}`],
    },
  ];
}

function breakerCause(facts: ScheduleFacts): ExplanationCause[] {
  const { row, breaker } = facts;
  if (breaker === undefined || breaker.state === 'closed') return [];
  const { openedAt, resetAfterMs, probeJobId } = breaker;
  const reset = [
    `ductile system reset ${quoteShell(row.plugin)} --command ${quoteShell(row.command)}`,
  ];
  const evidence = `${breaker.failureCount} of ${breaker.threshold} failures in a row`;
  if (breaker.state === 'half_open') {
    if (probeJobId === null) return [];
    return [
      {
        fact: `the breaker of ${row.plugin} ${row.command} lets one job through to try it`,
        evidence: `job ${probeJobId}`,
        movesBy: 'it closes when that job succeeds',
        commands: reset,
      },
    ];
  }
  const until = openedAt === null ? null : fromTimestamp(openedAt) + resetAfterMs;
  return [
    {
      fact: `the breaker of ${row.plugin} ${row.command} is open`,
      evidence,
      at: openedAt,
      movesAt: until === null ? null : startAfter(facts, until),
      movesBy: 'it starts one job then, at the first due time at which the breaker allows a probe',
      commands: reset,
    },
  ];
}

/** The first start from a moment on; a schedule that isn't configured here keeps its due time. */
function startAfter({ row, timed, now }: ScheduleFacts, untilMs: number): Timestamp | null {
  const { nextSlotAt: slotAt, nextDueAt: dueAt, seq } = row;
  if (dueAt === null) return null;
  const notBefore = Math.max(untilMs, fromTimestamp(now));
  if (timed === undefined || slotAt === null) {
    return fromTimestamp(dueAt) >= notBefore ? dueAt : toTimestamp(notBefore);
  }
  const state = { seq, slotMs: fromTimestamp(slotAt), dueMs: fromTimestamp(dueAt) };
  const start = findNextStart(timed, state, notBefore);
  return start === undefined ? null : toTimestamp(start);
}
