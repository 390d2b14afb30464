import { createHash } from 'node:crypto';
import { toTimestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import { compact, isObject, type Json, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { maskText } from '../base/secrets.ts';
import type { Job, JobDraft } from '../job/job.ts';
import type { EmittedEvent, FollowRules, RouteTarget, SignalConsequences } from './follow-rules.ts';
import { toRunPayload } from './language/pipeline.ts';
import {
  breakerSignals,
  pluginSource,
  RUNTIME_SOURCE,
  SCHEMA_VERSION,
  type SignalDraft,
} from '../signal/signal.ts';
import { REDACTED_KEY, maskPayload, type PayloadMask } from '../signal/mask.ts';

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

/** Drafts the signals of a succeeded attempt's events, with the jobs and runs that they start. */
export function followPluginEvents(
  job: Job,
  events: readonly EmittedEvent[],
  rules: FollowRules,
  nowMs: number,
  mask: PayloadMask = maskPayload,
): SignalConsequences {
  const breaker = makeBreakerFollower(job, rules, nowMs);
  const result: SignalConsequences = { ...noConsequences(), ...breaker };
  const hops = job.hops + 1;
  events.forEach((emitted, index) => {
    const event = withSafeKey(emitted);
    const signal = toSignal(job, event, index, mask);
    result.signals.push(signal);
    if (hops > rules.hopsMax) addLoopIncident(result, job, signal, index, rules);
    else addFollowers(result, job, signal, event, rules, nowMs);
  });
  return result;
}

/**
 * A dedupe key is stored and shown. A key that looks like a secret is replaced by its digest, which
 * is as unique.
 */
function withSafeKey(event: EmittedEvent): EmittedEvent {
  const { dedupeKey = '' } = event;
  if (maskText(dedupeKey) === dedupeKey) return event;
  const digest = createHash('sha256').update(dedupeKey).digest('hex');
  return { ...event, dedupeKey: `sha256:${digest}` };
}

function toSignal(job: Job, event: EmittedEvent, index: number, mask: PayloadMask): SignalDraft {
  const cause = toCausation(job, index);
  const { data, redacted, sealed } = mask(event.payload, cause.id);
  const fields: JsonObject = {
    ...compact({ dedupe_key: event.dedupeKey }),
    ...(redacted.length === 0 ? {} : { [REDACTED_KEY]: [...redacted] }),
  };
  return {
    ...cause,
    type: event.type,
    source: pluginSource(job.plugin),
    data,
    ...(Object.keys(fields).length === 0 ? {} : { metadata: withSchema(fields) }),
    ...compact({ sealed }),
    hops: job.hops + 1,
  };
}

function withSchema(fields: JsonObject): string {
  return JSON.stringify({ schema_version: SCHEMA_VERSION, ...fields });
}

export function noConsequences(): SignalConsequences {
  return { signals: [], jobs: [], runs: [] };
}

/**
 * Creates the function that drafts what a breaker's signal starts. It is called inside the settling
 * transaction, because only there the breaker's new state is known. Its jobs have no dedupe key:
 * keys are locked before breakers.
 */
function makeBreakerFollower(
  job: Job,
  rules: FollowRules,
  nowMs: number,
): Pick<SignalConsequences, 'followBreaker'> {
  if (job.scheduleId === null || job.runtimeCaused || job.hops >= rules.hopsMax) return {};
  const isRouted = breakerSignals.some(
    (type) => rules.targetsOf({ source: RUNTIME_SOURCE, type }).length > 0,
  );
  if (!isRouted && rules.startsOf === undefined) return {};
  return {
    followBreaker(signal) {
      const result = noConsequences();
      const event = { type: signal.type, payload: parseJson(signal.data) as Json };
      const indexed = { ...signal, eventIndex: BREAKER_INDEX };
      addFollowers(result, job, indexed, event, rules, nowMs);
      return result;
    },
  };
}

/** Negative indexes are Ductile's own signals about an attempt. */
const END_INDEX = -1;
const BREAKER_INDEX = -2;
const LOOP_INDEX = -3;

/** Returns the position of a signal in the lineage of the job that it is about. */
function toCausation(
  job: Job,
  eventIndex: number,
): Pick<
  SignalDraft,
  'id' | 'correlationId' | 'causationId' | 'jobId' | 'jobAttempt' | 'eventIndex'
> {
  return {
    id: makeId(),
    correlationId: job.rootJobId,
    ...(job.sourceEventId === null ? {} : { causationId: job.sourceEventId }),
    jobId: job.id,
    jobAttempt: job.attempt,
    eventIndex,
  };
}

function addLoopIncident(
  result: SignalConsequences,
  job: Job,
  signal: SignalDraft,
  index: number,
  rules: FollowRules,
): void {
  result.signals.push({
    ...toCausation(job, LOOP_INDEX - index),
    type: 'incident.loop',
    source: RUNTIME_SOURCE,
    subjectType: 'signal',
    subjectId: signal.id,
    data: JSON.stringify({
      job_id: job.id,
      type: signal.type,
      hops: signal.hops,
      hops_max: rules.hopsMax,
      message: 'the chain of signals is longer than the limit, so this one was not routed',
    }),
    hops: signal.hops,
  });
}

/** Adds the jobs and runs that a signal starts. */
function addFollowers(
  result: SignalConsequences,
  job: Job,
  signal: SignalDraft,
  event: EmittedEvent,
  rules: FollowRules,
  nowMs: number,
): void {
  const jobs = addJobs(result, job, signal, event, rules, nowMs);
  const runs = addRuns(result, job, signal, event, rules);
  if (jobs + runs === 0) rules.onUnmatched?.(signal);
}

function addJobs(
  result: SignalConsequences,
  job: Job,
  signal: SignalDraft,
  event: EmittedEvent,
  rules: FollowRules,
  nowMs: number,
): number {
  const source = sourceOf(signal, job);
  const targets = rules.targetsOf({ source, type: signal.type });
  const envelope = toEnvelope(event, source, signal.id, nowMs);
  targets.forEach((target, position) => {
    result.jobs.push({
      id: makeId(),
      plugin: target.plugin,
      command: target.command,
      payload: target.command === 'handle' ? envelope : JSON.stringify(event.payload),
      submittedBy: 'route',
      actor: signal.source,
      maxAttempts: target.maxAttempts,
      ...(event.dedupeKey === undefined
        ? {}
        : { dedupe: { key: event.dedupeKey, ttlMs: rules.dedupeTtlMs, blockInFlight: true } }),
      parentJobId: job.id,
      sourceEventId: signal.id,
      rootJobId: job.rootJobId,
      idempotencyKey: childKey(job, signal.eventIndex ?? 0, position, target),
      ...inherited(signal, job),
    });
  });
  return targets.length;
}

function addRuns(
  result: SignalConsequences,
  job: Job,
  signal: SignalDraft,
  event: EmittedEvent,
  { startsOf, dedupeTtlMs }: FollowRules,
): number {
  const payload = toRunPayload(event.payload);
  const read = () => ({ payload, context: contextOf(job) });
  const starts = startsOf?.({ source: sourceOf(signal, job), type: signal.type }, read) ?? [];
  starts.forEach((start, position) => {
    const target = { plugin: 'pipeline', command: start.pipeline };
    result.runs.push({
      id: makeId(),
      ...start,
      payload: JSON.stringify(payload),
      submittedBy: 'route',
      actor: signal.source,
      firstJobId: makeId(),
      parentJobId: job.id,
      sourceEventId: signal.id,
      rootJobId: job.rootJobId,
      lineage: childKey(job, signal.eventIndex ?? 0, position, target),
      ...(event.dedupeKey === undefined
        ? {}
        : { dedupe: { key: event.dedupeKey, ttlMs: dedupeTtlMs } }),
      ...inherited(signal, job),
    });
  });
  return starts.length;
}

function sourceOf(signal: SignalDraft, job: Job): string {
  return signal.source === RUNTIME_SOURCE ? RUNTIME_SOURCE : job.plugin;
}

function inherited(
  signal: SignalDraft,
  job: Job,
): Pick<JobDraft, 'hops' | 'runtimeCaused' | 'eventContextId'> {
  return {
    hops: signal.hops,
    runtimeCaused: job.runtimeCaused || signal.source === RUNTIME_SOURCE,
    ...(job.eventContextId === null ? {} : { eventContextId: job.eventContextId }),
  };
}

/** Parses the job's baggage. Only a job that this process claimed has it. */
function contextOf(job: Job & { readonly context?: string }): JsonObject {
  const value: unknown = parseJson(job.context ?? '{}');
  return isObject(value) ? value : {};
}

/**
 * Encodes an event as `handle` gets it. `payloadText` is its payload as JSON, if the caller has it.
 */
export function toEnvelope(
  event: EmittedEvent,
  source: string,
  signalId: string,
  nowMs: number,
  payloadText = JSON.stringify(event.payload),
): string {
  const head = JSON.stringify({ type: event.type }).slice(0, -1);
  const tail = JSON.stringify({
    ...compact({ dedupe_key: event.dedupeKey }),
    source,
    timestamp: toTimestamp(nowMs),
    event_id: signalId,
    ...compact({ metadata: event.metadata }),
  }).slice(1);
  return `${head},"payload":${payloadText},${tail}`;
}

/**
 * The same work of the same lineage has the same key, whichever attempt of the parent caused it.
 */
function childKey(
  job: Job,
  eventIndex: number,
  position: number,
  target: Pick<RouteTarget, 'plugin' | 'command'>,
): string {
  const path = [job.idempotencyKey, eventIndex, position, target.plugin, target.command];
  return createHash('sha256').update(JSON.stringify(path)).digest('base64url');
}
