/** What verifying a delivery gives. Only the log and the delivery's row hear why it was refused. */
export type Verdict = Accepted | Refused | Challenge;

export interface Accepted {
  readonly kind: 'accepted';
  /** What the sender calls the delivery, the same when it is sent again. */
  readonly deliveryId?: string;
  /** When it was signed, as far as the signature covers that. */
  readonly timestampMs?: number;
  /** Which of the secrets it was. */
  readonly secretIndex: number;
  /** A digest of what was signed, where the same bytes may be accepted only once. */
  readonly replayKey?: string;
}

/**
 * When the same signed bytes may be accepted only once. `unnamed`: only if the delivery has no id,
 * because senders such as GitHub repeat a body under another id. That id isn't signed, so a copy can
 * be sent under a new id; `replay: strict` turns `unnamed` and `never` into `always`.
 */
export type OncePolicy = 'always' | 'unnamed' | 'never';

export interface Refused {
  readonly kind: 'refused';
  readonly reason: Refusal;
}

/** The sender asks whether this is the right address, and wants to hear this. */
export interface Challenge {
  readonly kind: 'challenge';
  readonly answer: string;
}

export const refusals = [
  'secret_missing',
  'header_missing',
  'header_repeated',
  'header_too_long',
  'token_wrong',
  'signature_malformed',
  'signatures_too_many',
  'signature_wrong',
  'prefix_unmatched',
  'pattern_exhausted',
  'value_ambiguous',
  'timestamp_malformed',
  'timestamp_old',
  'timestamp_ahead',
  'url_invalid',
  'body_unsigned',
  'body_changed',
] as const;

export type Refusal = (typeof refusals)[number];

/** Why a signed time is too far from now; undefined if it isn't. */
export function findTimeFault(
  timestampMs: number,
  toleranceMs: number,
  nowMs: number,
): 'timestamp_old' | 'timestamp_ahead' | undefined {
  if (timestampMs < nowMs - toleranceMs) return 'timestamp_old';
  return timestampMs > nowMs + toleranceMs ? 'timestamp_ahead' : undefined;
}

export function refuse(reason: Refusal): Refused {
  return { kind: 'refused', reason };
}
