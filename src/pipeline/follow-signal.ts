import type { JsonObject, Json } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { FollowHalt, Followers, RunDraft } from './run/types.ts';
import { makeId } from '../base/ids.ts';
import { TRACE_KEY } from '../base/trace.ts';
import type { JobDraft, SubmittedBy, Job } from '../job/job.ts';
import type { Emission } from '../signal/types.ts';
import {
  deliveryEventIn,
  eventBehind,
  toEventMetadata,
  senderOf,
  type SignalDraft,
  RUNTIME_SOURCE,
} from '../signal/signal.ts';
import {
  toEnvelope,
  type FollowRules,
  addFollowers,
  toCausation,
  END_INDEX,
  followPluginEvents,
  makeBreakerFollower,
  noConsequences,
  type SignalConsequences,
  type EmittedEvent,
} from './follow-job.ts';
import { toRunPayload } from './language/pipeline.ts';
import { maskText } from '../base/secrets.ts';
import type { PayloadMask } from '../signal/mask.ts';

/** The lineage of what a signal starts. */
type Lineage = Pick<JobDraft, 'parentJobId' | 'rootJobId' | 'eventContextId'>;

/** The drafts of the jobs and runs that a signal starts. */
type SignalFollowers = Pick<SignalConsequences, 'jobs' | 'runs'>;

/** The submitter of what a signal starts, and the base of its idempotency keys. */
interface FollowOptions extends Lineage {
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  readonly runtimeCaused: boolean;
  readonly key: string;
  readonly atMs: number;
}

/** Drafts the jobs and runs that a signal starts which isn't about the end of a job. */
export function followSignal(
  signal: Pick<SignalDraft, 'id' | 'type' | 'source' | 'hops' | 'metadata'>,
  { payload, context }: { readonly payload: Json; readonly context: JsonObject },
  rules: FollowRules,
  { key, atMs, ...following }: FollowOptions,
): SignalFollowers {
  const { id: sourceEventId, type, hops } = signal;
  const source = senderOf(signal.source);
  const routed = { source, type, event: eventBehind(signal) };
  const targets = rules.targetsOf(routed);
  const common = { ...following, sourceEventId, hops };
  // Encode once for all targets, and not at all in the common case that there is none.
  const envelope = targets.some(({ command }) => command === 'handle')
    ? toEnvelope({ type, payload, ...eventMetadataOf(signal) }, source, sourceEventId, atMs)
    : '';
  const jobs = targets.map((target, position): JobDraft => ({
    id: makeId(),
    plugin: target.plugin,
    command: target.command,
    payload: target.command === 'handle' ? envelope : JSON.stringify(payload),
    maxAttempts: target.maxAttempts,
    idempotencyKey: `${key}:${position}`,
    ...common,
  }));
  const runPayload = toRunPayload(payload);
  const starts = rules.startsOf?.(routed, () => ({ payload: runPayload, context })) ?? [];
  const runs = starts.map((start, position): RunDraft => ({
    id: makeId(),
    ...start,
    payload: JSON.stringify(runPayload),
    firstJobId: makeId(),
    lineage: `${key}:${position}`,
    ...common,
  }));
  return { jobs, runs };
}

/** Returns the metadata of an event as `handle` gets it. Only deliveries have some. */
function eventMetadataOf(signal: Pick<SignalDraft, 'source' | 'metadata'>): {
  metadata?: JsonObject;
} {
  const event = deliveryEventIn(signal);
  return event === undefined ? {} : { metadata: toEventMetadata(event) };
}

/** Adds the reporter's trace to what a signal starts. */
export function withTrace(emission: Emission, traceparent: string | undefined): Emission {
  return withBaggage(emission, traceparent === undefined ? {} : { [TRACE_KEY]: traceparent });
}

/** Adds baggage to the jobs and runs that a signal starts. */
export function withBaggage<F extends Followers>(
  followers: F,
  baggage: JsonObject,
): F & Pick<Emission, 'contexts'> {
  const { jobs, runs } = followers;
  if (Object.keys(baggage).length === 0 || jobs.length + runs.length === 0) return followers;
  const eventContextId = makeId();
  return {
    ...followers,
    contexts: [{ id: eventContextId, accumulated: JSON.stringify(baggage) }],
    jobs: jobs.map((job) => ({ eventContextId, ...job })),
    runs: runs.map((run) => ({ eventContextId, ...run })),
  };
}

/** Drafts the jobs and runs that one of Ductile's own signals starts. */
export function followRuntime(
  signal: SignalDraft,
  scope: { readonly payload: JsonObject; readonly context: JsonObject },
  rules: FollowRules,
  atMs: number,
  lineage: Lineage = {},
): SignalFollowers {
  const { id: key, source: actor } = signal;
  const following = { submittedBy: 'route', actor, runtimeCaused: true, key, atMs } as const;
  return followSignal(signal, scope, rules, { ...following, ...lineage });
}

/**
 * Drafts what follows from a succeeded attempt: its events, and `job.succeeded` if its plugin
 * notifies.
 */
export function followSuccess(
  job: Job,
  reply: { readonly result: string; readonly events: readonly EmittedEvent[] },
  rules: FollowRules,
  nowMs: number,
  mask?: PayloadMask,
): SignalConsequences {
  const result = followPluginEvents(job, reply.events, rules, nowMs, mask);
  if (!isNotified(job, rules)) return result;
  const text = maskText(reply.result);
  const message = `Job ${job.id} (${job.plugin} ${job.command}) succeeded: ${text}`;
  const end = { status: 'succeeded', result: text };
  addEnd(result, job, 'job.succeeded', { message, end }, rules, nowMs);
  return result;
}

/** Drafts the signal that a job ended for good without success, with what it starts. */
export function followDeath(
  job: Job,
  end: { readonly status: string; readonly reason: string | null; readonly error: string | null },
  rules: FollowRules,
  nowMs: number,
): SignalConsequences {
  const { status, reason } = end;
  const error = end.error === null ? null : maskText(end.error);
  const breaker = makeBreakerFollower(job, rules, nowMs);
  const result: SignalConsequences = { ...noConsequences(), ...breaker };
  const why = error ?? reason ?? 'no error was recorded';
  const message = `Job ${job.id} (${job.plugin} ${job.command}) ended as ${status}: ${why}`;
  addEnd(result, job, 'job.dead', { message, end: { status, reason, error } }, rules, nowMs);
  return result;
}

/** A step of a run isn't reported: the run continues. */
function isNotified(job: Job, { notifying }: FollowRules): boolean {
  return job.runId === null && notifying?.has(job.plugin) === true;
}

/**
 * Adds the signal about the end of a job, and what it starts. If the job descends from one of
 * Ductile's own signals, the signal is recorded and starts nothing: no alarms about alarms.
 */
function addEnd(
  result: SignalConsequences,
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
    // Existing notifier plugins read `text`.
    ...(isNotified(job, rules) ? { notify_on_complete: true, text: message } : {}),
  };
  const signal: SignalDraft = {
    ...toCausation(job, END_INDEX),
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

/**
 * Drafts what starts when a run halts or starts to wait for an approval. The signal of a run that
 * descends from one of Ductile's own signals is recorded and starts nothing: no alarms about alarms.
 */
export function makeFollowHalt(rules: () => FollowRules): FollowHalt {
  return ({ run, signal, parentJobId, context }) => {
    const current = rules();
    if (run.runtimeCaused || signal.hops > current.hopsMax) return { jobs: [], runs: [] };
    const payload = parseJson(signal.data) as JsonObject;
    const followers = followRuntime(signal, { payload, context }, current, Date.now(), {
      rootJobId: run.rootJobId,
      ...(parentJobId === null ? {} : { parentJobId }),
      ...(run.eventContextId === null ? {} : { eventContextId: run.eventContextId }),
    });
    if (followers.jobs.length + followers.runs.length === 0) current.onUnmatched?.(signal);
    return followers;
  };
}
