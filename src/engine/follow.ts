import { createHash } from 'node:crypto';
import { toTimestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import type { Json } from '../base/json.ts';
import type { Job, JobDraft } from '../job/job.ts';
import { breakerSignals } from '../schedule/breaker.ts';
import { pluginSource, RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';

/** An event as a plugin emitted it. */
export interface EmittedEvent {
  readonly type: string;
  readonly payload: Json;
  readonly dedupeKey?: string;
}

export interface Target {
  readonly plugin: string;
  readonly command: string;
  readonly maxAttempts: number;
}

/** What the configuration says about consequences. */
export interface FollowRules {
  /** Where a signal goes: the targets of every route that matches it, in order of definition. */
  readonly targetsOf: (signal: {
    readonly source: string;
    readonly type: string;
  }) => readonly Target[];
  readonly hopsMax: number;
  readonly dedupeTtlMs: number;
  /** A signal that no route wanted. */
  readonly onUnmatched?: (signal: SignalDraft) => void;
}

export interface Consequences {
  readonly signals: SignalDraft[];
  readonly jobs: JobDraft[];
  /** Only where a route wants to know: the jobs that follow when this end moves the job's breaker. */
  readonly followBreaker?: (signal: SignalDraft) => JobDraft[];
}

/** The signals that a succeeded attempt's events become, and the jobs that they cause. */
export function followEvents(
  job: Job,
  events: readonly EmittedEvent[],
  rules: FollowRules,
  nowMs: number,
): Consequences {
  const result: Consequences = { signals: [], jobs: [], ...breakerFollower(job, rules, nowMs) };
  const hops = job.hops + 1;
  events.forEach((event, index) => {
    const signal: SignalDraft = {
      ...causedBy(job, index),
      type: event.type,
      source: pluginSource(job.plugin),
      data: JSON.stringify(event.payload),
      ...(event.dedupeKey === undefined
        ? {}
        : { metadata: JSON.stringify({ dedupe_key: event.dedupeKey }) }),
      hops,
    };
    result.signals.push(signal);
    if (hops > rules.hopsMax) addLoopIncident(result, job, signal, index, rules);
    else addJobs(result, job, signal, event, rules, nowMs);
  });
  return result;
}

/**
 * The signal that a job ended for good without success, for routes to catch. When the job itself
 * descends from a signal of the runtime, it is recorded and not routed: alarms about alarms end here.
 */
export function followDeath(
  job: Job,
  end: { readonly status: string; readonly reason: string | null; readonly error: string | null },
  rules: FollowRules,
  nowMs: number,
): Consequences {
  const payload: Json = {
    job_id: job.id,
    plugin: job.plugin,
    command: job.command,
    status: end.status,
    reason: end.reason,
    error: end.error,
    attempt: job.attempt,
    parent_job_id: job.parentJobId,
  };
  const signal: SignalDraft = {
    ...causedBy(job, DEATH_INDEX),
    type: 'job.dead',
    source: RUNTIME_SOURCE,
    subjectType: 'job',
    subjectId: job.id,
    data: JSON.stringify(payload),
    hops: job.hops + 1,
  };
  const followed = breakerFollower(job, rules, nowMs);
  const result: Consequences = { signals: [signal], jobs: [], ...followed };
  if (!job.runtimeCaused && signal.hops <= rules.hopsMax) {
    addJobs(result, job, signal, { type: signal.type, payload }, rules, nowMs);
  }
  return result;
}

/**
 * Whether a breaker moves is only known inside the transaction that settles, so what follows from that
 * is made there. Its jobs carry no dedupe key: keys are locked before breakers.
 */
function breakerFollower(
  job: Job,
  rules: FollowRules,
  nowMs: number,
): Pick<Consequences, 'followBreaker'> {
  if (job.scheduleId === null || job.runtimeCaused || job.hops >= rules.hopsMax) return {};
  const isWanted = breakerSignals.some(
    (type) => rules.targetsOf({ source: RUNTIME_SOURCE, type }).length > 0,
  );
  if (!isWanted) return {};
  return {
    followBreaker(signal) {
      const result: Consequences = { signals: [], jobs: [] };
      const event = { type: signal.type, payload: JSON.parse(signal.data) as Json };
      addJobs(result, job, { ...signal, eventIndex: BREAKER_INDEX }, event, rules, nowMs);
      return result.jobs;
    },
  };
}

/** Places below zero are the runtime's own words about an attempt, not the plugin's. */
const DEATH_INDEX = -1;
const BREAKER_INDEX = -2;
const LOOP_INDEX = -3;

function causedBy(
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
  result: Consequences,
  job: Job,
  signal: SignalDraft,
  index: number,
  rules: FollowRules,
): void {
  result.signals.push({
    ...causedBy(job, LOOP_INDEX - index),
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

function addJobs(
  result: Consequences,
  job: Job,
  signal: SignalDraft,
  event: EmittedEvent,
  rules: FollowRules,
  nowMs: number,
): void {
  const fromRuntime = signal.source === RUNTIME_SOURCE;
  const source = fromRuntime ? RUNTIME_SOURCE : job.plugin;
  const targets = rules.targetsOf({ source, type: signal.type });
  if (targets.length === 0) rules.onUnmatched?.(signal);
  const envelope = toEnvelope(event, source, signal.id, nowMs);
  targets.forEach((target, place) => {
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
      idempotencyKey: childKey(job, signal.eventIndex ?? 0, place, target),
      hops: signal.hops,
      runtimeCaused: job.runtimeCaused || fromRuntime,
      ...(job.eventContextId === null ? {} : { eventContextId: job.eventContextId }),
    });
  });
}

/** An event as `handle` gets it. */
export function toEnvelope(
  event: EmittedEvent,
  source: string,
  signalId: string,
  nowMs: number,
): string {
  return JSON.stringify({
    type: event.type,
    payload: event.payload,
    ...(event.dedupeKey === undefined ? {} : { dedupe_key: event.dedupeKey }),
    source,
    timestamp: toTimestamp(nowMs),
    event_id: signalId,
  });
}

/** The same work of the same lineage has the same key, whichever attempt of the parent caused it. */
function childKey(job: Job, eventIndex: number, place: number, target: Target): string {
  const path = [job.idempotencyKey, eventIndex, place, target.plugin, target.command];
  return createHash('sha256').update(JSON.stringify(path)).digest('base64url');
}
