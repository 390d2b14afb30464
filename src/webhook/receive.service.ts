import { toDuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { isObject, parseStoredJson, type JsonObject, type Json } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { isSecretName, maskText, REDACTED } from '../base/secrets.ts';
import { toVisibleText } from '../base/text.ts';
import type { WebhooksConfig, Config } from '../config/config.ts';
import type { UntakenDelivery } from './types.ts';
import {
  budgetOf,
  checkDelivery,
  type WebhookResponse,
  type WebhookKind,
  type AcceptedCheck,
  type RejectedCheck,
} from './check.ts';
import { identifyDelivery, type DeliveryIdentity } from './verify/verify.ts';
import { readDeliveryEvent } from './event-type.ts';
import type { KnownWebhook, Webhook } from './webhook.ts';
import { createWebhookLimiter, type WebhookLimiter } from './rate-limit.ts';
import { listProofHeaders } from './verify/scheme.ts';
import { traceparentIn, type IncomingDelivery } from './request.ts';
import { knowEndpoint, requireSecrets } from './store.service.ts';
import type { Tenants } from '../tenant/tenants.ts';
import { takeTest } from './test-delivery.service.ts';
import {
  createUnavailableResponse,
  toVerifiedResponse,
  type WebhookIntake,
  type Webhooks,
  type VerifiedResponse,
  type AcceptedDelivery,
} from './webhooks.ts';
import { admitWaiter, type ExpectedEnd, type Completion } from '../job/completion.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import { isTerminal } from '../job/job.ts';
import type { JobEnd } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isRunOver } from '../pipeline/run/run.ts';

/** The part of a tenant's engine that accepts deliveries to its webhooks. */
interface TenantReceiver extends Waiter {
  readonly webhookIntake: WebhookIntake;
}

/** Where a webhook of this ledger or of a tenant can be found. */
interface Entrances {
  readonly context: LedgerContext;
  readonly intake: WebhookIntake;
  readonly engine: Waiter;
  readonly tenants: Tenants<TenantReceiver> | undefined;
}

/** A webhook and the ledger that it is in, until `leave`. */
interface LocatedWebhook {
  readonly known: KnownWebhook;
  readonly intake: WebhookIntake;
  readonly engine: Waiter;
  leave(): void;
}

export function makeWebhooks(
  context: LedgerContext,
  intake: WebhookIntake,
  engine: Waiter,
  tenants: Tenants<TenantReceiver> | undefined,
): Webhooks {
  const log = context.log.child('webhooks');
  const config = (): WebhooksConfig => context.config.webhooks;
  const limiter = createWebhookLimiter();
  const receive = async (
    kind: WebhookKind,
    incoming: IncomingDelivery,
    find: () => Promise<LocatedWebhook | undefined>,
  ): Promise<WebhookResponse> => {
    let located: LocatedWebhook | undefined;
    try {
      located = await find();
      return await respond({ config: config(), log }, limiter, { kind, incoming, located });
    } catch (thrown) {
      const error = toDuctileError(thrown);
      if (error.code === 'INTERNAL') throw error;
      // The sender gets no details, so an operator must see a problem that doesn't go away by itself.
      const level = error.kind.status >= 500 && !error.kind.retryable ? 'warn' : 'debug';
      log[level]('a delivery was not accepted', { hook_id: located?.known.webhook.id, error });
      return createUnavailableResponse(error);
    } finally {
      located?.leave();
    }
  };
  return {
    receive: (webhookId, incoming) =>
      receive('managed', incoming, () => locate({ context, intake, engine, tenants }, webhookId)),
    receiveAt(path, incoming) {
      const endpoint = config().endpoints.find((one) => one.path === path);
      if (endpoint === undefined) return undefined;
      return receive('static', incoming, async () => ({
        known: await knowEndpoint(endpoint, intake),
        intake,
        engine,
        leave: () => undefined,
      }));
    },
    requireSecrets: () => requireSecrets(config(), intake),
  };
}

interface LocatedDelivery {
  readonly kind: WebhookKind;
  readonly incoming: IncomingDelivery;
  readonly located: LocatedWebhook | undefined;
}

async function respond(
  { config, log }: { readonly config: WebhooksConfig; readonly log: Log },
  limiter: WebhookLimiter,
  delivery: LocatedDelivery,
): Promise<WebhookResponse> {
  const { kind, incoming, located } = delivery;
  const known = located?.known;
  const nowMs = performance.now();
  const check = { kind, incoming, known, limiter, nowMs, wallMs: Date.now() };
  const result = checkDelivery(config.order, check);
  if (result.kind === 'rejected') {
    if (result.isCharged) limiter.chargeSource(incoming.source, nowMs);
    recordRejected(result, limiter, delivery);
    log.debug('a delivery was rejected', { hook_id: known?.webhook.id, reason: result.reason });
    return result.response;
  }
  if (located === undefined) throw new TypeError('a delivery without a webhook was accepted');
  const verified = await acceptAndRespond(result, incoming, located, log);
  if (!verified.isNew) limiter.refund(budgetOf(located.known.webhook));
  if (verified.refused !== undefined) {
    const { deliveryId = null } = result.proof;
    recordRefused({ deliveryId, reason: verified.refused }, limiter, incoming, located);
  }
  return verified.response;
}

/** Records only deliveries to existing webhooks, at a bounded rate, so that the ledger can't be flooded. */
function recordRejected(
  rejected: RejectedCheck,
  limiter: WebhookLimiter,
  { incoming, located }: LocatedDelivery,
): void {
  const { status } = rejected.response;
  if (located === undefined || status === 200 || status === 404) return;
  const { webhook } = located.known;
  if (status === 429) return located.intake.rejected.note(webhook.id, performance.now());
  const refused = { deliveryId: null, reason: formatReason(rejected) };
  recordRefused(refused, limiter, incoming, located);
}

function recordRefused(
  refused: Pick<UntakenDelivery, 'deliveryId' | 'reason'>,
  limiter: WebhookLimiter,
  incoming: IncomingDelivery,
  { known: { webhook }, intake }: LocatedWebhook,
): void {
  const { id } = webhook;
  const isKept = limiter.spend(
    `refused ${id}`,
    limits.webhookRejectionsKeptMax,
    performance.now(),
  ).ok;
  if (isKept)
    intake.recordRefused({ ...describeRequest(incoming, webhook), webhookId: id, ...refused });
}

/** Masked and bounded, because the body can have a part in the text. */
function formatReason({ reason, detail }: RejectedCheck): string {
  if (detail === undefined) return reason;
  return `${reason}: ${toVisibleText(maskText(detail.slice(0, limits.webhookReasonChars)))}`;
}

/** When too many senders already wait for results, accepts the delivery and responds at once. */
async function acceptAndRespond(
  check: AcceptedCheck,
  incoming: IncomingDelivery,
  located: LocatedWebhook,
  log: Log,
): Promise<VerifiedResponse> {
  const { engine, known } = located;
  const { id: webhookId, waitMs } = known.webhook;
  const leave = waitMs > 0 ? admitWaiter(engine) : undefined;
  if (leave === undefined) {
    return toVerifiedResponse(webhookId, await accept(check, incoming, located));
  }
  const jobId = makeId();
  // Subscribes before the commit, so that the end of a fast job isn't missed.
  const expected = engine.expectEnd(jobId);
  try {
    const accepted = await accept(check, incoming, located, jobId);
    const verified = toVerifiedResponse(webhookId, accepted);
    if (!('signalId' in accepted)) return verified;
    const sender = { expected, waitMs, gone: incoming.hungUp?.() };
    const end = await waitForEnd(engine, accepted, sender).catch((error: unknown) => {
      // The delivery is committed, so the sender must not retry it.
      log.warn('the result of a delivery cannot be read', { error });
      return undefined;
    });
    if (end === undefined) return verified;
    const { body } = verified.response;
    return { ...verified, response: { status: 200, body: { ...body, ...end } } };
  } finally {
    expected.drop();
    leave();
  }
}

/** With the id of its job if the sender waits for the result. */
async function accept(
  { proof, payload, event }: AcceptedCheck,
  incoming: IncomingDelivery,
  { known: { webhook }, intake }: LocatedWebhook,
  jobId?: string,
): ReturnType<WebhookIntake['accept']> {
  const identity = identifyDelivery(webhook.auth, proof, incoming.request, { payload, event });
  const { deliveryId } = identity;
  return await intake.accept({
    ...describeRequest(incoming, webhook),
    webhookId: webhook.id,
    title: webhook.title,
    target: webhook.target,
    ...identity,
    isStrict: webhook.replay === 'strict',
    payload,
    event,
    about: describeEvent(webhook, incoming, { payload, event, deliveryId }),
    jobId,
    isAwaited: jobId !== undefined,
    traceparent: traceparentIn(incoming),
    ...(incoming.hops === undefined ? {} : { hops: incoming.hops }),
    test: incoming.test ?? takeTest(incoming.request),
  });
}

async function locate(
  { context: { ledger }, intake, engine, tenants }: Entrances,
  webhookId: string,
): Promise<LocatedWebhook | undefined> {
  const known = await intake.store.find(webhookId);
  if (known !== undefined) return { known, intake, engine, leave: () => undefined };
  if (tenants === undefined || webhookId.length > limits.webhookIdCharsMax) return undefined;
  const slug = await ledger.tenants.findByKey('hook', webhookId);
  const visit = slug === undefined ? undefined : await visitIfThere(tenants, slug);
  if (visit === undefined) return undefined;
  try {
    const { engine: tenant } = visit;
    const found = await tenant.webhookIntake.store.find(webhookId);
    if (found !== undefined) {
      return {
        known: found,
        intake: tenant.webhookIntake,
        engine: tenant,
        leave: () => visit.end(),
      };
    }
  } catch (error) {
    visit.end();
    throw error;
  }
  visit.end();
  return undefined;
}

async function visitIfThere(tenants: Tenants<TenantReceiver>, slug: string) {
  try {
    return await tenants.visit(slug);
  } catch (thrown) {
    if (toDuctileError(thrown).code === 'TENANT_NOT_FOUND') return undefined;
    throw thrown;
  }
}

/** The event type and headers of the request; undefined if it has neither. */
function describeEvent(
  { id, eventRules }: Webhook,
  { request }: IncomingDelivery,
  {
    payload,
    event: cloudEvent,
    deliveryId,
  }: Pick<AcceptedCheck, 'payload' | 'event'> & Pick<DeliveryIdentity, 'deliveryId'>,
): JsonObject | undefined {
  const { eventType, event, headers } = readDeliveryEvent(eventRules, request, payload, cloudEvent);
  const hasHeaders = Object.keys(headers).length > 0;
  if (eventType === undefined && !hasHeaders) return undefined;
  return {
    id,
    ...(event === undefined ? {} : { event }),
    ...(eventType === undefined ? {} : { event_type: eventType }),
    ...(deliveryId === null ? {} : { delivery_id: deliveryId }),
    ...(hasHeaders ? { headers } : {}),
  };
}

function describeRequest(incoming: IncomingDelivery, { auth }: Webhook) {
  const { request, source, bodyBytes = request.rawBody.length } = incoming;
  const proof = listProofHeaders(auth);
  const headers = request.headers.map(([name, value]) => [
    name,
    proof.has(name) ? REDACTED : redactHeader(name, value),
  ]);
  return { source, headers: JSON.stringify(headers), bodyBytes };
}

const PROOF = /auth|cookie|signature|hmac|token|secret|key/;

function redactHeader(name: string, value: string): string {
  if (PROOF.test(name) || isSecretName(name)) return REDACTED;
  return maskText(value.slice(0, limits.webhookHeaderKeptChars));
}

/** The part of an engine that a delivery needs to wait for its result. */
export interface Waiter extends Completion {
  readonly config: Config;
  readonly ledger: Ledger;
}

/** Somebody who has sent a delivery and stays on the line. */
interface Caller {
  /** Of the job that the delivery is for, if it is for one. */
  readonly expected: ExpectedEnd;
  readonly waitMs: number;
  readonly gone: AbortSignal | undefined;
}

/**
 * What a delivery came to, as far as whoever sent it is told: how it ended, and its result when that
 * is well. Undefined when it goes on for longer, or nobody is on the line any more.
 */
async function waitForEnd(
  engine: Waiter,
  { isNew, jobId, runId }: Pick<AcceptedDelivery, 'isNew' | 'jobId' | 'runId'>,
  { expected, waitMs: askedMs, gone }: Caller,
): Promise<JsonObject | undefined> {
  const waitMs = Math.min(askedMs, engine.config.api.maxSyncTimeoutMs);
  if (jobId !== undefined) {
    const end = isNew
      ? await expected.wait(waitMs, gone)
      : await waitForFirst(engine, jobId, waitMs, gone);
    return end && showEnd(end.status, resultIn(end));
  }
  if (runId === undefined) return undefined;
  const { status, output } = await engine.waitForRun(runId, waitMs, gone);
  if (!isRunOver(status)) return undefined;
  return showEnd(status, parseStoredJson(output));
}

/** The job of an earlier delivery may have ended long ago, so read it before waiting. */
async function waitForFirst(
  engine: Waiter,
  jobId: string,
  waitMs: number,
  gone: AbortSignal | undefined,
): Promise<JobEnd | undefined> {
  const { status } = await engine.waitFor(jobId, waitMs, gone);
  if (!isTerminal(status)) return undefined;
  const attempts = await engine.ledger.attempts.listByJob([jobId]);
  return { status, result: attempts.at(-1)?.result ?? null };
}

/** What else a plugin answers, such as its state and its log, is not for whoever sent this. */
function resultIn({ result }: JobEnd): Json {
  const answer = parseStoredJson(result);
  return isObject(answer) ? (answer['result'] ?? null) : null;
}

/** Why it did not succeed is for the operator. */
function showEnd(status: string, result: Json): JsonObject {
  return status === 'succeeded' ? { status, result } : { status };
}
