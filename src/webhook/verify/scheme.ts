import type { HmacScheme } from './hmac.ts';
import type { SignedScheme, Part } from './signed.ts';
import { hasHeader, takeHeader, type HookRequest } from '../request.ts';
import type { TwilioScheme } from './twilio.ts';
import { findToken } from './mac.ts';
import { refuse, type Refused } from './verdict.ts';

/** How a delivery proves who sent it. */
export type Scheme = OneScheme | AnyScheme;

export type OneScheme = TokenScheme | HmacScheme | SignedScheme | TwilioScheme;

/** The same under several names of headers: the first whose header is there counts. */
interface AnyScheme {
  readonly kind: 'any';
  readonly of: readonly [OneScheme, ...OneScheme[]];
}

/** The one that this delivery is to be proven by. */
export function choose(scheme: Scheme, request: HookRequest): OneScheme {
  if (scheme.kind !== 'any') return scheme;
  return scheme.of.find(({ header }) => hasHeader(request, header)) ?? scheme.of[0];
}

/** A shared token in a header, with a word before it or none. */
interface TokenScheme {
  readonly kind: 'token';
  readonly header: string;
  /** What stands before the token, exactly. */
  readonly lead: string;
  readonly idHeaders: readonly string[];
  /**
   * A header with an id that several deliveries can share, used with a digest of the body if no other
   * header names the delivery. GitLab repeats it for events that an earlier delivery caused.
   */
  readonly eventIdHeader?: string;
}

/** `Authorization: Bearer <token>`, the word and the one space as they are. */
export function makeBearer(idHeaders: readonly string[]): TokenScheme {
  return { kind: 'token', header: 'authorization', lead: 'Bearer ', idHeaders };
}

/** A hook's own tokens; the global one counts only where it has none. */
export function pickTokens(own: readonly string[], global: string | undefined): readonly string[] {
  if (own.length > 0) return own;
  return global === undefined || global === '' ? [] : [global];
}

export function verifyToken(
  { header, lead }: TokenScheme,
  request: HookRequest,
  secrets: readonly string[],
): number | Refused {
  const taken = takeHeader(request, header);
  if (!taken.ok) return refuse(taken.reason);
  if (!taken.value.startsWith(lead)) return refuse('token_wrong');
  return findToken(secrets, taken.value.slice(lead.length)) ?? refuse('token_wrong');
}

/**
 * The headers by which a delivery is verified: whoever sees them has its proof. Found once for each
 * scheme, because every delivery asks.
 */
export function proofHeadersOf(scheme: Scheme): ReadonlySet<string> {
  let names = found.get(scheme);
  if (names === undefined) {
    names = new Set((scheme.kind === 'any' ? scheme.of : [scheme]).flatMap(headersOf));
    found.set(scheme, names);
  }
  return names;
}

const found = new WeakMap<Scheme, ReadonlySet<string>>();

function headersOf(scheme: OneScheme): string[] {
  if (scheme.kind !== 'signed') return [scheme.header];
  const { payload, timestamp } = scheme;
  const parts: readonly Part[] = timestamp === undefined ? payload : [...payload, timestamp.part];
  return [scheme.header, ...parts.flatMap((part) => (part.kind === 'header' ? [part.name] : []))];
}
