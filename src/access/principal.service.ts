import { hash, timingSafeEqual } from 'node:crypto';
import type { ApiToken } from '../config/config.ts';
import { roleOf, type Role } from './roles.ts';
import type { JobCause } from '../job/job.ts';

/** Somebody who asks, and what they may ask for. */
export interface Principal {
  /** Who exactly, such as `cli:ann` or `token:deploy`. */
  readonly actor: string;
  readonly scopes: readonly string[];
  readonly role: Role;
  /** Whose ledger it is about, by the token alone; undefined for the root one. */
  readonly tenant: string | undefined;
  /** The running job that asks, when it is one. */
  readonly cause?: JobCause;
}

export interface Tokens {
  /** Whose token this is; undefined for one that is unknown, expired or revoked. */
  find(presented: string): Promise<Principal | undefined>;
  /** The name of an expired token, as far as it is known without reading the ledger. */
  findExpired?(presented: string): string | undefined;
  /** What the token of this actor may do now; undefined when there is none any more. */
  holderOf(actor: string): Promise<Principal | undefined>;
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

/** Whether it is by a token that somebody acts; all others are known to the process itself. */
export function isToken(actor: string): boolean {
  return actor.startsWith('token:');
}

/** The token of the configuration that acts under this name. */
export function configuredHolder(
  tokens: readonly ApiToken[],
  actor: string,
): Principal | undefined {
  return tokens.map((token) => prepare(token).principal).find((one) => one.actor === actor);
}

interface Prepared {
  readonly expected: Buffer;
  readonly principal: Principal;
}

const prepared = new WeakMap<ApiToken, Prepared>();

function prepare(token: ApiToken): Prepared {
  let known = prepared.get(token);
  if (known === undefined) {
    const principal = makePrincipal(`token:${token.name}`, token.scopes);
    known = { expected: Buffer.from(token.digest, 'hex'), principal };
    prepared.set(token, known);
  }
  return known;
}

/** Somebody of whom nothing but the scopes is known, in the root ledger. */
export function makePrincipal(actor: string, scopes: readonly string[]): Principal {
  return { actor, scopes, role: roleOf(scopes), tenant: undefined };
}

/** What is kept of a token: it cannot be approached guess by guess, so that it is looked up tells nothing. */
export function hashTokenText(token: string): string {
  return hash('sha256', token, 'hex');
}
