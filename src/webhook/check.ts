import type { DuctileError } from '../base/errors.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { LimitResult, WebhookLimiter } from './rate-limit.ts';
import {
  findMediaType,
  readDeliveryBody,
  type BodyFault,
  type BodyResult,
  type IncomingDelivery,
} from './request.ts';
import type { RefusalReason, VerifiedProof } from './verify/verdict.ts';
import { verifyDelivery } from './verify/verify.ts';
import type { AcceptedDelivery, FailedDelivery, ReplayedDelivery } from './types.ts';
import type { KnownWebhook, Webhook } from './webhook.ts';

/**
 * The order in which a delivery is checked decides what an unverified sender can learn. `strict` looks
 * at nothing before it is verified. `compat` is the order and the wording of the original program, which
 * reads the body first.
 */
export const checkOrders = ['strict', 'compat'] as const;
export type CheckOrder = (typeof checkOrders)[number];

/** A static endpoint of the configuration responds to a wrong signature with 403, a managed webhook with 401. */
export type WebhookKind = 'managed' | 'static';

/** A delivery, the webhook that it is for, and the limits that count for both. */
interface DeliveryCheck {
  readonly kind: WebhookKind;
  readonly incoming: IncomingDelivery;
  /** Undefined if there is no such webhook. */
  readonly known: KnownWebhook | undefined;
  readonly limiter: Pick<WebhookLimiter, 'checkSource' | 'spend'>;
  /** The monotonic clock of the limiter. */
  readonly nowMs: number;
  /** The wall clock that signed times are compared with. */
  readonly wallMs: number;
}

export type CheckResult = AcceptedCheck | RejectedCheck;

export interface AcceptedCheck {
  readonly kind: 'accepted';
  readonly proof: VerifiedProof;
  readonly payload: JsonObject;
  readonly event: JsonObject | undefined;
}

export interface RejectedCheck {
  readonly kind: 'rejected';
  readonly response: WebhookResponse;
  /** For the delivery's row and the log, never for the sender. */
  readonly reason: RejectReason;
  /** The exact fault. The sender may have chosen the words. */
  readonly detail?: string;
  /** True if the rejection counts against the source. */
  readonly isCharged: boolean;
}

export interface WebhookResponse {
  readonly status: number;
  readonly body: JsonObject;
  readonly retryAfterSeconds?: number;
}

type RejectReason =
  | 'challenge'
  | 'source_limited'
  | 'hook_limited'
  | 'too_large'
  | 'hook_unknown'
  | 'hook_disabled'
  | BodyFault
  | RefusalReason;

/**
 * A source that failed too often gets 429 instead of the real reason. A verified sender behind the same
 * address is still accepted, as long as its body is small and cheap to verify.
 */
export function checkDelivery(order: CheckOrder, delivery: DeliveryCheck): CheckResult {
  const { incoming, limiter, nowMs } = delivery;
  const pass = limiter.checkSource(incoming.source, nowMs);
  if (!pass.ok && !isSmall(incoming)) return reject429('source_limited', pass);
  const result = order === 'strict' ? checkStrict(delivery) : checkCompat(delivery);
  const isUnverified = result.kind === 'rejected' && result.isCharged;
  return pass.ok || !isUnverified ? result : reject429('source_limited', pass);
}

function checkStrict(delivery: DeliveryCheck): CheckResult {
  const { incoming, known } = delivery;
  if (incoming.isOversize) return rejectTooLarge();
  // A disabled webhook looks like one that doesn't exist.
  if (known === undefined) return reject(404, 'not_found', 'hook_unknown');
  if (!known.webhook.enabled) return reject(404, 'not_found', 'hook_disabled');
  const proof = checkProof(delivery, known);
  if (proof.kind === 'rejected') return proof;
  // Only now: the webhook's own size limit would show an unverified sender that it exists.
  if (isTooLarge(incoming, known.webhook)) return rejectTooLarge(true);
  const body = readDeliveryBody(incoming.request, 'all');
  if (!body.ok) return rejectBody(body, true);
  return { kind: 'accepted', proof, payload: body.payload, event: body.event };
}

function checkCompat(delivery: DeliveryCheck): CheckResult {
  const { incoming, known } = delivery;
  if (findMediaType(incoming.request, 'json') === undefined) {
    return reject(415, 'content_type_must_be_json', 'media_type_unsupported');
  }
  if (isTooLarge(incoming, known?.webhook)) return rejectTooLarge();
  const body = readDeliveryBody(incoming.request, 'json');
  if (!body.ok) return rejectBody(body);
  if (known === undefined) return reject(404, 'hook_not_found', 'hook_unknown');
  if (!known.webhook.enabled) return reject(403, 'hook_disabled', 'hook_disabled');
  const proof = checkProof(delivery, known);
  if (proof.kind === 'rejected') return proof;
  return { kind: 'accepted', proof, payload: body.payload, event: body.event };
}

/** Verifies the delivery, and then spends the budget of its webhook. */
function checkProof(
  { kind, incoming: { request }, limiter, nowMs, wallMs }: DeliveryCheck,
  { webhook, secrets }: KnownWebhook,
): VerifiedProof | RejectedCheck {
  const proof = verifyDelivery(webhook.auth, request, secrets, wallMs);
  if (proof.kind === 'refused') {
    return kind === 'static'
      ? reject(403, 'forbidden', proof.reason)
      : reject(401, 'unauthorized', proof.reason);
  }
  if (proof.kind === 'challenge') {
    const response = { status: 200, body: { challenge: proof.answer } };
    return { kind: 'rejected', response, reason: 'challenge', isCharged: false };
  }
  const pass = limiter.spend(budgetOf(webhook), webhook.ratePerMinute, nowMs);
  return pass.ok ? proof : reject429('hook_limited', pass);
}

/** The limiter's key for the verified deliveries of a webhook. */
export function budgetOf({ id }: Webhook): string {
  return `hook ${id}`;
}

function isSmall({ isOversize, request }: IncomingDelivery): boolean {
  return !isOversize && request.rawBody.length <= limits.webhookSmallBodyBytes;
}

function isTooLarge(
  { isOversize, request }: IncomingDelivery,
  webhook: Webhook | undefined,
): boolean {
  return (
    isOversize || request.rawBody.length > (webhook?.maxBodyBytes ?? limits.webhookBodyBytesMax)
  );
}

function rejectTooLarge(isVerified = false): RejectedCheck {
  return reject(413, 'payload_too_large', 'too_large', isVerified);
}

function rejectBody(
  { fault, message: detail }: Extract<BodyResult, { ok: false }>,
  isVerified = false,
): RejectedCheck {
  const status = fault === 'media_type_unsupported' ? 415 : 400;
  return { ...reject(status, fault, fault, isVerified), detail };
}

function reject429(
  reason: 'source_limited' | 'hook_limited',
  { retryAfterMs }: Extract<LimitResult, { ok: false }>,
): RejectedCheck {
  const retryAfterSeconds = Math.max(1, Math.ceil(retryAfterMs / 1000));
  const response = { status: 429, body: { error: 'rate_limited' }, retryAfterSeconds };
  return { kind: 'rejected', response, reason, isCharged: false };
}

/** Rejections before the proof are charged to the source: anyone can cause them. */
function reject(
  status: number,
  error: string,
  reason: RejectReason,
  isVerified = false,
): RejectedCheck {
  const response = { status, body: { error } };
  return { kind: 'rejected', response, reason, isCharged: !isVerified };
}

/** The response to a verified delivery. */
export interface VerifiedResponse {
  readonly response: WebhookResponse;
  /** False for a duplicate, which starts nothing. */
  readonly isNew: boolean;
  /** Why a verified delivery was refused. */
  readonly refused?: string;
}

const REPLAYED = 'replayed';

export function toVerifiedResponse(
  webhookId: string,
  delivery: AcceptedDelivery | FailedDelivery | ReplayedDelivery,
): VerifiedResponse {
  if ('error' in delivery) return { response: createFailedResponse(delivery), isNew: true };
  if ('isReplay' in delivery) {
    // A copy learns nothing about the first delivery.
    const response = { status: 409, body: { error: REPLAYED } };
    return { response, isNew: false, refused: REPLAYED };
  }
  const { signalId, isNew, jobId, runId, skipped, status } = delivery;
  const { body, ...rest } = createAcceptedResponse(webhookId, signalId, !isNew);
  const response = {
    ...rest,
    body: {
      ...body,
      ...compact({
        job_id: jobId,
        run_id: runId,
        status,
        skipped: skipped?.replace(/^skipped:/, ''),
      }),
    },
  };
  return { response, isNew };
}

/** Only for committed deliveries. A duplicate gets 200 and starts nothing. */
export function createAcceptedResponse(
  webhookId: string,
  signalId: string,
  isDuplicate: boolean,
): WebhookResponse {
  const body = { accepted: true, hook_id: webhookId, signal_id: signalId };
  return isDuplicate ? { status: 200, body: { ...body, duplicate: true } } : { status: 202, body };
}

/**
 * A missing target may be back when the sender retries. A payload that doesn't fit will never fit.
 */
function createFailedResponse({ error }: FailedDelivery): WebhookResponse {
  const { status } = error.kind;
  if (status === 404 || status === 503) return createUnavailableResponse(error);
  if (error.code === 'IDEMPOTENCY_MISMATCH') {
    return { status: 422, body: { error: 'idempotency_mismatch' } };
  }
  return { status: 422, body: { error: 'payload_refused' } };
}

/** The delivery is fine. The sender gets no details about a problem of this service. */
export function createUnavailableResponse({ kind }: DuctileError): WebhookResponse {
  const retryAfterSeconds = limits.webhookRetryAfterSeconds;
  return kind.status === 429
    ? { status: 429, body: { error: 'rate_limited' }, retryAfterSeconds }
    : { status: 503, body: { error: 'target_unavailable' }, retryAfterSeconds };
}
