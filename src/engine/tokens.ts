import { hash, timingSafeEqual } from 'node:crypto';
import type { ApiToken } from '../config/config.ts';

/** Somebody who asks, and what they may ask for. */
export interface Principal {
  /** Who exactly, such as `cli:ann` or `token:deploy`. */
  readonly actor: string;
  readonly scopes: readonly string[];
}

export interface Tokens {
  /** Whose token this is; undefined for one that is unknown, expired or revoked. */
  find(presented: string): Promise<Principal | undefined>;
}

/**
 * The tokens of the configuration. What is compared are digests of one length, and all of them are
 * compared, so that the time says nothing about how near a guess was.
 */
export function findConfigured(
  tokens: readonly ApiToken[],
  presented: string,
): Principal | undefined {
  const digest = hash('sha256', presented, 'buffer');
  let found: Principal | undefined;
  for (const token of tokens) {
    const { principal, expected } = prepare(token);
    if (timingSafeEqual(digest, expected)) found = principal;
  }
  return found;
}

interface Prepared {
  readonly expected: Buffer;
  readonly principal: Principal;
}

const prepared = new WeakMap<ApiToken, Prepared>();

function prepare(token: ApiToken): Prepared {
  let known = prepared.get(token);
  if (known === undefined) {
    const principal = { actor: `token:${token.name}`, scopes: token.scopes };
    known = { expected: Buffer.from(token.digest, 'hex'), principal };
    prepared.set(token, known);
  }
  return known;
}
