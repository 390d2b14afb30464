import { makeId } from '../base/ids.ts';
import type { Json, JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { TRACE_KEY } from '../base/trace.ts';
import type { JobDraft, SubmittedBy } from '../job/job.ts';
import type { Followers, FollowHalt, RunDraft } from '../pipeline/run/types.ts';
import type { Emission } from './types.ts';
import { deliveryEventIn, eventBehind, toEventMetadata } from './delivery-event.ts';
import { senderOf, type SignalDraft } from './signal.ts';
import { toEnvelope, type Consequences, type FollowRules } from './handle.service.ts';
import { toRunPayload } from '../pipeline/language/pipeline.ts';

/** Where in a lineage stands what follows from a signal. */
type Lineage = Pick<JobDraft, 'parentJobId' | 'rootJobId' | 'eventContextId'>;

type Followed = Pick<Consequences, 'jobs' | 'runs'>;

/** On whose behalf a signal is followed, and what the keys of that work are made from. */
export interface Following extends Lineage {
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  readonly runtimeCaused: boolean;
  readonly key: string;
  /** When the signal happened. */
  readonly atMs: number;
}

/** The jobs and runs that a signal causes which did not come from the end of a job. */
export function followSignal(
  signal: Pick<SignalDraft, 'id' | 'type' | 'source' | 'hops' | 'metadata'>,
  { payload, context }: { readonly payload: Json; readonly context: JsonObject },
  rules: FollowRules,
  { key, atMs, ...following }: Following,
): Followed {
  const { id: sourceEventId, type, hops } = signal;
  const source = senderOf(signal.source);
  const routed = { source, type, event: eventBehind(signal) };
  const targets = rules.targetsOf(routed);
  const common = { ...following, sourceEventId, hops };
  // One text for all that get it, and none where nobody does, which is the most frequent case.
  const envelope = targets.some(({ command }) => command === 'handle')
    ? toEnvelope({ type, payload, ...eventMetadataOf(signal) }, source, sourceEventId, atMs)
    : '';
  const jobs = targets.map((target, place): JobDraft => ({
    id: makeId(),
    plugin: target.plugin,
    command: target.command,
    payload: target.command === 'handle' ? envelope : JSON.stringify(payload),
    maxAttempts: target.maxAttempts,
    idempotencyKey: `${key}:${place}`,
    ...common,
  }));
  const begin = toRunPayload(payload);
  const starts = rules.startsOf?.(routed, () => ({ payload: begin, context })) ?? [];
  const runs = starts.map((start, place): RunDraft => ({
    id: makeId(),
    ...start,
    payload: JSON.stringify(begin),
    firstJobId: makeId(),
    lineage: `${key}:${place}`,
    ...common,
  }));
  return { jobs, runs };
}

/** The metadata of an event as `handle` gets it: only that of a delivery. */
function eventMetadataOf(signal: Pick<SignalDraft, 'source' | 'metadata'>): {
  metadata?: JsonObject;
} {
  const event = deliveryEventIn(signal);
  return event === undefined ? {} : { metadata: toEventMetadata(event) };
}

/** What a signal starts belongs to the trace of whoever reported it. */
export function withTrace(emission: Emission, traceparent: string | undefined): Emission {
  return withBaggage(emission, traceparent === undefined ? {} : { [TRACE_KEY]: traceparent });
}

/** The baggage of jobs and runs that a signal starts. */
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

/** The same for a signal that the runtime gave of itself. */
export function followRuntime(
  signal: SignalDraft,
  scope: { readonly payload: JsonObject; readonly context: JsonObject },
  rules: FollowRules,
  lineage: Lineage = {},
): Followed {
  const { id: key, source: actor } = signal;
  const atMs = Date.now();
  const following = { submittedBy: 'route', actor, runtimeCaused: true, key, atMs } as const;
  return followSignal(signal, scope, rules, { ...following, ...lineage });
}

/**
 * What follows when a run halts or begins to wait for a person. One that descends from a signal of the
 * runtime itself is recorded and not routed: alarms about alarms end here.
 */
export function makeFollowHalt(rules: () => FollowRules): FollowHalt {
  return ({ run, signal, parentJobId, context }) => {
    const current = rules();
    if (run.runtimeCaused || signal.hops > current.hopsMax) return { jobs: [], runs: [] };
    const payload = parseJson(signal.data) as JsonObject;
    const followed = followRuntime(signal, { payload, context }, current, {
      rootJobId: run.rootJobId,
      ...(parentJobId === null ? {} : { parentJobId }),
      ...(run.eventContextId === null ? {} : { eventContextId: run.eventContextId }),
    });
    if (followed.jobs.length + followed.runs.length === 0) current.onUnmatched?.(signal);
    return followed;
  };
}
