import { quoteShell } from '../../base/text.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import {
  toExplanation,
  type Explanation,
  type ExplanationCause,
  type ExplanationFact,
} from './explanation.ts';
import { describeSkip, neverFires, scheduleNeverFires } from '../findings/schedules.ts';
import { toFindingCause } from './finding.ts';
import { listScheduleHolds, type ScheduleFacts } from './schedule-holds.ts';

/** Explains when a schedule fires next, or what holds it back, and what it did last. */
export function explainSchedule(facts: ScheduleFacts): Explanation {
  const { row } = facts;
  const id = `${row.plugin}/${row.scheduleId}`;
  const subject = { kind: 'schedule', id, state: row.status } as const;
  const blockers = listScheduleHolds(facts).map(({ cause }) => cause);
  const [first = describeNextDue(facts), ...others] = blockers;
  const more = [`ductile schedule preview --plugin ${quoteShell(row.plugin)}`];
  const origin = [...describeHistory(facts), describeDefinition(row)];
  return toExplanation(subject, [first, ...others], origin, more, { blockers });
}

function describeNextDue({ row, now }: ScheduleFacts): ExplanationCause {
  const { nextDueAt, timing, mode, timezone } = row;
  const evidence = `${mode} ${timing} (${timezone})`;
  if (neverFires(row)) return toFindingCause(scheduleNeverFires.describe(row));
  if (nextDueAt === null) return { fact: 'it is never due', evidence };
  if (nextDueAt > now) {
    return {
      fact: 'it is not due yet',
      evidence,
      at: nextDueAt,
      movesAt: nextDueAt,
      movesBy: 'it fires then',
    };
  }
  return {
    fact: 'it is due, and fires at the next check',
    evidence,
    at: nextDueAt,
    movesBy: 'the service checks its schedules continuously',
  };
}

/** Describes the last firing and the last skipped due time, newest first. */
function describeHistory({ row, lastJob }: ScheduleFacts): ExplanationFact[] {
  const facts: ExplanationFact[] = [];
  const { lastFiredAt, lastJobId, lastSkippedAt, lastSkipReason } = row;
  if (lastSkippedAt !== null) {
    const reason = lastSkipReason ?? 'unknown';
    facts.push({
      fact: `a due time passed without a job: ${describeSkip(reason)}`,
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
