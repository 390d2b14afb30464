import type { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { DeliveryDraft, ToldDelivery, UntakenDelivery } from './types.ts';
import { answerAccepted, type Answer } from './check.ts';
import type { Hook } from './webhook.ts';
import type { Target } from './target.ts';
import type { DeliveryTest, Incoming } from './request.ts';
import { limits } from '../base/limits.ts';

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
interface Replayed {
  readonly isReplay: true;
}

export interface Failed {
  readonly error: DuctileError;
}

export interface WebhookResponse {
  readonly answer: Answer;
  /** False for what came before: it starts nothing. */
  readonly isNew: boolean;
  /** Why a verified delivery was refused. */
  readonly refused?: string;
}

const REPLAYED = 'replayed';

/** The response to a delivery that was verified. */
export function toWebhookResponse(
  hookId: string,
  taken: Taken | Failed | Replayed,
): WebhookResponse {
  if ('error' in taken) return { answer: answerFailed(taken), isNew: true };
  if ('isReplay' in taken) {
    // A copy learns nothing about the first delivery.
    const answer = { status: 409, body: { error: REPLAYED } };
    return { answer, isNew: false, refused: REPLAYED };
  }
  return { answer: answerTaken(hookId, taken), isNew: taken.isNew };
}

function answerTaken(hookId: string, taken: Taken): Answer {
  const { signalId, isNew, jobId, runId, skipped, status: first } = taken;
  const { status, body } = answerAccepted(hookId, signalId, !isNew);
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

/** A missing target may be back when the sender retries; a payload that doesn't fit never will. */
function answerFailed({ error }: Failed): Answer {
  const { status } = error.kind;
  if (status === 404 || status === 503) return answerHindered(error);
  if (error.code === 'IDEMPOTENCY_MISMATCH') {
    return { status: 422, body: { error: 'idempotency_mismatch' } };
  }
  return { status: 422, body: { error: 'payload_refused' } };
}

/** The delivery is fine. The sender gets no details about a problem of this service. */
export function answerHindered({ kind }: DuctileError): Answer {
  const retryAfterSeconds = limits.hookRetryAfterSeconds;
  return kind.status === 429
    ? { status: 429, body: { error: 'rate_limited' }, retryAfterSeconds }
    : { status: 503, body: { error: 'target_unavailable' }, retryAfterSeconds };
}

/** Deliveries that came faster than a webhook takes them, remembered for a while in this process. */
interface TurnedAway {
  note(hookId: string, nowMs: number): void;
  /** How many of late; 0 when there were none. */
  count(hookId: string, nowMs: number): number;
}

export function makeTurnedAway(): TurnedAway {
  const streaks = new Map<string, { readonly count: number; readonly lastMs: number }>();
  const count = (hookId: string, nowMs: number): number => {
    const known = streaks.get(hookId);
    return known === undefined || nowMs - known.lastMs > limits.hookTurnedAwayMs ? 0 : known.count;
  };
  return {
    note(hookId, nowMs) {
      const next = { count: count(hookId, nowMs) + 1, lastMs: nowMs };
      // Put behind all others, so that the one that was longest quiet is forgotten first.
      streaks.delete(hookId);
      streaks.set(hookId, next);
      const [oldest = hookId] = streaks.keys();
      if (streaks.size > limits.hookWindowsMax) streaks.delete(oldest);
    },
    count,
  };
}
