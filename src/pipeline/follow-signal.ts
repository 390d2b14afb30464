import type { JsonObject, Json } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Emission, FollowHalt, Followers, RunDraft } from './run/types.ts';
import { makeId } from '../base/ids.ts';
import { TRACE_KEY } from '../base/trace.ts';
import type { JobDraft, SubmittedBy } from '../job/job.ts';
import {
  deliveryEventIn,
  eventBehind,
  toEventMetadata,
  senderOf,
  type SignalDraft,
} from '../signal/signal.ts';
import { toEnvelope } from './follow-job.ts';
import type { FollowRules, SignalConsequences } from './follow-rules.ts';
import { toRunPayload } from './language/pipeline.ts';

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
