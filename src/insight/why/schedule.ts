import { quoteShell } from '../../base/text.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import { toExplanation, type Cause, type Explanation, type Fact } from './explanation.ts';
import { listHolds, type ScheduleFacts } from './schedule-holds.ts';

/** Why a schedule fires, does not, or did not the last time. */
export function explainSchedule(facts: ScheduleFacts): Explanation {
  const { row } = facts;
  const id = `${row.plugin}/${row.scheduleId}`;
  const subject = { kind: 'schedule', id, state: row.status } as const;
  const blocks = listHolds(facts).map(({ cause }) => cause);
  const [first = nextDue(facts), ...others] = blocks;
  const more = [`ductile schedule preview --plugin ${quoteShell(row.plugin)}`];
  const origin = [...history(facts), defined(row)];
  return toExplanation(subject, [first, ...others], origin, more, { blockers: blocks });
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
