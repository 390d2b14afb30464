import type { HmacScheme } from './hmac.ts';
import type { SignedScheme } from './signed.ts';
import type { TokenScheme } from './bearer.ts';
import { hasHeader, type HookRequest } from '../request.ts';
import type { TwilioScheme } from './twilio.ts';

/** How a delivery proves who sent it. */
export type Scheme = OneScheme | AnyScheme;

export type OneScheme = TokenScheme | HmacScheme | SignedScheme | TwilioScheme;

/** The same under several names of headers: the first whose header is there counts. */
export interface AnyScheme {
  readonly kind: 'any';
  readonly of: readonly [OneScheme, ...OneScheme[]];
}

/** The one that this delivery is to be proven by. */
export function choose(scheme: Scheme, request: HookRequest): OneScheme {
  if (scheme.kind !== 'any') return scheme;
  return scheme.of.find(({ header }) => hasHeader(request, header)) ?? scheme.of[0];
}
