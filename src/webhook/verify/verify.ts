import { hash, timingSafeEqual } from 'node:crypto';
import { compact, isObject, type JsonObject, parseStrictJson } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { verifyHmac, type HmacScheme } from './hmac.ts';
import { digestParts } from './mac.ts';
import { hasHeader, readHeader, type WebhookRequest } from '../request.ts';
import { verifySigned, type PayloadPart, type SignedScheme } from './signed.ts';
import { verifyTwilio, type TwilioScheme } from './twilio.ts';
import {
  refuseProof,
  type OncePolicy,
  type RefusedProof,
  type VerifyResult,
  type VerifiedProof,
} from './verdict.ts';
import { unquote } from '../../base/text.ts';

/** The way in which a delivery proves its sender. */
export type Scheme = SingleScheme | AnyScheme;

export type SingleScheme = TokenScheme | HmacScheme | SignedScheme | TwilioScheme;

/** Several schemes with different headers. The first one whose header is present counts. */
interface AnyScheme {
  readonly kind: 'any';
  readonly of: readonly [SingleScheme, ...SingleScheme[]];
}

/** A shared token in a header, with an optional word before it. */
interface TokenScheme {
  readonly kind: 'token';
  readonly header: string;
  /** The exact text before the token. */
  readonly lead: string;
  readonly idHeaders: readonly string[];
  /**
   * A header with an id that several deliveries can share, used with a digest of the body if no other
   * header names the delivery. GitLab repeats it for events that an earlier delivery caused.
   */
  readonly eventIdHeader?: string;
}

/** `Authorization: Bearer <token>`, the word and the one space as they are. */
export function createBearerScheme(idHeaders: readonly string[]): TokenScheme {
  return { kind: 'token', header: 'authorization', lead: 'Bearer ', idHeaders };
}

/**
 * Verifies the sender of a delivery by its raw bytes. Any of the secrets is valid, so that a secret
 * can be rotated without downtime. Never throws, whatever a sender delivers.
 */
export function verifyDelivery(
  scheme: Scheme,
  request: WebhookRequest,
  secrets: readonly string[],
  nowMs: number,
): VerifyResult {
  if (!secrets.some((secret) => secret !== '')) return refuseProof('secret_missing');
  const one = chooseScheme(scheme, request);
  const proof = checkProof(one, request, secrets, nowMs);
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
    ...compact({ timestampMs }),
    ...(isOnce ? { replayKey: digestParts(parts) } : {}),
    ...compact({ deliveryId }),
  };
}

function idOfEvent(
  scheme: SingleScheme,
  request: WebhookRequest,
): string | RefusedProof | undefined {
  const header = scheme.kind === 'token' ? scheme.eventIdHeader : undefined;
  const id = header === undefined ? undefined : idInHeaders([header], request);
  return typeof id === 'string' ? shortenId(`${id}:${digestParts([request.rawBody])}`) : id;
}

interface Proof {
  readonly secretIndex: number;
  readonly timestampMs?: number | undefined;
  readonly once: OncePolicy;
  /** The signed bytes. None for a token. */
  readonly parts: readonly (string | Buffer)[];
}

function checkProof(
  scheme: SingleScheme,
  request: WebhookRequest,
  secrets: readonly string[],
  nowMs: number,
): Proof | RefusedProof {
  if (scheme.kind === 'twilio') return verifyTwilio(scheme, request, secrets);
  if (scheme.kind === 'signed') return verifySigned(scheme, request, secrets, nowMs);
  if (scheme.kind === 'hmac') return verifyHmac(scheme, request, secrets, nowMs);
  const found = verifyToken(scheme, request, secrets);
  return typeof found === 'number' ? { secretIndex: found, once: 'never', parts: [] } : found;
}

function verifyToken(
  { header, lead }: TokenScheme,
  request: WebhookRequest,
  secrets: readonly string[],
): number | RefusedProof {
  const found = readHeader(request, header);
  if (!found.ok) return refuseProof(found.reason);
  if (!found.value.startsWith(lead)) return refuseProof('token_wrong');
  return findToken(secrets, found.value.slice(lead.length)) ?? refuseProof('token_wrong');
}

/**
 * Finds the secret that equals the token. Compares digests, so that the length stays secret, too.
 */
function findToken(secrets: readonly string[], token: string): number | undefined {
  const given = hash('sha256', token, 'buffer');
  let found: number | undefined;
  for (const [index, secret] of secrets.entries()) {
    const expected = hash('sha256', secret, 'buffer');
    if (timingSafeEqual(expected, given) && secret !== '') found ??= index;
  }
  return found;
}

/** Chooses the scheme that verifies this delivery. */
function chooseScheme(scheme: Scheme, request: WebhookRequest): SingleScheme {
  if (scheme.kind !== 'any') return scheme;
  return scheme.of.find(({ header }) => hasHeader(request, header)) ?? scheme.of[0];
}

/** Searched only after the signature was verified, so an unverified sender learns nothing. */
function findChallenge(body: Buffer): string | undefined {
  if (!body.includes('url_verification')) return undefined;
  const parsed = parseStrictJson(body.toString());
  if (!parsed.ok || !isObject(parsed.value)) return undefined;
  const { type, challenge } = parsed.value;
  if (type !== 'url_verification' || typeof challenge !== 'string') return undefined;
  return challenge.length > limits.webhookChallengeCharsMax ? undefined : challenge;
}

/** The identity of a verified delivery, by which duplicates are recognized. */
interface DeliveryIdentity {
  /** The sender's id. */
  readonly deliveryId: string | null;
  /** A digest of bytes that may be accepted only once. */
  readonly replayKey: string | null;
}

const KEY = 'idempotency-key';

/**
 * The prefix of digests over an idempotency key and its body. Another digest under the same key
 * means another body.
 */
const KEYED = 'keyed:';

export function identifyDelivery(
  scheme: Scheme,
  accepted: VerifiedProof,
  request: WebhookRequest,
  { payload, event }: { readonly payload: JsonObject; readonly event: JsonObject | undefined },
): DeliveryIdentity {
  const name = findDeliveryId(scheme, accepted.deliveryId, payload, event);
  const isKey = name !== undefined && name === keyIn(scheme, request);
  const keyed = isKey ? `${KEYED}${digestParts([name, '\n', request.rawBody])}` : undefined;
  return { deliveryId: name ?? null, replayKey: accepted.replayKey ?? keyed ?? null };
}

/** True if two deliveries have the same idempotency key and different bodies. */
export function isKeyReused(earlier: string | null, later: string | null): boolean {
  const areKeyed = earlier?.startsWith(KEYED) === true && later?.startsWith(KEYED) === true;
  return areKeyed && earlier !== later;
}

function keyIn(scheme: Scheme, request: WebhookRequest): string | undefined {
  const isUsed = chooseScheme(scheme, request).idHeaders.includes(KEY);
  const found = isUsed ? readHeader(request, KEY) : undefined;
  return found?.ok === true ? shortenId(nameIn(KEY, found.value)) : undefined;
}

/**
 * Finds the sender's id of a verified delivery, now that its payload is known. Undefined if it has
 * none. An event keeps its own id, unless a header with another one was signed.
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

/** Finds the id in the first of these headers that has one. */
function idInHeaders(
  names: readonly string[],
  request: WebhookRequest,
): string | RefusedProof | undefined {
  for (const name of names) {
    const found = readHeader(request, name);
    if (!found.ok && found.reason !== 'header_missing') return refuseProof(found.reason);
    const id = found.ok ? nameIn(name, found.value) : '';
    if (id !== '') return shortenId(id);
  }
  return undefined;
}

/** An idempotency key is quoted in its standard, but many senders leave the quotes out. */
function nameIn(header: string, value: string): string {
  return header === KEY ? unquote(value) : value;
}

/** Long ids are stored as their digest. */
function shortenId(id: string): string {
  return id.length <= limits.deliveryIdCharsMax ? id : `sha256:${digestParts([id])}`;
}

/** The tokens of a webhook. The global token counts only if it has none. */
export function chooseTokens(
  own: readonly string[],
  global: string | undefined,
): readonly string[] {
  if (own.length > 0) return own;
  return global === undefined || global === '' ? [] : [global];
}

/**
 * Lists the headers that contain the proof of a delivery. Cached per scheme, because every delivery
 * needs it.
 */
export function listProofHeaders(scheme: Scheme): ReadonlySet<string> {
  let names = proofHeaders.get(scheme);
  if (names === undefined) {
    names = new Set((scheme.kind === 'any' ? scheme.of : [scheme]).flatMap(headersOf));
    proofHeaders.set(scheme, names);
  }
  return names;
}

const proofHeaders = new WeakMap<Scheme, ReadonlySet<string>>();

function headersOf(scheme: SingleScheme): string[] {
  if (scheme.kind !== 'signed') return [scheme.header];
  const { payload, timestamp } = scheme;
  const parts: readonly PayloadPart[] =
    timestamp === undefined ? payload : [...payload, timestamp.part];
  return [scheme.header, ...parts.flatMap((part) => (part.kind === 'header' ? [part.name] : []))];
}
