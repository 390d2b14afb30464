import { DuctileError, toDuctileError } from '../base/errors.ts';
import { makeBatcher } from '../base/batch.ts';
import { makeId } from '../base/ids.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { AcceptedDelivery, DeliveryDraft, DeliveryResult, FailedDelivery } from './types.ts';
import { toAgentFailure, TARGET_KEY } from './agent-outcome.ts';
import { makeWebhookStore } from './store.service.ts';
import { createRejectedCounter } from './rate-limit.ts';
import type { DeliveryContent, VerifiedDelivery, WebhookIntake } from './webhooks.ts';
import type { Generation } from '../engine/generation.ts';
import { makeSealingMask, maskData, REDACTED_KEY, type PayloadMask } from '../signal/mask.ts';
import type { LedgerContext } from '../engine/context.ts';
import { announceWork, findFirstDue, draftJob } from '../job/enqueue.service.ts';
import { compact, toStoredJson, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { TRACE_KEY } from '../base/trace.ts';
import type { JobDraft } from '../job/job.ts';
import type { RunDraft } from '../pipeline/run/types.ts';
import type { Emission } from '../pipeline/run/types.ts';
import {
  toEventBaggage,
  toEventMetadata,
  webhookSource,
  DELIVERY_SIGNAL,
  SCHEMA_VERSION,
  type SignalDraft,
} from '../signal/signal.ts';
import type { WebhookTarget } from './target.ts';
import { draftAgentJobs, type AgentWork } from './agent.service.ts';
import { followSignal, withBaggage } from '../pipeline/follow-signal.ts';
import { toEnvelope } from '../pipeline/follow-job.ts';
import { draftRun } from '../pipeline/run/start.service.ts';

/** Creates the intake of a ledger. Concurrent deliveries are committed together. */
export function makeWebhookIntake(context: LedgerContext): WebhookIntake {
  const { ledger, vault, quota, commits } = context;
  const log = context.log.child('webhooks');
  const mask = makeSealingMask(vault, log);
  const write = makeBatcher<DeliveryDraft, DeliveryResult>(async (drafts) => {
    announceWork(
      context,
      drafts.flatMap(({ emission: { jobs, runs } }) => [...jobs, ...runs]),
    );
    const { results, events } = await ledger.webhooks.accept(drafts, quota.queueLimit());
    const isNew = (_: DeliveryDraft, index: number): boolean => results[index]?.isNew === true;
    const fresh = drafts.filter(isNew);
    commits.publish({
      ...events,
      signals: fresh.map(({ emission }) => emission.signal),
      jobDueInMs: findFirstDue(fresh.flatMap(({ emission }) => emission.jobs)),
    });
    return results;
  });

  return {
    store: makeWebhookStore(context, log),
    rejected: createRejectedCounter(),
    async accept(verified) {
      context.requireAccepting();
      const draft = await draftDelivery(verified, context.generation, mask).catch(
        (thrown: unknown) => recordFailed(toDuctileError(thrown), verified, ledger),
      );
      if ('error' in draft) return draft;
      const { jobs, runs } = draft.emission;
      const load = { jobs: jobs.length + runs.length, signals: 1, isCountedByLedger: true };
      const result = await quota.within(load, () => write(draft));
      if (result.isKeyReused === true) {
        return await recordFailed(describeKeyReuse(), verified, ledger);
      }
      if (result.isReplay === true) return { isReplay: true };
      const { signalId, isNew } = result;
      if (!isNew) {
        return { signalId, isNew, skipped: result.skipped, ...(await findFirst(signalId, ledger)) };
      }
      return { signalId, isNew, skipped: draft.skipped, ...idsOf(verified.target, draft) };
    },
    recordRefused(refused) {
      ledger.deliveries
        .recordRejected({ ...refused, id: makeId(), verdict: 'refused' })
        .catch((error: unknown) => log.warn('a refused delivery was not recorded', { error }));
    },
  };
}

async function draftDelivery(
  verified: VerifiedDelivery,
  generation: Generation,
  mask: PayloadMask,
): Promise<DeliveryDraft> {
  const id = makeId();
  const {
    title,
    target,
    payload,
    event,
    about,
    traceparent,
    hops,
    jobId,
    isAwaited = false,
    test,
    ...rest
  } = verified;
  const { webhookId, deliveryId } = rest;
  const sourceEventId = deliveryId ?? id;
  const content = {
    webhookId,
    title,
    target,
    payload,
    event,
    about,
    traceparent,
    ...compact({ hops }),
    isAwaited,
    jobId,
    sourceEventId,
    test,
  };
  return {
    id,
    ...rest,
    testBy: test?.actor,
    ...(await draftEmission(content, generation, mask)),
  };
}

/** Returns the id of the job or run that is the target of a new delivery. */
function idsOf(
  { kind }: VerifiedDelivery['target'],
  { emission: { jobs, runs }, skipped }: DeliveryDraft,
): Pick<AcceptedDelivery, 'jobId' | 'runId'> {
  const isJob = skipped === undefined && (kind === 'command' || kind === 'agent');
  const isRun = skipped === undefined && kind === 'pipeline';
  return { jobId: isJob ? jobs[0]?.id : undefined, runId: isRun ? runs[0]?.id : undefined };
}

/** Finds the job or run of the first delivery with this signal. The last one counts after a retry. */
async function findFirst(
  signalId: string,
  ledger: LedgerSubset<'deliveries.listTargets' | 'deliveries.listAgentJobs'>,
): Promise<Pick<AcceptedDelivery, 'jobId' | 'runId' | 'status'>> {
  const target = (await ledger.deliveries.listTargets([signalId])).at(-1);
  if (target?.kind === 'run') return { jobId: undefined, runId: target.id, status: target.status };
  const agentJobs = target === undefined ? await ledger.deliveries.listAgentJobs([signalId]) : [];
  const [first] = agentJobs;
  const job =
    target ?? agentJobs.findLast(({ idempotencyKey: key }) => key === first?.idempotencyKey);
  return { jobId: job?.id, runId: undefined, status: job?.status };
}

function describeKeyReuse(): DuctileError {
  const message = 'this Idempotency-Key was used with another body before';
  return new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency-key' });
}

/** Records a delivery that its target can't accept. Throws internal errors again. */
async function recordFailed(
  error: DuctileError,
  { webhookId, target, deliveryId, source, headers, bodyBytes, test }: VerifiedDelivery,
  ledger: Ledger,
): Promise<FailedDelivery> {
  if (error.code === 'INTERNAL') throw error;
  const request = { webhookId, deliveryId, source, headers, bodyBytes, testBy: test?.actor };
  const reason = target.kind === 'agent' ? toAgentFailure(error.message) : error.message;
  await ledger.deliveries.recordRejected({ ...request, id: makeId(), verdict: 'failed', reason });
  return { error };
}

/**
 * Drafts the signal of a delivery, the job or run of its webhook's target, and the jobs and runs of
 * routes and pipelines. Throws if the target can't accept the delivery.
 */
export async function draftEmission(
  content: DeliveryContent,
  generation: Generation,
  mask: PayloadMask,
): Promise<DraftedEmission> {
  const { payload, target, again } = content;
  const atMs = again?.atMs ?? Date.now();
  const encoded = { ...content, text: toStoredJson(payload, 'body', limits.payloadBytesMax), atMs };
  const signal = toSignal(encoded, mask);
  // Handlers of a replay get the id of the stored signal. The new id is only for idempotency keys.
  const handled = again === undefined ? signal : { ...signal, id: again.signalId };
  const baggage = toEventBaggage(content.about);
  const followed = followSignal(handled, { payload, context: baggage }, generation.rules, {
    submittedBy: 'route',
    actor: signal.source,
    runtimeCaused: false,
    key: signal.id,
    atMs,
  });
  const { jobs, skipped } = await draftJobs(encoded, signal, generation);
  const runs = target.kind === 'pipeline' ? [await toRun(content, target, signal, generation)] : [];
  const all = { jobs: [...jobs, ...followed.jobs], runs: [...runs, ...followed.runs] };
  const isUnmatched = all.jobs.length + all.runs.length === 0 && skipped === undefined;
  if (isUnmatched) generation.rules.onUnmatched?.(handled);
  const { traceparent } = content;
  const trace = traceparent === undefined ? {} : { [TRACE_KEY]: traceparent };
  return { emission: withBaggage({ signal, ...all }, { ...trace, ...baggage }), skipped };
}

interface DraftedEmission {
  readonly emission: Emission;
  /** The reason why the target is not started, although nothing failed. */
  readonly skipped: string | undefined;
}

/** A delivery with its payload as JSON text, and the time of its signal. */
interface EncodedDelivery extends DeliveryContent {
  readonly text: string;
  readonly atMs: number;
}

async function draftJobs(
  delivery: EncodedDelivery,
  signal: SignalDraft,
  generation: Generation,
): Promise<AgentWork> {
  const { target } = delivery;
  if (target.kind === 'agent') return await draftAgentJobs(delivery, target, signal, generation);
  const jobs = target.kind === 'command' ? [await toJob(delivery, target, signal, generation)] : [];
  return { jobs, skipped: undefined };
}

function toSignal(
  {
    webhookId,
    target,
    sourceEventId,
    payload,
    text,
    event,
    about,
    hops = 1,
    test,
  }: EncodedDelivery,
  mask: PayloadMask,
): SignalDraft {
  const id = makeId();
  const { data, redacted, sealed } = mask(payload, id, text);
  const { data: _data, ...attributes } = event ?? {};
  const described = {
    ...(event === undefined ? {} : { event: attributes }),
    ...toEventMetadata(about),
  };
  const metadata: JsonObject = {
    schema_version: SCHEMA_VERSION,
    ...(maskData(described, 'metadata').value as JsonObject),
    ...(redacted.length === 0 ? {} : { [REDACTED_KEY]: [...redacted] }),
    ...(test === undefined ? {} : { test: { actor: test.actor, directive_id: test.directiveId } }),
  };
  return {
    id,
    type: target.kind === 'signal' ? target.type : DELIVERY_SIGNAL,
    source: webhookSource(webhookId),
    subjectType: 'webhook',
    subjectId: webhookId,
    data,
    metadata: toStoredJson(metadata, 'metadata', limits.signalMetadataBytesMax),
    ...compact({ sealed }),
    hops,
    correlationId: id,
    ...(test === undefined ? {} : { causationId: test.directiveId }),
    sourceEventId,
  };
}

async function toJob(
  { payload, text, atMs, again, about, jobId: id, isAwaited = false }: EncodedDelivery,
  { plugin, command }: Extract<WebhookTarget, { kind: 'command' }>,
  signal: SignalDraft,
  { catalog, config }: Generation,
): Promise<JobDraft> {
  const by = { submittedBy: 'webhook', actor: signal.source, isAwaited } as const;
  const submission = { id, plugin, command, payload, ...by };
  const how = { stored: text, mayWait: true };
  const { job } = await draftJob(submission, catalog, config.service.dedupeTtlMs, how);
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
  const { run } = await draftRun({ pipeline, payload, ...by }, generation);
  return {
    ...run,
    sourceEventId: signal.id,
    lineage: `${signal.id}${TARGET_KEY}`,
    hops: signal.hops,
  };
}
