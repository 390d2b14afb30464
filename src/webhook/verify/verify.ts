import { isObject, type JsonObject } from '../../base/json.ts';
import { parseStrictJson } from '../../base/strict-json.ts';
import { limits } from '../../base/limits.ts';
import { verifyToken, choose, type OneScheme, type Scheme } from './scheme.ts';
import { verifyHmac } from './hmac.ts';
import { digestOf } from './mac.ts';
import { takeHeader, type HookRequest } from '../request.ts';
import { verifySigned } from './signed.ts';
import { verifyTwilio } from './twilio.ts';
import { refuse, type OncePolicy, type Refused, type Verdict, type Accepted } from './verdict.ts';
import { unquote } from '../../base/text.ts';

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

/** What a verified delivery is known by, so that the same again is seen to be the same. */
export interface DeliveryName {
  /** What its sender calls it. */
  readonly deliveryId: string | null;
  /** A digest of what may come only once. */
  readonly replayKey: string | null;
}

const KEY = 'idempotency-key';

/** How digests of a key with its body begin: under the same key, another one is another body. */
const KEYED = 'keyed:';

export function nameDelivery(
  scheme: Scheme,
  accepted: Accepted,
  request: HookRequest,
  { payload, event }: { readonly payload: JsonObject; readonly event: JsonObject | undefined },
): DeliveryName {
  const name = findDeliveryId(scheme, accepted.deliveryId, payload, event);
  const isKey = name !== undefined && name === keyIn(scheme, request);
  const keyed = isKey ? `${KEYED}${digestOf([name, '\n', request.rawBody])}` : undefined;
  return { deliveryId: name ?? null, replayKey: accepted.replayKey ?? keyed ?? null };
}

/** Whether what has the name of an earlier delivery is another one, as far as that can be told. */
export function isKeyReused(earlier: string | null, later: string | null): boolean {
  const areKeyed = earlier?.startsWith(KEYED) === true && later?.startsWith(KEYED) === true;
  return areKeyed && earlier !== later;
}

function keyIn(scheme: Scheme, request: HookRequest): string | undefined {
  const isTaken = choose(scheme, request).idHeaders.includes(KEY);
  const taken = isTaken ? takeHeader(request, KEY) : undefined;
  return taken?.ok === true ? shortenId(nameIn(KEY, taken.value)) : undefined;
}

/**
 * What the sender calls a verified delivery, now that its payload is known as well; undefined when
 * it has no name. An event has the name that it brought, unless a header with another was signed.
 */
export function findDeliveryId(
  scheme: Scheme,
  inHeaders: string | undefined,
  payload: JsonObject,
  event: JsonObject | undefined,
): string | undefined {
  if (inHeaders !== undefined && (event === undefined || signsName(scheme))) return inHeaders;
  const field = scheme.kind === 'signed' ? scheme.idField : undefined;
  const value = field !== undefined && Object.hasOwn(payload, field) ? payload[field] : undefined;
  if (typeof value === 'string' && value !== '') return shortenId(value);
  if (event === undefined) return undefined;
  return shortenId(JSON.stringify([event['source'], event['source_event_id']]));
}

function signsName(scheme: Scheme): boolean {
  if (scheme.kind === 'any') return scheme.of.every(signsName);
  if (scheme.kind !== 'signed') return false;
  const signed = scheme.payload.flatMap((part) => (part.kind === 'header' ? [part.name] : []));
  return scheme.idHeaders.every((name) => signed.includes(name));
}

/** The first of these headers that names it. */
function idInHeaders(names: readonly string[], request: HookRequest): string | Refused | undefined {
  for (const name of names) {
    const taken = takeHeader(request, name);
    if (!taken.ok && taken.reason !== 'header_missing') return refuse(taken.reason);
    const id = taken.ok ? nameIn(name, taken.value) : '';
    if (id !== '') return shortenId(id);
  }
  return undefined;
}

/** An idempotency key is text in quotes, as its draft has it, which many leave out. */
function nameIn(header: string, value: string): string {
  return header === KEY ? unquote(value) : value;
}

/** A long id is kept as its digest. */
function shortenId(id: string): string {
  return id.length <= limits.deliveryIdCharsMax ? id : `sha256:${digestOf([id])}`;
}
