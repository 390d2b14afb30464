import { findToken } from './mac.ts';
import { takeHeader, type HookRequest } from '../request.ts';
import { refuse, type Refused } from './verdict.ts';

/** A shared token in a header, with a word before it or none. */
export interface TokenScheme {
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
