import { makeId } from '../base/ids.ts';
import { type JsonObject, toStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { TRACE_KEY } from '../base/trace.ts';
import type { JobDraft } from '../job/job.ts';
import type { RunDraft } from '../pipeline/run/types.ts';
import type { Emission } from '../signal/types.ts';
import {
  toEventBaggage,
  toEventMetadata,
  WEBHOOK_SOURCE,
  SCHEMA_VERSION,
  type SignalDraft,
} from '../signal/signal.ts';
import { maskData, REDACTED_KEY, type PayloadMask } from '../signal/mask.ts';
import type { WebhookTarget } from './target.ts';
import { TARGET_KEY } from './agent-outcome.ts';
import { draftJob } from '../job/enqueue.service.ts';
import { draftAgent, type AgentWork } from './agent.service.ts';
import { followSignal, withBaggage } from '../pipeline/follow-signal.ts';
import { toEnvelope } from '../pipeline/follow-event.ts';
import type { DeliveryContent } from './webhooks.ts';
import type { Generation } from '../engine/generation.ts';
import { draftRun } from '../pipeline/run/start.service.ts';

/** The type of the signal of a delivery whose webhook names none. */
export const RECEIVED = 'webhook.received';

/**
 * The signal of a delivery, the job or the run that its webhook is for, and whatever else wants such
 * signals. Throws what keeps the target from taking it.
 */
export async function draftEmission(
  delivered: DeliveryContent,
  generation: Generation,
  keep: PayloadMask,
): Promise<DraftedEmission> {
  const { payload, target, again } = delivered;
  const atMs = again?.atMs ?? Date.now();
  const kept = { ...delivered, text: toStoredJson(payload, 'body', limits.payloadBytesMax), atMs };
  const signal = toSignal(kept, keep);
  // What handles it again gets the id that is on the ledger; the keys of that work are of this time.
  const told = again === undefined ? signal : { ...signal, id: again.signalId };
  const baggage = toEventBaggage(delivered.about);
  const followed = followSignal(told, { payload, context: baggage }, generation.rules, {
    submittedBy: 'route',
    actor: signal.source,
    runtimeCaused: false,
    key: signal.id,
    atMs,
  });
  const { jobs, skipped } = await draftJobs(kept, signal, generation);
  const runs =
    target.kind === 'pipeline' ? [await toRun(delivered, target, signal, generation)] : [];
  const all = { jobs: [...jobs, ...followed.jobs], runs: [...runs, ...followed.runs] };
  const isUnmatched = all.jobs.length + all.runs.length === 0 && skipped === undefined;
  if (isUnmatched) generation.rules.onUnmatched?.(told);
  const { traceparent } = delivered;
  const trace = traceparent === undefined ? {} : { [TRACE_KEY]: traceparent };
  return { emission: withBaggage({ signal, ...all }, { ...trace, ...baggage }), skipped };
}

export interface DraftedEmission {
  readonly emission: Emission;
  /** Why the target was left alone, although nothing went wrong. */
  readonly skipped: string | undefined;
}

/** With its payload as the ledger keeps it, and when it came. */
interface Kept extends DeliveryContent {
  readonly text: string;
  readonly atMs: number;
}

async function draftJobs(
  delivered: Kept,
  signal: SignalDraft,
  generation: Generation,
): Promise<AgentWork> {
  const { target } = delivered;
  if (target.kind === 'agent') return await draftAgent(delivered, target, signal, generation);
  const jobs =
    target.kind === 'command' ? [await toJob(delivered, target, signal, generation)] : [];
  return { jobs, skipped: undefined };
}

export function hookSource(hookId: string): string {
  return `${WEBHOOK_SOURCE}${hookId}`;
}

/** The webhook that starts something itself with such a signal, which no route and no pipeline is. */
export function hookBehind({
  type,
  source,
}: Pick<SignalDraft, 'type' | 'source'>): string | undefined {
  const isBehind = type === RECEIVED && source.startsWith(WEBHOOK_SOURCE);
  return isBehind ? source.slice(WEBHOOK_SOURCE.length) : undefined;
}

function toSignal(
  { hookId, target, sourceEventId, payload, text, event, about, hops = 1, test }: Kept,
  keep: PayloadMask,
): SignalDraft {
  const id = makeId();
  const { data, redacted, sealed } = keep(payload, id, text);
  const { data: _data, ...attributes } = event ?? {};
  const known = {
    ...(event === undefined ? {} : { event: attributes }),
    ...toEventMetadata(about),
  };
  const metadata: JsonObject = {
    schema_version: SCHEMA_VERSION,
    ...(maskData(known, 'metadata').value as JsonObject),
    ...(redacted.length === 0 ? {} : { [REDACTED_KEY]: [...redacted] }),
    ...(test === undefined ? {} : { test: { actor: test.actor, directive_id: test.directiveId } }),
  };
  return {
    id,
    type: target.kind === 'signal' ? target.type : RECEIVED,
    source: hookSource(hookId),
    subjectType: 'webhook',
    subjectId: hookId,
    data,
    metadata: toStoredJson(metadata, 'metadata', limits.signalMetadataBytesMax),
    ...(sealed === undefined ? {} : { sealed }),
    hops,
    correlationId: id,
    ...(test === undefined ? {} : { causationId: test.directiveId }),
    sourceEventId,
  };
}

async function toJob(
  { payload, text, atMs, again, about, jobId: id, isAwaited = false }: Kept,
  { plugin, command }: Extract<WebhookTarget, { kind: 'command' }>,
  signal: SignalDraft,
  { catalog, config }: Generation,
): Promise<JobDraft> {
  const by = { submittedBy: 'webhook', actor: signal.source, isAwaited } as const;
  const asked = { id, plugin, command, payload, ...by };
  const how = { kept: text, mayWait: true };
  const { job } = await draftJob(asked, catalog, config.service.dedupeTtlMs, how);
  const metadata = about === undefined ? {} : { metadata: toEventMetadata(about) };
  const event = { type: signal.type, payload, ...metadata };
  return {
    ...job,
    ...(command === 'handle'
      ? { payload: toEnvelope(event, signal.source, again?.signalId ?? signal.id, atMs, text) }
      : {}),
    sourceEventId: signal.id,
    idempotencyKey: `${signal.id}${TARGET_KEY}`,
    hops: signal.hops,
  };
}

async function toRun(
  { payload, isAwaited = false }: DeliveryContent,
  { pipeline }: Extract<WebhookTarget, { kind: 'pipeline' }>,
  signal: SignalDraft,
  generation: Generation,
): Promise<RunDraft> {
  const by = { submittedBy: 'webhook', actor: signal.source, isAwaited } as const;
  const asked = { pipeline, payload, ...by };
  const { run } = await draftRun(asked, generation);
  return {
    ...run,
    sourceEventId: signal.id,
    lineage: `${signal.id}${TARGET_KEY}`,
    hops: signal.hops,
  };
}
