import { createHash } from 'node:crypto';
import { toTimestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { maskText } from '../base/secrets.ts';
import type { Job, JobDraft } from '../job/job.ts';
import type { Followers, RunDraft } from './run/types.ts';
import { toRunPayload, type RoutedEvent, type FindPipelineStarts } from './language/pipeline.ts';
import {
  breakerSignals,
  pluginSource,
  RUNTIME_SOURCE,
  SCHEMA_VERSION,
  type SignalDraft,
} from '../signal/signal.ts';
import { REDACTED_KEY, maskPayload, type PayloadMask } from '../signal/mask.ts';

export interface EmittedEvent {
  readonly type: string;
  readonly payload: Json;
  readonly dedupeKey?: string;
  /** The event type and headers of a delivery. */
  readonly metadata?: JsonObject;
}

export interface RouteTarget {
  readonly plugin: string;
  readonly command: string;
  readonly maxAttempts: number;
}

/** The rules of the configuration about what signals start. */
export interface FollowRules {
  /** Returns the targets of every route that matches a signal, in the order of definition. */
  readonly targetsOf: (signal: RoutedEvent) => readonly RouteTarget[];
  /** Returns the pipelines that a signal starts, in the order of definition. */
  readonly startsOf?: FindPipelineStarts;
  readonly hopsMax: number;
  readonly dedupeTtlMs: number;
  /** Plugins with `notify_on_complete`. */
  readonly notifying?: ReadonlySet<string>;
  /** The tenant that owns the ledger. Undefined for the root ledger. */
  readonly tenant?: string | undefined;
  /** Called for a signal that no route and no pipeline matches. */
  readonly onUnmatched?: (signal: SignalDraft) => void;
}

export interface SignalConsequences {
  readonly signals: SignalDraft[];
  readonly jobs: JobDraft[];
  readonly runs: RunDraft[];
  /**
   * Returns what follows when this end opens or closes the job's breaker. Undefined if nothing can.
   */
  readonly followBreaker?: (signal: SignalDraft) => Followers;
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
    ...(event.dedupeKey === undefined ? {} : { dedupe_key: event.dedupeKey }),
    ...(redacted.length === 0 ? {} : { [REDACTED_KEY]: [...redacted] }),
  };
  return {
    ...cause,
    type: event.type,
    source: pluginSource(job.plugin),
    data,
    ...(Object.keys(fields).length === 0 ? {} : { metadata: withSchema(fields) }),
    ...(sealed === undefined ? {} : { sealed }),
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
export function makeBreakerFollower(
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
export const END_INDEX = -1;
const BREAKER_INDEX = -2;
const LOOP_INDEX = -3;

/** Returns the position of a signal in the lineage of the job that it is about. */
export function toCausation(
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
export function addFollowers(
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
    ...(event.dedupeKey === undefined ? {} : { dedupe_key: event.dedupeKey }),
    source,
    timestamp: toTimestamp(nowMs),
    event_id: signalId,
    ...(event.metadata === undefined ? {} : { metadata: event.metadata }),
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
