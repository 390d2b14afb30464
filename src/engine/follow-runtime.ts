import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import type { JobDraft } from '../job/job.ts';
import type { FollowHalt, RunDraft } from '../ledger/runs.ts';
import type { SignalDraft } from '../signal/signal.ts';
import { toEnvelope, type Consequences, type FollowRules } from './follow.ts';

/** Where in a lineage stands what follows from a signal. */
type Lineage = Pick<JobDraft, 'parentJobId' | 'rootJobId' | 'eventContextId'>;

type Followers = Pick<Consequences, 'jobs' | 'runs'>;

/** The jobs and runs that a signal causes which the runtime gave of itself, not for a job's end. */
export function followRuntime(
  signal: SignalDraft,
  { payload, context }: { readonly payload: JsonObject; readonly context: JsonObject },
  rules: FollowRules,
  lineage: Lineage = {},
): Followers {
  const { id: sourceEventId, type, source, hops } = signal;
  const common = {
    submittedBy: 'route',
    actor: source,
    sourceEventId,
    hops,
    runtimeCaused: true,
    ...lineage,
  } as const;
  const envelope = toEnvelope({ type, payload }, source, sourceEventId, Date.now());
  const jobs = rules.targetsOf({ source, type }).map((target, place): JobDraft => ({
    id: makeId(),
    plugin: target.plugin,
    command: target.command,
    payload: target.command === 'handle' ? envelope : JSON.stringify(payload),
    maxAttempts: target.maxAttempts,
    idempotencyKey: `${sourceEventId}:${place}`,
    ...common,
  }));
  const starts = rules.startsOf?.({ source, type }, () => ({ payload, context })) ?? [];
  const runs = starts.map((start, place): RunDraft => ({
    id: makeId(),
    ...start,
    payload: JSON.stringify(payload),
    firstJobId: makeId(),
    lineage: `${sourceEventId}:${place}`,
    ...common,
  }));
  return { jobs, runs };
}

/**
 * What follows when a run halts. One that descends from a signal of the runtime itself is recorded and
 * not routed: alarms about alarms end here.
 */
export function makeFollowHalt(rules: () => FollowRules): FollowHalt {
  return ({ run, signal, parentJobId, context }) => {
    const current = rules();
    if (run.runtimeCaused || signal.hops > current.hopsMax) return { jobs: [], runs: [] };
    const payload = JSON.parse(signal.data) as JsonObject;
    const followed = followRuntime(signal, { payload, context }, current, {
      rootJobId: run.rootJobId,
      ...(parentJobId === null ? {} : { parentJobId }),
      ...(run.eventContextId === null ? {} : { eventContextId: run.eventContextId }),
    });
    if (followed.jobs.length + followed.runs.length === 0) current.onUnmatched?.(signal);
    return followed;
  };
}
