import type { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { DeliveryDraft, ToldDelivery, UntakenDelivery } from './types.ts';
import { createAcceptedResponse, type WebhookResponse } from './check.ts';
import type { KnownWebhook } from './webhook.ts';
import type { WebhookTarget } from './target.ts';
import type { DeliveryTest, IncomingDelivery } from './request.ts';
import { limits } from '../base/limits.ts';

/** Receives deliveries for all ledgers of the process. */
export interface Webhooks {
  /** Delivers to the webhook with this id. A delivery is committed before its response says so. */
  receive(webhookId: string, incoming: IncomingDelivery): Promise<WebhookResponse>;
  /** Delivers to the configured endpoint at this path. Undefined if there is none. */
  receiveAt(path: string, incoming: IncomingDelivery): Promise<WebhookResponse> | undefined;
  /** Throws if a configured endpoint has no secret to verify with. */
  requireSecrets(): Promise<void>;
}

/** The webhooks of one ledger. It accepts their verified deliveries. */
export interface WebhookIntake {
  readonly store: WebhookStore;
  /** Committed when it resolves. A delivery that its target can't accept is recorded, too. */
  accept(verified: VerifiedDelivery): Promise<AcceptedDelivery | FailedDelivery | ReplayedDelivery>;
  /** Records a refused delivery in the background. The sender doesn't wait for it. */
  recordRefused(refused: Omit<UntakenDelivery, 'id' | 'verdict'>): void;
  /** Counts deliveries over the rate limit, which are not recorded. */
  readonly rejected: RejectedCounter;
}

export interface WebhookStore {
  find(id: string): Promise<KnownWebhook | undefined>;
  /** The current value of a credential. Undefined if there is none. */
  credential(name: string): Promise<string | undefined>;
  /** Reads which credentials each webhook uses now. */
  references(): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Reads all webhooks again before the next delivery. */
  refresh(): Promise<void>;
}

/** The content of a delivery, and its webhook. */
export interface DeliveryContent {
  readonly webhookId: string;
  /** The display name of the webhook. */
  readonly title: string;
  readonly target: WebhookTarget;
  /** Identifies the delivery among those of the same webhook. */
  readonly sourceEventId: string;
  readonly payload: JsonObject;
  /** The attributes of a CloudEvent. */
  readonly event: JsonObject | undefined;
  /** The event type and headers of the delivery. Undefined if it has neither. */
  readonly about?: JsonObject | undefined;
  /** The trace context of the sender. */
  readonly traceparent?: string | undefined;
  /** True if the sender waits for the result. */
  readonly isAwaited?: boolean;
  /** The id of its first job, created by the caller that waits for its end. */
  readonly jobId?: string | undefined;
  /** Set for a replay: the signal of the first delivery. */
  readonly again?: { readonly signalId: string; readonly atMs: number };
  /** The distance from the first cause. A delivery from outside has 1. */
  readonly hops?: number;
  /** Set if `webhook.test` made it, and not a sender. */
  readonly test?: DeliveryTest | undefined;
}

export interface VerifiedDelivery
  extends
    Pick<
      DeliveryDraft,
      'deliveryId' | 'replayKey' | 'isStrict' | 'source' | 'headers' | 'bodyBytes'
    >,
    Omit<DeliveryContent, 'sourceEventId'> {}

export interface AcceptedDelivery extends Pick<ToldDelivery, 'signalId' | 'isNew'> {
  /** The job of the delivery. For a duplicate, the job of the first delivery. */
  readonly jobId: string | undefined;
  /** The run of the delivery, if it started a pipeline. */
  readonly runId: string | undefined;
  /** The status of that job or run, for a duplicate. */
  readonly status?: string | undefined;
  /** The reason why its target was not started, although nothing failed. */
  readonly skipped: string | undefined;
}

/** A copy under another delivery id, which the webhook refuses. */
interface ReplayedDelivery {
  readonly isReplay: true;
}

export interface FailedDelivery {
  readonly error: DuctileError;
}

export interface VerifiedResponse {
  readonly response: WebhookResponse;
  /** False for a duplicate, which starts nothing. */
  readonly isNew: boolean;
  /** Why a verified delivery was refused. */
  readonly refused?: string;
}

const REPLAYED = 'replayed';

/** Creates the response to a verified delivery. */
export function toVerifiedResponse(
  webhookId: string,
  taken: AcceptedDelivery | FailedDelivery | ReplayedDelivery,
): VerifiedResponse {
  if ('error' in taken) return { response: createFailedResponse(taken), isNew: true };
  if ('isReplay' in taken) {
    // A copy learns nothing about the first delivery.
    const answer = { status: 409, body: { error: REPLAYED } };
    return { response: answer, isNew: false, refused: REPLAYED };
  }
  return { response: createAcceptedBody(webhookId, taken), isNew: taken.isNew };
}

function createAcceptedBody(webhookId: string, taken: AcceptedDelivery): WebhookResponse {
  const { signalId, isNew, jobId, runId, skipped, status: first } = taken;
  const { status, body } = createAcceptedResponse(webhookId, signalId, !isNew);
  return {
    status,
    body: {
      ...body,
      ...(jobId === undefined ? {} : { job_id: jobId }),
      ...(runId === undefined ? {} : { run_id: runId }),
      ...(first === undefined ? {} : { status: first }),
      ...(skipped === undefined ? {} : { skipped: skipped.replace(/^skipped:/, '') }),
    },
  };
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

/** Counts deliveries over the rate limit in the memory of this process, for a while. */
interface RejectedCounter {
  note(webhookId: string, nowMs: number): void;
  /** The number of recent ones. */
  count(webhookId: string, nowMs: number): number;
}

export function createRejectedCounter(): RejectedCounter {
  const streaks = new Map<string, { readonly count: number; readonly lastMs: number }>();
  const count = (webhookId: string, nowMs: number): number => {
    const known = streaks.get(webhookId);
    return known === undefined || nowMs - known.lastMs > limits.webhookThrottledMs
      ? 0
      : known.count;
  };
  return {
    note(webhookId, nowMs) {
      const next = { count: count(webhookId, nowMs) + 1, lastMs: nowMs };
      // Moved to the end, so that the longest idle one is dropped first.
      streaks.delete(webhookId);
      streaks.set(webhookId, next);
      const [oldest = webhookId] = streaks.keys();
      if (streaks.size > limits.webhookWindowsMax) streaks.delete(oldest);
    },
    count,
  };
}
