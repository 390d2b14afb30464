import { isObject, type JsonObject } from '../base/json.ts';
import { parseStrictJson } from '../base/json-text.ts';
import { limits } from '../base/limits.ts';
import { verifyToken } from './bearer.ts';
import { verifyHmac } from './hmac.ts';
import { digestOf } from './mac.ts';
import { hasHeader, takeHeader, type HookRequest } from './request.ts';
import type { OneScheme, Scheme } from './scheme.ts';
import { verifySigned } from './signed.ts';
import { verifyTwilio } from './twilio.ts';
import { refuse, type Refused, type Verdict } from './verdict.ts';

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
  const deliveryId = idInHeaders(one.idHeaders, request);
  if (typeof deliveryId === 'object') return deliveryId;
  return { kind: 'accepted', ...proof, ...(deliveryId === undefined ? {} : { deliveryId }) };
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
  if (typeof value === 'string' && value !== '') return shorten(value);
  if (event === undefined) return undefined;
  return shorten(JSON.stringify([event['source'], event['source_event_id']]));
}

function signsName(scheme: Scheme): boolean {
  if (scheme.kind === 'any') return scheme.of.every(signsName);
  if (scheme.kind !== 'signed') return false;
  const signed = scheme.payload.flatMap((part) => (part.kind === 'header' ? [part.name] : []));
  return scheme.idHeaders.every((name) => signed.includes(name));
}

interface Proof {
  readonly secretIndex: number;
  readonly timestampMs?: number;
  readonly replayKey?: string;
}

function choose(scheme: Scheme, request: HookRequest): OneScheme {
  if (scheme.kind !== 'any') return scheme;
  return scheme.of.find(({ header }) => hasHeader(request, header)) ?? scheme.of[0];
}

function prove(
  scheme: OneScheme,
  request: HookRequest,
  secrets: readonly string[],
  nowMs: number,
): Proof | Refused {
  if (scheme.kind === 'twilio') return verifyTwilio(scheme, request, secrets);
  if (scheme.kind === 'signed') {
    const signed = verifySigned(scheme, request, secrets, nowMs);
    if ('kind' in signed) return signed;
    const { secretIndex, timestampMs, replayKey } = signed;
    return {
      secretIndex,
      ...(timestampMs === undefined ? {} : { timestampMs }),
      ...(replayKey === undefined ? {} : { replayKey }),
    };
  }
  const found =
    scheme.kind === 'hmac'
      ? verifyHmac(scheme, request, secrets)
      : verifyToken(scheme, request, secrets);
  return typeof found === 'number' ? { secretIndex: found } : found;
}

function idInHeaders(names: readonly string[], request: HookRequest): string | Refused | undefined {
  for (const name of names) {
    const taken = takeHeader(request, name);
    if (!taken.ok && taken.reason !== 'header_missing') return refuse(taken.reason);
    const id = taken.ok ? nameIn(name, taken.value) : '';
    if (id !== '') return shorten(id);
  }
  return undefined;
}

/** An idempotency key is text in quotes, as its draft has it, which many leave out. */
function nameIn(header: string, value: string): string {
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(value)?.[1];
  if (header !== 'idempotency-key' || quoted === undefined) return value;
  return quoted.replaceAll(/\\(.)/g, '$1');
}

function shorten(id: string): string {
  return id.length <= limits.deliveryIdCharsMax ? id : `sha256:${digestOf([id])}`;
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
