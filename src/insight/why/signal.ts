import { quoteShell } from '../../base/text.ts';
import { isObject, parseStoredJson } from '../../base/json.ts';
import { hookBehind } from '../../webhook/draft.service.ts';
import type { Job } from '../../job/job.ts';
import type { Run } from '../../pipeline/run/run.ts';
import { RUNTIME_SOURCE, type Signal } from '../../signal/signal.ts';
import {
  isInState,
  plural,
  toExplanation,
  type Cause,
  type Explanation,
  type Fact,
} from './explanation.ts';
import { tellOrigin, type Link } from './origin.ts';

export interface SignalFacts {
  readonly signal: Signal;
  /** From the signal itself back. */
  readonly links: readonly Link[];
  readonly jobs: readonly Job[];
  readonly runs: readonly Run[];
  readonly hopsMax: number;
  /** Whether its cause was itself caused by what the runtime said. */
  readonly isRuntimeCaused: boolean;
  /** What would take such a signal now: routes and pipelines, each in a few words. */
  readonly takers: readonly string[];
  /** Pipelines for such signals that do not want this one, each with the reason. */
  readonly refusals: readonly { readonly pipeline: string; readonly reason: string }[];
}

/** Why a signal started something, or nothing. */
export function explainSignal(facts: SignalFacts): Explanation {
  const { signal, jobs, runs } = facts;
  const isHandled = jobs.length + runs.length > 0;
  const state = isHandled ? 'handled' : 'unhandled';
  const subject = { kind: 'signal', id: signal.id, state } as const;
  const first = isHandled ? handled(facts) : unhandled(facts);
  const origin = tellOrigin(facts.links);
  const hook = hookBehind(signal);
  // What the webhook itself started is done again by its delivery, not by its signal.
  const isReplayed = facts.takers.length > 0 || (isHandled && hook === undefined);
  const commands = [
    ...jobs.slice(0, 1).map(({ id }) => `ductile why ${id}`),
    ...runs.slice(0, 1).map(({ id }) => `ductile why ${id}`),
    ...(hook === undefined ? [] : [`ductile webhook deliveries ${quoteShell(hook)}`]),
    ...(isReplayed ? [`ductile signal replay ${signal.id}`] : []),
  ];
  return toExplanation(subject, [first, ...once(signal), ...tellStarted(facts)], origin, commands);
}

const FOLLOWERS_TOLD = 5;

/** The first of what was started. */
export function tellStarted({ jobs, runs }: Pick<SignalFacts, 'jobs' | 'runs'>): Fact[] {
  return [...jobs.map(tellJob), ...runs.map(tellRun)].slice(0, FOLLOWERS_TOLD);
}

function handled({ signal, jobs, runs }: SignalFacts): Cause {
  const parts = [
    ...(jobs.length === 0 ? [] : [plural(jobs.length, 'job')]),
    ...(runs.length === 0 ? [] : [plural(runs.length, 'run')]),
  ];
  return {
    fact: `it started ${parts.join(' and ')}`,
    evidence: signal.type,
    at: signal.insertedAt,
  };
}

function unhandled(facts: SignalFacts): Cause {
  const { signal, hopsMax, isRuntimeCaused, takers, refusals } = facts;
  const at = signal.insertedAt;
  if (signal.hops > hopsMax) {
    return {
      fact: 'its chain is longer than may be, so it was recorded and not handled',
      evidence: `hop ${signal.hops}, service.max_hops is ${hopsMax}`,
      at,
      commands: [`ductile signal list --correlation-id ${quoteShell(signal.correlationId)}`],
    };
  }
  if (isRuntimeCaused && signal.source === RUNTIME_SOURCE) {
    return {
      fact: 'it is about the handling of what the runtime said, so it was recorded and not handled',
      evidence: 'alarms about alarms end here',
      at,
    };
  }
  if (takers.length > 0) {
    const key = eventKeyOf(signal);
    const fact =
      key === undefined
        ? 'nothing took it when it came; now something would'
        : `it started nothing: very likely the same was done or under way, by its dedupe key ${key}`;
    return { fact, evidence: takers.slice(0, FOLLOWERS_TOLD).join(', '), at };
  }
  const [refusal] = refusals;
  if (refusal !== undefined) {
    return {
      fact: `no pipeline that is for ${signal.type} wanted it`,
      evidence: refusals
        .slice(0, FOLLOWERS_TOLD)
        .map(({ pipeline, reason }) => `${pipeline}: ${reason}`)
        .join('; '),
      at,
      commands: [`ductile pipeline show ${quoteShell(refusal.pipeline)}`],
    };
  }
  return {
    fact: `no route and no pipeline takes ${signal.type} of ${signal.source}`,
    evidence: 'routes and pipelines of the configuration in force',
    at,
    commands: ['ductile pipeline list', 'ductile config show'],
  };
}

/** The dedupe key that a plugin gave its event, which holds for the work and not for the signal. */
function eventKeyOf({ metadata }: Signal): string | undefined {
  const value: unknown = parseStoredJson(metadata);
  const key = isObject(value) ? value['dedupe_key'] : undefined;
  return typeof key === 'string' ? key : undefined;
}

/** What was told before leads to nothing: there is one signal for a key. */
function once({ dedupeKey, sourceEventId, source }: Signal): Fact[] {
  const key = dedupeKey ?? sourceEventId;
  if (key === null) return [];
  return [{ fact: 'the same told again starts nothing', evidence: `key ${key} of ${source}` }];
}

export function tellJob({ id, plugin, command, status, createdAt }: Job): Fact {
  const fact = `${plugin} ${command} ${isInState(status)}`;
  return { fact, evidence: `job ${id}`, at: createdAt };
}

export function tellRun({ id, pipeline, status, createdAt }: Run): Fact {
  const fact = `pipeline ${pipeline} ${isInState(status)}`;
  return { fact, evidence: `run ${id}`, at: createdAt };
}
