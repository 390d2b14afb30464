import { DuctileError, toDuctileError } from '../base/errors.ts';
import { makeBatcher } from '../base/batch.ts';
import { makeId } from '../base/ids.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { DeliveryDraft, ToldDelivery } from './types.ts';
import { toAgentFailure, TARGET_KEY } from './agent-outcome.ts';
import { makeWebhookStore } from './store.service.ts';
import {
  createRejectedCounter,
  type FailedDelivery,
  type WebhookIntake,
  type AcceptedDelivery,
  type VerifiedDelivery,
  type DeliveryContent,
} from './webhooks.ts';
import type { Generation } from '../engine/generation.ts';
import { maskData, REDACTED_KEY, type PayloadMask } from '../signal/mask.ts';
import { makeSealingMask } from '../signal/seal.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import { announceWork, findFirstDue, draftJob } from '../job/enqueue.service.ts';
import { toStoredJson, type JsonObject } from '../base/json.ts';
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
import type { WebhookTarget } from './target.ts';
import { draftAgent, type AgentWork } from './agent.service.ts';
import { followSignal, withBaggage } from '../pipeline/follow-signal.ts';
import { toEnvelope } from '../pipeline/follow-job.ts';
import { draftRun } from '../pipeline/run/start.service.ts';

export function makeWebhookIntake(context: LedgerContext): WebhookIntake {
  const { ledger, vault, quota, commits } = context;
  const log = context.log.child('webhooks');
  const keep = makeSealingMask(vault, log);
  const receive = makeBatcher<DeliveryDraft, ToldDelivery>(async (drafts) => {
    announceWork(
      context,
      drafts.flatMap(({ emission: { jobs, runs } }) => [...jobs, ...runs]),
    );
    const { told, news } = await ledger.webhooks.accept(drafts, quota.queueLimit());
    const isNew = (_: DeliveryDraft, index: number): boolean => told[index]?.isNew === true;
    const fresh = drafts.filter(isNew);
    commits.publish({
      ...news,
      signals: fresh.map(({ emission }) => emission.signal),
      jobDueInMs: findFirstDue(fresh.flatMap(({ emission }) => emission.jobs)),
    });
    return told;
  });

  return {
    store: makeWebhookStore(context, log),
    rejected: createRejectedCounter(),
    async accept(verified) {
      context.requireAccepting();
      const drafted = await draftDelivery(verified, context.generation, keep).catch(
        (thrown: unknown) => noteFailed(toDuctileError(thrown), verified, ledger),
      );
      if ('error' in drafted) return drafted;
      const { jobs, runs } = drafted.emission;
      const asked = { jobs: jobs.length + runs.length, signals: 1, isCountedThere: true };
      const told = await quota.within(asked, () => receive(drafted));
      if (told.isOther === true) return await noteFailed(keyReused(), verified, ledger);
      if (told.isReplay === true) return { isReplay: true };
      const { signalId, isNew } = told;
      if (!isNew) {
        return { signalId, isNew, skipped: told.skipped, ...(await findFirst(signalId, ledger)) };
      }
      return { signalId, isNew, skipped: drafted.skipped, ...namesOf(verified.target, drafted) };
    },
    recordRefused(refused) {
      ledger.deliveries
        .recordRejected({ ...refused, id: makeId(), verdict: 'refused' })
        .catch((error: unknown) => log.warn('a refused delivery was not written down', { error }));
    },
  };
}

async function draftDelivery(
  verified: VerifiedDelivery,
  generation: Generation,
  keep: PayloadMask,
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
  const what = { webhookId, title, target, payload, event, about, traceparent };
  const from = hops === undefined ? {} : { hops };
  const delivered = { ...what, ...from, isAwaited, jobId, sourceEventId, test };
  return {
    id,
    ...rest,
    testBy: test?.actor,
    ...(await draftEmission(delivered, generation, keep)),
  };
}

/** The job or the run that a new delivery is for. */
function namesOf(
  { kind }: VerifiedDelivery['target'],
  { emission: { jobs, runs }, skipped }: DeliveryDraft,
): Pick<AcceptedDelivery, 'jobId' | 'runId'> {
  const isJob = skipped === undefined && (kind === 'command' || kind === 'agent');
  const isRun = skipped === undefined && kind === 'pipeline';
  return { jobId: isJob ? jobs[0]?.id : undefined, runId: isRun ? runs[0]?.id : undefined };
}

/** The job or run of the first delivery with this signal; the newest one after a retry or replay. */
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

function keyReused(): DuctileError {
  const message = 'another body came with this Idempotency-Key before';
  return new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency-key' });
}

/** What its target cannot take; what is wrong with this process is thrown on. */
async function noteFailed(
  error: DuctileError,
  { webhookId, target, deliveryId, source, headers, bodyBytes, test }: VerifiedDelivery,
  ledger: Ledger,
): Promise<FailedDelivery> {
  if (error.code === 'INTERNAL') throw error;
  const about = { webhookId, deliveryId, source, headers, bodyBytes, testBy: test?.actor };
  const reason = target.kind === 'agent' ? toAgentFailure(error.message) : error.message;
  await ledger.deliveries.recordRejected({ ...about, id: makeId(), verdict: 'failed', reason });
  return { error };
}

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

interface DraftedEmission {
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

export function webhookSource(webhookId: string): string {
  return `${WEBHOOK_SOURCE}${webhookId}`;
}

/** The webhook that starts something itself with such a signal, which no route and no pipeline is. */
export function findStartingWebhook({
  type,
  source,
}: Pick<SignalDraft, 'type' | 'source'>): string | undefined {
  const isBehind = type === RECEIVED && source.startsWith(WEBHOOK_SOURCE);
  return isBehind ? source.slice(WEBHOOK_SOURCE.length) : undefined;
}

function toSignal(
  { webhookId, target, sourceEventId, payload, text, event, about, hops = 1, test }: Kept,
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
    source: webhookSource(webhookId),
    subjectType: 'webhook',
    subjectId: webhookId,
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
  const how = { stored: text, mayWait: true };
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
