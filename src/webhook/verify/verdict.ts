/**
 * The result of verifying a delivery. Only the log and the delivery's row get the reason of a
 * refusal.
 */
export type VerifyResult = VerifiedProof | RefusedProof | ChallengeRequest;

export interface VerifiedProof {
  readonly kind: 'accepted';
  /** The sender's id of the delivery. Retries have the same one. */
  readonly deliveryId?: string;
  /** The time of the signature, if it is signed. */
  readonly timestampMs?: number;
  /** The index of the secret that was used. */
  readonly secretIndex: number;
  /** A digest of the signed bytes, if they may be accepted only once. */
  readonly replayKey?: string;
}

/**
 * When the same signed bytes may be accepted only once. `unnamed`: only if the delivery has no id,
 * because senders such as GitHub repeat a body under another id. That id isn't signed, so a copy can
 * be sent under a new id; `replay: strict` turns `unnamed` and `never` into `always`.
 */
export type OncePolicy = 'always' | 'unnamed' | 'never';

export interface RefusedProof {
  readonly kind: 'refused';
  readonly reason: RefusalReason;
}

/** A request of the sender to confirm the address by returning a text. */
interface ChallengeRequest {
  readonly kind: 'challenge';
  readonly answer: string;
}

const refusalReasons = [
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

export type RefusalReason = (typeof refusalReasons)[number];

/** Says why a signed time is out of tolerance. Undefined if it isn't. */
export function findTimeFault(
  timestampMs: number,
  toleranceMs: number,
  nowMs: number,
): 'timestamp_old' | 'timestamp_ahead' | undefined {
  if (timestampMs < nowMs - toleranceMs) return 'timestamp_old';
  return timestampMs > nowMs + toleranceMs ? 'timestamp_ahead' : undefined;
}

export function refuseProof(reason: RefusalReason): RefusedProof {
  return { kind: 'refused', reason };
}
