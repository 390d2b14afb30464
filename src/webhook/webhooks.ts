import type { TurnedAway } from './refused-deliveries.ts';
import type { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { DeliveryDraft, ToldDelivery, UntakenDelivery } from './types.ts';
import type { Answer } from './check.ts';
import type { Hook } from './webhook.ts';
import type { Target } from './target.ts';
import type { DeliveryTest, Incoming } from './request.ts';

/** Where strangers come in: one for the whole process, whichever ledger a webhook is in. */
export interface Webhooks {
  /** The one with this id; committed before it says that it was accepted. */
  receive(hookId: string, incoming: Incoming): Promise<Answer>;
  /** The one of the configuration at this path; undefined when there is none. */
  receiveAt(path: string, incoming: Incoming): Promise<Answer> | undefined;
  /** Throws when an endpoint of the configuration has no secret to be verified with. */
  requireSecrets(): Promise<void>;
}

/** The webhooks of one ledger, and where their verified deliveries come in. */
export interface HookDoor {
  readonly store: HookStore;
  /** Committed when it resolves; what its target cannot take is written down, too. */
  take(verified: VerifiedDelivery): Promise<Taken | Failed | Replayed>;
  /** Writes down what was refused; whoever sent it does not wait for that. */
  note(refused: Omit<UntakenDelivery, 'id' | 'verdict'>): void;
  /** What came too fast is counted here, and not written down. */
  readonly turnedAway: TurnedAway;
}

export interface HookStore {
  find(id: string): Promise<KnownHook | undefined>;
  /** The value of a credential now; undefined when there is none. */
  credential(name: string): Promise<string | undefined>;
  /** The credentials that webhooks are verified with now, by their ids; read anew. */
  references(): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Reads them again, before anything else is delivered. */
  refresh(): Promise<void>;
}

/** A webhook, and what its deliveries may be signed with now. */
export interface KnownHook {
  readonly hook: Hook;
  readonly secrets: readonly string[];
}

/** What was delivered, and to whom. */
export interface Delivered {
  readonly hookId: string;
  /** What people call the webhook. */
  readonly title: string;
  readonly target: Target;
  /** Names the delivery among those of the same webhook. */
  readonly sourceEventId: string;
  readonly payload: JsonObject;
  /** What a CloudEvent said of itself. */
  readonly event: JsonObject | undefined;
  /** The event type and headers of the delivery; undefined if it has neither. */
  readonly about?: JsonObject | undefined;
  /** Where in a trace its sender stands. */
  readonly traceparent?: string | undefined;
  /** Whoever sent it waits for the end of what it starts. */
  readonly isAwaited?: boolean;
  /** For the job that it is for, or the first of them: made by whoever waits for its end. */
  readonly jobId?: string | undefined;
  /** It came before, and somebody wants it handled once more: as the signal that it became. */
  readonly again?: { readonly signalId: string; readonly atMs: number };
  /** How far from its first cause it is; a stranger's delivery is one. */
  readonly hops?: number;
  /** Set if a `webhook.test` made it, and not a sender. */
  readonly test?: DeliveryTest | undefined;
}

export interface VerifiedDelivery
  extends
    Pick<
      DeliveryDraft,
      'deliveryId' | 'replayKey' | 'isStrict' | 'source' | 'headers' | 'bodyBytes'
    >,
    Omit<Delivered, 'sourceEventId'> {}

export interface Taken extends Pick<ToldDelivery, 'signalId' | 'isNew'> {
  /** The job of the delivery; of a duplicate, the job of the first delivery. */
  readonly jobId: string | undefined;
  /** Or the run. */
  readonly runId: string | undefined;
  /** The status of that job or run, for a duplicate. */
  readonly status?: string | undefined;
  /** Why its target was left alone, although nothing went wrong. */
  readonly skipped: string | undefined;
}

/** A copy under another delivery id, which the webhook refuses. */
export interface Replayed {
  readonly isReplay: true;
}

export interface Failed {
  readonly error: DuctileError;
}
