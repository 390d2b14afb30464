import { fromTimestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import type { JobDraft } from '../job/job.ts';
import type { DueSchedule, Firing, NextDue } from './types.ts';
import type { SkipReason } from './schedule.ts';
import { allowedFrom, planDue, type Plan } from './plan.ts';
import { toNextDue, type Entry } from './timetable.service.ts';

/** Why nothing of a plugin is fired for the time being. */
export type Held = Extract<
  SkipReason,
  'plugin_disabled' | 'plugin_unhealthy' | 'tenant_limit' | 'tenant_suspended'
>;

interface Times {
  readonly nowMs: number;
  readonly graceMs: number;
}

/** What is asked of the ledger for a schedule that has come due. */
export function makeFiring(entry: Entry, due: DueSchedule, times: Times, held?: Held): Firing {
  const plan = planDue(entry.timed, toState(due), times.nowMs, times.graceMs);
  if (held === 'plugin_unhealthy' && plan.kind === 'fire') {
    return waitForPlugin(entry, due, times.nowMs);
  }
  const { command } = entry.timed.schedule;
  const next = plan.next === undefined ? undefined : toNextDue(plan.next);
  const again = { slotAt: due.slotAt, dueAt: toNextDueAt(times.nowMs + times.graceMs) };
  return {
    due,
    command,
    next,
    nextIfSkipped: next ?? again,
    act:
      held === undefined || plan.kind === 'wait' ? act(entry, due, plan, times.nowMs) : skip(held),
  };
}

function act(entry: Entry, due: DueSchedule, plan: Plan, nowMs: number): Firing['act'] {
  if (plan.kind === 'wait') {
    return { kind: 'wait', ...(plan.reason === undefined ? {} : { reason: plan.reason }) };
  }
  if (plan.kind === 'skip') return skip(plan.reason);
  const { timed, settings } = entry;
  return {
    kind: 'fire',
    jobs: plan.slots.map((_, index) => toJob(entry, due.seq + index)),
    guard: {
      ifRunning: timed.schedule.ifRunning,
      outstandingMax: settings.maxOutstandingPolls,
    },
    breaker: settings.circuitBreaker,
    needsLastUnchanged: timed.schedule.timing.mode === 'every',
    ifBusy: plan.isMissed === true ? soon(due, nowMs) : undefined,
  };
}

function skip(reason: SkipReason): Firing['act'] {
  return { kind: 'skip', reason };
}

/**
 * Until its plugin is set up, nothing comes. What is made up for keeps its slot; so does a time of
 * the clock, which passes as soon as it counts as missed. An interval without `catch_up` goes on
 * from when the plugin is well.
 */
function waitForPlugin({ timed }: Entry, due: DueSchedule, nowMs: number): Firing {
  const { timing, command, catchUp } = timed.schedule;
  const allowedMs = allowedFrom(timed, nowMs + limits.scheduleRetryMs);
  const next =
    timing.mode === 'every' && catchUp === 'skip'
      ? toNextDue({ slotMs: allowedMs, dueMs: allowedMs })
      : soon(due, nowMs);
  const reason = 'plugin_unhealthy';
  return { due, command, next, nextIfSkipped: next, act: { kind: 'wait', reason } };
}

/** The same slot, to be looked at again in a moment. */
function soon({ slotAt }: DueSchedule, nowMs: number): NextDue {
  return { slotAt, dueAt: toNextDueAt(nowMs + limits.scheduleRetryMs) };
}

function toNextDueAt(ms: number): string {
  return toNextDue({ slotMs: ms, dueMs: ms }).dueAt;
}

function toState(due: DueSchedule): Parameters<typeof planDue>[1] {
  const { seq, slotAt, dueAt, lastCompletedAt } = due;
  return {
    seq,
    slotMs: fromTimestamp(slotAt),
    dueMs: fromTimestamp(dueAt),
    completedMs: lastCompletedAt === null ? undefined : fromTimestamp(lastCompletedAt),
  };
}

function toJob({ timed, payload, maxAttempts }: Entry, seq: number): JobDraft {
  const { plugin, schedule, generation } = timed;
  return {
    id: makeId(),
    plugin,
    command: schedule.command,
    payload,
    submittedBy: 'scheduler',
    actor: `schedule:${plugin}/${schedule.id}`,
    maxAttempts,
    schedule: { id: schedule.id, slot: `${generation}:${seq}` },
    ...(schedule.dependency === undefined ? {} : { dependencyKey: schedule.dependency }),
  };
}
