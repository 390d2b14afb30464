import { isObject } from '../../base/json.ts';
import { parseStrictJson } from '../../base/json-text.ts';
import { limits } from '../../base/limits.ts';
import { verifyToken } from './bearer.ts';
import { idInHeaders, shortenId } from '../delivery-id.ts';
import { verifyHmac } from './hmac.ts';
import { digestOf } from './mac.ts';
import type { HookRequest } from '../request.ts';
import { choose, type OneScheme, type Scheme } from './scheme.ts';
import { verifySigned } from './signed.ts';
import { verifyTwilio } from './twilio.ts';
import { refuse, type OncePolicy, type Refused, type Verdict } from './verdict.ts';

/**
 * Whether a delivery comes from who it should, by its raw bytes. Any of the secrets is good, so that
 * one can be changed while both ends still know the other. Nothing that a stranger sends throws.
 */
export function verify(
  scheme: Scheme,
  request: HookRequest,
  secrets: readonly string[],
  nowMs: number,
): Verdict {
  if (!secrets.some((secret) => secret !== '')) return refuse('secret_missing');
  const one = choose(scheme, request);
  const proof = prove(one, request, secrets, nowMs);
  if ('kind' in proof) return proof;
  if (one.kind === 'signed' && one.hasChallenge) {
    const answer = findChallenge(request.rawBody);
    if (answer !== undefined) return { kind: 'challenge', answer };
  }
  const deliveryId = idInHeaders(one.idHeaders, request) ?? idOfEvent(one, request);
  if (typeof deliveryId === 'object') return deliveryId;
  const { secretIndex, timestampMs, once, parts } = proof;
  const isOnce = once === 'always' || (once === 'unnamed' && deliveryId === undefined);
  return {
    kind: 'accepted',
    secretIndex,
    ...(timestampMs === undefined ? {} : { timestampMs }),
    ...(isOnce ? { replayKey: digestOf(parts) } : {}),
    ...(deliveryId === undefined ? {} : { deliveryId }),
  };
}

function idOfEvent(scheme: OneScheme, request: HookRequest): string | Refused | undefined {
  const header = scheme.kind === 'token' ? scheme.eventIdHeader : undefined;
  const id = header === undefined ? undefined : idInHeaders([header], request);
  return typeof id === 'string' ? shortenId(`${id}:${digestOf([request.rawBody])}`) : id;
}

interface Proof {
  readonly secretIndex: number;
  readonly timestampMs?: number | undefined;
  readonly once: OncePolicy;
  /** The bytes that were signed; none for a token. */
  readonly parts: readonly (string | Buffer)[];
}

function prove(
  scheme: OneScheme,
  request: HookRequest,
  secrets: readonly string[],
  nowMs: number,
): Proof | Refused {
  if (scheme.kind === 'twilio') return verifyTwilio(scheme, request, secrets);
  if (scheme.kind === 'signed') return verifySigned(scheme, request, secrets, nowMs);
  if (scheme.kind === 'hmac') return verifyHmac(scheme, request, secrets, nowMs);
  const found = verifyToken(scheme, request, secrets);
  return typeof found === 'number' ? { secretIndex: found, once: 'never', parts: [] } : found;
}

/** Looked for only after the signature: the answer tells a stranger nothing. */
function findChallenge(body: Buffer): string | undefined {
  if (!body.includes('url_verification')) return undefined;
  const parsed = parseStrictJson(body.toString());
  if (!parsed.ok || !isObject(parsed.value)) return undefined;
  const { type, challenge } = parsed.value;
  if (type !== 'url_verification' || typeof challenge !== 'string') return undefined;
  return challenge.length > limits.hookChallengeCharsMax ? undefined : challenge;
}
