import { toDuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { compact, isObject, parseStoredJson, type JsonObject, type Json } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { isSecretName, maskText, REDACTED } from '../base/secrets.ts';
import { toVisibleText } from '../base/text.ts';
import type { WebhooksConfig, Config } from '../config/config.ts';
import type { AcceptedDelivery, RejectedDelivery } from './types.ts';
import {
  budgetOf,
  checkDelivery,
  createUnavailableResponse,
  toVerifiedResponse,
  type AcceptedCheck,
  type RejectedCheck,
  type VerifiedResponse,
  type WebhookKind,
  type WebhookResponse,
} from './check.ts';
import { identifyDelivery, listProofHeaders } from './verify/verify.ts';
import { describeDeliveryEvent } from './event-type.ts';
import type { KnownWebhook, Webhook } from './webhook.ts';
import { createWebhookLimiter, type WebhookLimiter } from './rate-limit.ts';
import {
  traceparentIn,
  type DeliveryTest,
  type IncomingDelivery,
  type WebhookRequest,
} from './request.ts';
import { readEndpoint, requireSecrets } from './store.service.ts';
import type { Tenants } from '../tenant/tenants.ts';
import type { WebhookIntake, Webhooks } from './webhooks.ts';
import { admitWaiter, type ExpectedEnd, type Completion } from '../job/completion.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import { isTerminal } from '../job/job.ts';
import type { JobEnd } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isRunOver } from '../pipeline/run/run.ts';

/** The part of a tenant's engine that accepts deliveries to its webhooks. */
interface TenantReceiver extends ResultWaiter {
  readonly webhookIntake: WebhookIntake;
}

/** The ledgers in which a webhook can be: the one of the context, and those of its tenants. */
interface WebhookLedgers {
  readonly context: LedgerContext;
  readonly intake: WebhookIntake;
  readonly engine: ResultWaiter;
  readonly tenants: Tenants<TenantReceiver> | undefined;
}

/** A webhook and its ledger. The ledger of a tenant stays open until `leave`. */
interface LocatedWebhook {
  readonly known: KnownWebhook;
  readonly intake: WebhookIntake;
  readonly engine: ResultWaiter;
  leave(): void;
}

export function makeWebhooks(
  context: LedgerContext,
  intake: WebhookIntake,
  engine: ResultWaiter,
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
      const endpoint = config().endpoints.find((known) => known.path === path);
      if (endpoint === undefined) return undefined;
      return receive('static', incoming, async () => ({
        known: await readEndpoint(endpoint, intake),
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
  refused: Pick<RejectedDelivery, 'deliveryId' | 'reason'>,
  limiter: WebhookLimiter,
  incoming: IncomingDelivery,
  { known: { webhook }, intake }: LocatedWebhook,
): void {
  const { id } = webhook;
  const isAllowed = limiter.spend(
    `refused ${id}`,
    limits.webhookRejectionsKeptMax,
    performance.now(),
  ).ok;
  if (isAllowed)
    intake.recordRefused({ ...describeRequest(incoming, webhook), webhookId: id, ...refused });
}

/** Masks and shortens the detail, because it can quote the body. */
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
    const wait = { expected, waitMs, gone: incoming.disconnected?.() };
    const end = await waitForEnd(engine, accepted, wait).catch((error: unknown) => {
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

/** `jobId` is the id of the job to create, if the sender waits for its result. */
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
    about: describeDeliveryEvent(webhook, incoming.request, { payload, event, deliveryId }),
    jobId,
    isAwaited: jobId !== undefined,
    traceparent: traceparentIn(incoming),
    ...compact({ hops: incoming.hops }),
    test: incoming.test ?? claimTest(incoming.request),
  });
}

async function locate(
  { context: { ledger }, intake, engine, tenants }: WebhookLedgers,
  webhookId: string,
): Promise<LocatedWebhook | undefined> {
  const known = await intake.store.find(webhookId);
  if (known !== undefined) return { known, intake, engine, leave: () => undefined };
  if (tenants === undefined || webhookId.length > limits.webhookIdCharsMax) return undefined;
  const slug = await ledger.tenants.findByKey('hook', webhookId);
  const visit = slug === undefined ? undefined : await visitIfExists(tenants, slug);
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

async function visitIfExists(tenants: Tenants<TenantReceiver>, slug: string) {
  try {
    return await tenants.visit(slug);
  } catch (thrown) {
    if (toDuctileError(thrown).code === 'TENANT_NOT_FOUND') return undefined;
    throw thrown;
  }
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
export interface ResultWaiter extends Completion {
  readonly config: Config;
  readonly ledger: Ledger;
}

/** How long a sender waits for the result of its delivery. */
interface ResultWait {
  /** The end of the job that the delivery creates, if it creates one. */
  readonly expected: ExpectedEnd;
  readonly waitMs: number;
  /** Fires when the sender disconnects. */
  readonly gone: AbortSignal | undefined;
}

/**
 * Waits for the end of a delivery's job or run. Returns its status, and its result if it succeeded.
 * Undefined if the time is over, or if the sender has disconnected.
 */
async function waitForEnd(
  engine: ResultWaiter,
  { isNew, jobId, runId }: Pick<AcceptedDelivery, 'isNew' | 'jobId' | 'runId'>,
  { expected, waitMs: wantedMs, gone }: ResultWait,
): Promise<JsonObject | undefined> {
  const waitMs = Math.min(wantedMs, engine.config.api.maxSyncTimeoutMs);
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
  engine: ResultWaiter,
  jobId: string,
  waitMs: number,
  gone: AbortSignal | undefined,
): Promise<JobEnd | undefined> {
  const { status } = await engine.waitFor(jobId, waitMs, gone);
  if (!isTerminal(status)) return undefined;
  const attempts = await engine.ledger.attempts.listByJob([jobId]);
  return { status, result: attempts.at(-1)?.result ?? null };
}

/** The sender gets only the result of a plugin's response, and not its state and its log. */
function resultIn({ result }: JobEnd): Json {
  const response = parseStoredJson(result);
  return isObject(response) ? (response['result'] ?? null) : null;
}

/** Only the operator sees why a job or run failed. */
function showEnd(status: string, result: Json): JsonObject {
  return status === 'succeeded' ? { status, result } : { status };
}

/** The header with the token of a test delivery. */
export const TEST_HEADER = 'x-ductile-test-token';

/** Test deliveries that this process has sent to its own listener, by token. */
const sentTests = new Map<string, DeliveryTest>();

/** Marks the next delivery with this token as a test. Returns a function that revokes the token. */
export function expectTest(token: string, test: DeliveryTest): () => void {
  sentTests.set(token, test);
  return () => void sentTests.delete(token);
}

/** Returns the test that sent a request. Undefined for a sender's request. Each token counts once. */
function claimTest({ headers }: WebhookRequest): DeliveryTest | undefined {
  const token = headers.find(([name]) => name === TEST_HEADER)?.[1];
  const test = token === undefined ? undefined : sentTests.get(token);
  if (token !== undefined) sentTests.delete(token);
  return test;
}
