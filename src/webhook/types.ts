import type { Timestamp } from '../base/clock.ts';
import type { DuctileError } from '../base/errors.ts';
import type { SealedText } from '../base/seal.ts';
import { columnNamed, columnOf, table, type RowOf } from '../ledger/table.ts';
import type { JobStatus } from '../job/job.ts';
import type { RunStatus } from '../pipeline/run/run.ts';
import type { AgentJob } from './agent-outcome.ts';
import type { Emission, RunCommitEvents } from '../pipeline/run/types.ts';

export interface TargetRow {
  readonly id: string;
  readonly kind: 'job' | 'run';
  readonly signalId: string;
  readonly status: JobStatus | RunStatus;
}

export interface AgentJobRow extends AgentJob {
  readonly id: string;
  readonly signalId: string;
}

export const webhookTable = table('webhooks', {
  id: 'text',
  /** JSON text: the entry without its secrets. */
  settings: 'text',
  keyId: 'text?',
  sealed: 'text?',
  createdBy: 'text',
  createdAt: 'time',
  updatedBy: 'text',
  updatedAt: 'time',
  triggerCount: 'int',
  lastTriggeredAt: 'time?',
  /** The reason why the last verified delivery was not accepted. Null if it was. */
  lastError: 'text?',
});

export interface WebhookRow extends Omit<RowOf<typeof webhookTable>, 'keyId' | 'sealed'> {
  /** The encrypted secrets. Null if it has none of its own. */
  readonly sealed: SealedText | null;
}

export type WebhookDraft = Pick<WebhookRow, 'id' | 'settings' | 'sealed'>;

/** A change of a webhook. Missing fields stay. */
export interface WebhookChange {
  readonly id: string;
  /** The last update that the caller knows. The change is refused if there was a later one. */
  readonly seenAt: Timestamp;
  readonly settings?: string;
  readonly sealed?: SealedText;
}

export const deliveryTable = table('webhook_deliveries', {
  seq: 'int',
  id: 'text',
  webhookId: columnNamed('hook_id', 'text'),
  /** `skipped`: it was accepted, but its target was not started for the reason. */
  verdict: columnOf<'accepted' | 'skipped' | 'failed' | 'refused'>('text'),
  reason: 'text?',
  /** The sender's id of the delivery. */
  deliveryId: 'text?',
  /** A digest of bytes that may be accepted only once. */
  replayKey: 'text?',
  /** The address of the sender. Forwarded addresses count only for trusted proxies. */
  source: 'text',
  /** JSON text, with secrets masked. */
  headers: 'text',
  bodyBytes: 'int',
  signalId: 'text?',
  /** The number of duplicates. */
  duplicates: 'int',
  receivedAt: 'time',
  /** The actor whose `webhook.test` made it. Null if a sender did. */
  testBy: 'text?',
});

export type DeliveryRow = RowOf<typeof deliveryTable>;

type Delivery = Pick<
  DeliveryRow,
  'id' | 'webhookId' | 'deliveryId' | 'source' | 'headers' | 'bodyBytes'
> & { readonly testBy?: string | undefined };

export interface DeliveryDraft extends Delivery {
  readonly replayKey: DeliveryRow['replayKey'];
  /** True if the same digest under another delivery id is refused, and not a duplicate. */
  readonly isStrict?: boolean;
  readonly emission: Emission;
  /** The reason why its target was not started, although nothing failed. */
  readonly skipped?: string | undefined;
}

/** A delivery that started nothing. */
export interface RejectedDelivery extends Delivery {
  /** `failed`: it was verified, but its target could not accept it. */
  readonly verdict: 'failed' | 'refused';
  readonly reason: string;
}

export interface AcceptResult {
  /** A result per delivery, in the same order. */
  readonly results: readonly DeliveryResult[];
  readonly events: RunCommitEvents;
}

export interface DeliveryResult {
  readonly signalId: string;
  /** False for a duplicate. */
  readonly isNew: boolean;
  /** Set if the earlier delivery had the same idempotency key and another body. */
  readonly isKeyReused?: true;
  /** Set if the same signed bytes were accepted under another id, and the webhook refuses that. */
  readonly isReplay?: true;
  /** For a duplicate: the reason why the first delivery started nothing. */
  readonly skipped?: string;
}

/** An accepted delivery, or a duplicate of one. */
export interface AcceptedDelivery extends Pick<DeliveryResult, 'signalId' | 'isNew'> {
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
export interface ReplayedDelivery {
  readonly isReplay: true;
}

/** A verified delivery that its target can't accept. */
export interface FailedDelivery {
  readonly error: DuctileError;
}

export interface DeliveryFilter {
  readonly webhookId?: string;
  readonly id?: string;
  /** Only ids that begin with this text. */
  readonly idPrefix?: string;
  readonly verdict?: DeliveryRow['verdict'];
  /** Keyset page: rows with a smaller seq than this, the newest first. */
  readonly beforeSeq?: number;
  readonly limit: number;
}

/** `visitMax`: how many rows a page may read. */
export type DeliveryPageFilter = { readonly visitMax?: number } & Pick<
  DeliveryFilter,
  'webhookId' | 'verdict' | 'beforeSeq' | 'limit'
>;
