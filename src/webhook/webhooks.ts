import type { JsonObject } from '../base/json.ts';
import type {
  AcceptedDelivery,
  DeliveryDraft,
  FailedDelivery,
  RejectedDelivery,
  ReplayedDelivery,
} from './types.ts';
import type { WebhookResponse } from './check.ts';
import type { RejectedCounter } from './rate-limit.ts';
import type { KnownWebhook } from './webhook.ts';
import type { WebhookTarget } from './target.ts';
import type { DeliveryTest, IncomingDelivery } from './request.ts';

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
  recordRefused(refused: Omit<RejectedDelivery, 'id' | 'verdict'>): void;
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
