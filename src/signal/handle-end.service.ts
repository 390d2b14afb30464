import type { Json, JsonObject } from '../base/json.ts';
import { maskText } from '../base/secrets.ts';
import type { Job } from '../job/job.ts';
import { RUNTIME_SOURCE, type SignalDraft } from './signal.ts';
import {
  addFollowers,
  causedBy,
  END_INDEX,
  followEvents,
  makeBreakerFollower,
  noConsequences,
  type Consequences,
  type EmittedEvent,
  type FollowRules,
} from './handle.service.ts';
import type { Keep } from './seal.service.ts';

/** What a succeeded attempt leads to: its events, and the signal about it if its plugin wants one. */
export function followSuccess(
  job: Job,
  reply: { readonly result: string; readonly events: readonly EmittedEvent[] },
  rules: FollowRules,
  nowMs: number,
  keep?: Keep,
): Consequences {
  const result = followEvents(job, reply.events, rules, nowMs, keep);
  if (!isNotified(job, rules)) return result;
  const text = maskText(reply.result);
  const message = `Job ${job.id} (${job.plugin} ${job.command}) succeeded: ${text}`;
  const end = { status: 'succeeded', result: text };
  addEnd(result, job, 'job.succeeded', { message, end }, rules, nowMs);
  return result;
}

/** The signal that a job ended for good without success, for routes to catch. */
export function followDeath(
  job: Job,
  end: { readonly status: string; readonly reason: string | null; readonly error: string | null },
  rules: FollowRules,
  nowMs: number,
): Consequences {
  const { status, reason } = end;
  const error = end.error === null ? null : maskText(end.error);
  const followed = makeBreakerFollower(job, rules, nowMs);
  const result: Consequences = { ...noConsequences(), ...followed };
  const why = error ?? reason ?? 'no error was recorded';
  const message = `Job ${job.id} (${job.plugin} ${job.command}) ended as ${status}: ${why}`;
  addEnd(result, job, 'job.dead', { message, end: { status, reason, error } }, rules, nowMs);
  return result;
}

/** A step of a run is not reported by itself: the run goes on. */
function isNotified(job: Job, { notifying }: FollowRules): boolean {
  return job.runId === null && notifying?.has(job.plugin) === true;
}

/**
 * Adds the signal about the end of a job, and what follows from it. When the job itself descends from
 * a signal of the runtime, the signal is recorded and not routed: alarms about alarms end here.
 */
function addEnd(
  result: Consequences,
  job: Job,
  type: 'job.succeeded' | 'job.dead',
  { message, end }: { readonly message: string; readonly end: JsonObject },
  rules: FollowRules,
  nowMs: number,
): void {
  const payload: Json = {
    message,
    next: `ductile why ${job.id}`,
    job_id: job.id,
    plugin: job.plugin,
    command: job.command,
    ...end,
    attempt: job.attempt,
    parent_job_id: job.parentJobId,
    submitted_by: job.submittedBy,
    actor: job.actor,
    // `text` is what notifiers of the original look for.
    ...(isNotified(job, rules) ? { notify_on_complete: true, text: message } : {}),
  };
  const signal: SignalDraft = {
    ...causedBy(job, END_INDEX),
    type,
    source: RUNTIME_SOURCE,
    subjectType: 'job',
    subjectId: job.id,
    data: JSON.stringify(payload),
    hops: job.hops + 1,
  };
  result.signals.push(signal);
  if (job.runtimeCaused || signal.hops > rules.hopsMax) return;
  addFollowers(result, job, signal, { type, payload }, rules, nowMs);
}
