import type { Timestamp } from '../base/clock.ts';
import type { SealedText } from '../base/seal.ts';
import type { JobStatus } from '../job/job.ts';
import type { RunStatus } from '../pipeline/run/run.ts';
import type { AgentJob } from './agent-outcome.ts';
import type { RunNews } from '../pipeline/run/types.ts';
import type { Emission } from '../signal/types.ts';

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

export interface WebhookRow {
  readonly id: string;
  /** JSON text: its entry without its secrets. */
  readonly settings: string;
  /** Its secrets; null when it has none of its own. */
  readonly sealed: SealedText | null;
  readonly createdBy: string;
  readonly createdAt: Timestamp;
  readonly updatedBy: string;
  readonly updatedAt: Timestamp;
  readonly triggerCount: number;
  readonly lastTriggeredAt: Timestamp | null;
  /** Why the last delivery that was verified was not taken; null when it was. */
  readonly lastError: string | null;
}

export interface WebhookDraft {
  readonly id: string;
  readonly settings: string;
  readonly sealed: SealedText | null;
}

/** What is not named stays. */
export interface WebhookChange {
  readonly id: string;
  /** When it was last changed as far as whoever changes it knows; nothing is done otherwise. */
  readonly seenAt: Timestamp;
  readonly settings?: string;
  readonly sealed?: SealedText;
}

interface Delivery {
  readonly id: string;
  readonly hookId: string;
  /** What the sender calls it. */
  readonly deliveryId: string | null;
  /** Where it came from, as far as proxies are trusted. */
  readonly source: string;
  /** JSON text; what could be secret is not in it. */
  readonly headers: string;
  readonly bodyBytes: number;
  /** The actor whose `webhook.test` made it; undefined if a sender did. */
  readonly testBy?: string | undefined;
}

export interface DeliveryDraft extends Delivery {
  /** A digest of what may be accepted only once. */
  readonly replayKey: string | null;
  /** Under another delivery id, what has the same digest is refused instead of being a duplicate. */
  readonly isStrict?: boolean;
  readonly emission: Emission;
  /** Why its target was left alone, although nothing went wrong. */
  readonly skipped?: string | undefined;
}

export interface UntakenDelivery extends Delivery {
  /** `failed`: it was verified, and its target could not take it. */
  readonly verdict: 'failed' | 'refused';
  readonly reason: string;
}

export interface Received {
  /** One for each delivery, in their order. */
  readonly told: readonly ToldDelivery[];
  readonly news: RunNews;
}

export interface ToldDelivery {
  readonly signalId: string;
  /** False when it was taken before. */
  readonly isNew: boolean;
  /** What was taken before had its name, and another body. */
  readonly isOther?: true;
  /** The same signed bytes were accepted under another id, and the webhook refuses that. */
  readonly isReplay?: true;
  /** For a duplicate: why the first delivery started nothing. */
  readonly skipped?: string;
}

export interface DeliveryRow extends Delivery {
  readonly seq: number;
  /** `skipped`: it was accepted, and its target was left alone for the reason. */
  readonly verdict: 'accepted' | 'skipped' | 'failed' | 'refused';
  readonly reason: string | null;
  readonly signalId: string | null;
  /** How often the same came again. */
  readonly duplicates: number;
  readonly receivedAt: Timestamp;
}

export interface DeliveryFilter {
  readonly hookId?: string;
  readonly id?: string;
  /** Only ids that begin so. */
  readonly idPrefix?: string;
  readonly verdict?: DeliveryRow['verdict'];
  /** Keyset page: rows with a smaller seq than this, the newest first. */
  readonly beforeSeq?: number;
  readonly limit: number;
}

/** `visitMax`: how many rows a page may read. */
export type DeliveryPageFilter = { readonly visitMax?: number } & Pick<
  DeliveryFilter,
  'hookId' | 'verdict' | 'beforeSeq' | 'limit'
>;
