import { quoteShell } from '../../base/text.ts';
import { isObject, parseStoredJson } from '../../base/json.ts';
import type { Job } from '../../job/job.ts';
import { type Run, describeState } from '../../pipeline/run/run.ts';
import { findStartingWebhook, RUNTIME_SOURCE, type Signal } from '../../signal/signal.ts';
import {
  formatCount,
  toExplanation,
  type ExplanationCause,
  type Explanation,
  type ExplanationFact,
  describeOrigin,
  type OriginLink,
} from './explanation.ts';

/** The records about a signal, and the handlers that would start now. */
export interface SignalFacts {
  readonly signal: Signal;
  /** The chain of causes, the signal first. */
  readonly links: readonly OriginLink[];
  readonly jobs: readonly Job[];
  readonly runs: readonly Run[];
  readonly hopsMax: number;
  /** True if its cause was itself caused by a signal of the service. */
  readonly isRuntimeCaused: boolean;
  /** Descriptions of the routes and pipelines that would handle such a signal now. */
  readonly handlers: readonly string[];
  /** Pipelines for such signals that don't start for this one, each with the reason. */
  readonly refusals: readonly { readonly pipeline: string; readonly reason: string }[];
}

/** Explains why a signal started something, or nothing. */
export function explainSignal(facts: SignalFacts): Explanation {
  const { signal, jobs, runs } = facts;
  const isHandled = jobs.length + runs.length > 0;
  const state = isHandled ? 'handled' : 'unhandled';
  const subject = { kind: 'signal', id: signal.id, state } as const;
  const first = isHandled ? describeHandled(facts) : describeUnhandled(facts);
  const origin = describeOrigin(facts.links);
  const webhook = findStartingWebhook(signal);
  // To repeat what the webhook itself started, replay the delivery, not the signal.
  const isReplayed = facts.handlers.length > 0 || (isHandled && webhook === undefined);
  const commands = [
    ...jobs.slice(0, 1).map(({ id }) => `ductile why ${id}`),
    ...runs.slice(0, 1).map(({ id }) => `ductile why ${id}`),
    ...(webhook === undefined ? [] : [`ductile webhook deliveries ${quoteShell(webhook)}`]),
    ...(isReplayed ? [`ductile signal replay ${signal.id}`] : []),
  ];
  return toExplanation(
    subject,
    [first, ...describeDedupe(signal), ...describeStarted(facts)],
    origin,
    commands,
  );
}

const STARTED_MAX = 5;

/** Describes the first jobs and runs that were started. */
export function describeStarted({
  jobs,
  runs,
}: Pick<SignalFacts, 'jobs' | 'runs'>): ExplanationFact[] {
  return [...jobs.map(describeStartedJob), ...runs.map(describeStartedRun)].slice(0, STARTED_MAX);
}

function describeHandled({ signal, jobs, runs }: SignalFacts): ExplanationCause {
  const parts = [
    ...(jobs.length === 0 ? [] : [formatCount(jobs.length, 'job')]),
    ...(runs.length === 0 ? [] : [formatCount(runs.length, 'run')]),
  ];
  return {
    fact: `it started ${parts.join(' and ')}`,
    evidence: signal.type,
    at: signal.insertedAt,
  };
}

function describeUnhandled(facts: SignalFacts): ExplanationCause {
  const { signal, hopsMax, isRuntimeCaused, handlers, refusals } = facts;
  const at = signal.insertedAt;
  if (signal.hops > hopsMax) {
    return {
      fact: 'it was recorded and not routed, because its chain is too long',
      evidence: `hop ${signal.hops}, service.max_hops is ${hopsMax}`,
      at,
      commands: [`ductile signal list --correlation-id ${quoteShell(signal.correlationId)}`],
    };
  }
  if (isRuntimeCaused && signal.source === RUNTIME_SOURCE) {
    return {
      fact:
        'it is about work that a signal of the service started, ' +
        'so it was recorded and not handled',
      evidence: 'this prevents endless alarms about alarms',
      at,
    };
  }
  if (handlers.length > 0) {
    const key = eventKeyOf(signal);
    const fact =
      key === undefined
        ? 'nothing handled it when it arrived; the current configuration would'
        : `it started nothing: work with its dedupe key ${key} was probably done or in progress`;
    return { fact, evidence: handlers.slice(0, STARTED_MAX).join(', '), at };
  }
  const [refusal] = refusals;
  if (refusal !== undefined) {
    return {
      fact: `no pipeline for ${signal.type} accepted it`,
      evidence: refusals
        .slice(0, STARTED_MAX)
        .map(({ pipeline, reason }) => `${pipeline}: ${reason}`)
        .join('; '),
      at,
      commands: [`ductile pipeline show ${quoteShell(refusal.pipeline)}`],
    };
  }
  return {
    fact: `no route or pipeline handles ${signal.type} from ${signal.source}`,
    evidence: 'routes and pipelines of the active configuration',
    at,
    commands: ['ductile pipeline list', 'ductile config show'],
  };
}

/** Reads the dedupe key that a plugin gave its event. It applies to the work, not to the signal. */
function eventKeyOf({ metadata }: Signal): string | undefined {
  const value: unknown = parseStoredJson(metadata);
  const key = isObject(value) ? value['dedupe_key'] : undefined;
  return typeof key === 'string' ? key : undefined;
}

/** Describes the dedupe key of a signal: each source can use a key once. */
function describeDedupe({ dedupeKey, sourceEventId, source }: Signal): ExplanationFact[] {
  const key = dedupeKey ?? sourceEventId;
  if (key === null) return [];
  return [{ fact: 'a duplicate of it starts nothing', evidence: `key ${key} of ${source}` }];
}

export function describeStartedJob({
  id,
  plugin,
  command,
  status,
  createdAt,
}: Job): ExplanationFact {
  const fact = `${plugin} ${command} ${describeState(status)}`;
  return { fact, evidence: `job ${id}`, at: createdAt };
}

export function describeStartedRun({ id, pipeline, status, createdAt }: Run): ExplanationFact {
  const fact = `pipeline ${pipeline} ${describeState(status)}`;
  return { fact, evidence: `run ${id}`, at: createdAt };
}
