import type { HmacScheme } from './hmac.ts';
import type { SignedScheme, PayloadPart } from './signed.ts';
import { hasHeader, readHeader, type WebhookRequest } from '../request.ts';
import type { TwilioScheme } from './twilio.ts';
import { findToken } from './mac.ts';
import { refuseProof, type RefusedProof } from './verdict.ts';

/** The way in which a delivery proves its sender. */
export type Scheme = SingleScheme | AnyScheme;

export type SingleScheme = TokenScheme | HmacScheme | SignedScheme | TwilioScheme;

/** Several schemes with different headers. The first one whose header is present counts. */
interface AnyScheme {
  readonly kind: 'any';
  readonly of: readonly [SingleScheme, ...SingleScheme[]];
}

/** Chooses the scheme that verifies this delivery. */
export function chooseScheme(scheme: Scheme, request: WebhookRequest): SingleScheme {
  if (scheme.kind !== 'any') return scheme;
  return scheme.of.find(({ header }) => hasHeader(request, header)) ?? scheme.of[0];
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

/** The tokens of a webhook. The global token counts only if it has none. */
export function chooseTokens(
  own: readonly string[],
  global: string | undefined,
): readonly string[] {
  if (own.length > 0) return own;
  return global === undefined || global === '' ? [] : [global];
}

export function verifyToken(
  { header, lead }: TokenScheme,
  request: WebhookRequest,
  secrets: readonly string[],
): number | RefusedProof {
  const taken = readHeader(request, header);
  if (!taken.ok) return refuseProof(taken.reason);
  if (!taken.value.startsWith(lead)) return refuseProof('token_wrong');
  return findToken(secrets, taken.value.slice(lead.length)) ?? refuseProof('token_wrong');
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
