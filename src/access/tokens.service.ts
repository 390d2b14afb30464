import { hash, timingSafeEqual } from 'node:crypto';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { roleOf, roleScopes, type Role } from '../base/roles.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { ApiToken, Config } from '../config/config.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { JobCause } from '../job/job.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { ApiTokenRow } from './types.ts';

/** An authenticated caller and its rights. */
export interface Principal {
  /** The name in records, such as `cli:ann` or `token:deploy`. */
  readonly actor: string;
  readonly scopes: readonly string[];
  readonly role: Role;
  /** The tenant whose ledger is used, which the token alone decides; undefined for the root ledger. */
  readonly tenant: string | undefined;
  /** The running job that calls, if the token is one of an attempt. */
  readonly cause?: JobCause;
}

export interface Tokens {
  /** Returns the principal of a token; undefined if it is unknown, expired or revoked. */
  find(presented: string): Promise<Principal | undefined>;
  /** Returns the name of an expired token, without reading the ledger. */
  findExpired?(presented: string): string | undefined;
  /** Returns the current rights of a token by its actor; undefined if it doesn't exist any more. */
  findByActor(actor: string): Promise<Principal | undefined>;
}

export interface TokenStore extends Tokens, Service {
  /** Reads the tokens of the ledger again; later callers see its current state. */
  refresh(): Promise<void>;
}

interface StoredToken {
  readonly id: string;
  readonly principal: Principal;
}

/**
 * Finds the tokens of the configuration and of the ledger. It reads the ledger at most once per
 * `limits.tokenCacheMs` for all callers, and records the use of tokens in batches.
 */
export function makeTokenStore(context: LedgerContext): TokenStore {
  const { ledger, tenant: { slug: tenant } = {} } = context;
  const log = context.log.child('tokens');
  const configured = (): readonly ApiToken[] => context.config.api.auth.tokens;
  let known: ReadonlyMap<string, StoredToken> = new Map();
  let expiredNames: ReadonlyMap<string, string> = new Map();
  let readAt = -Infinity;
  let reading: Promise<void> | undefined;
  const used = new Set<string>();

  const read = async (): Promise<void> => {
    const at = performance.now();
    const tokens = await ledger.tokens.list();
    const valid = tokens.filter(({ expired }) => !expired);
    known = new Map(valid.map((token) => [token.digest, toStoredToken(token, tenant)]));
    expiredNames = new Map(
      tokens.filter(({ expired }) => expired).map(({ digest, name }) => [digest, name]),
    );
    readAt = at;
  };

  const refresh = async (): Promise<void> => {
    // A read that is in progress may have missed the latest change.
    await reading?.catch(() => undefined);
    await (reading ??= read().finally(() => (reading = undefined)));
  };

  const flush = async (): Promise<void> => {
    if (used.size === 0) return;
    const ids = [...used];
    used.clear();
    await ledger.tokens.recordUse(ids);
  };

  const logUnrecorded = (error: unknown): void =>
    log.warn('the use of tokens was not recorded', { error: messageOf(error) });
  const loop = makeLoop({
    name: 'tokens',
    everyMs: () => limits.tokenUseEveryMs,
    runOnce: flush,
    onError: logUnrecorded,
  });

  return {
    ...loop,
    refresh,
    async find(presented) {
      const own = findConfigured(configured(), presented);
      if (own !== undefined) return own;
      if (performance.now() - readAt >= limits.tokenCacheMs) {
        await (reading ??= read().finally(() => (reading = undefined)));
      }
      // Looking up a digest takes time that says nothing about how close a guess was.
      const found = known.get(hashTokenText(presented));
      if (found === undefined) return undefined;
      used.add(found.id);
      return found.principal;
    },
    findExpired: (presented) => expiredNames.get(hashTokenText(presented)),
    async findByActor(actor) {
      const own = findConfiguredByActor(configured(), actor);
      if (own !== undefined) return own;
      await refresh();
      return [...known.values()].find(({ principal }) => principal.actor === actor)?.principal;
    },
    async stop() {
      await loop.stop();
      await flush().catch(logUnrecorded);
    },
  };
}

function toStoredToken(
  { id, name, role, scopes: own }: ApiTokenRow,
  tenant: string | undefined,
): StoredToken {
  const scopes = [...roleScopes[role], ...own];
  return { id, principal: { actor: `token:${name}`, scopes, role, tenant } };
}

/**
 * Finds a token of the configuration. It compares digests of equal length, and all of them, so that
 * the time says nothing about how close a guess was.
 */
export function findConfigured(
  tokens: readonly ApiToken[],
  presented: string,
): Principal | undefined {
  const digest = hash('sha256', presented, 'buffer');
  let found: Principal | undefined;
  for (const token of tokens) {
    const { principal, digest: expected } = readConfigured(token);
    if (timingSafeEqual(digest, expected)) found = principal;
  }
  return found;
}

/** True if the actor is a token; all other actors are local to the process. */
export function isToken(actor: string): boolean {
  return actor.startsWith('token:');
}

export function findConfiguredByActor(
  tokens: readonly ApiToken[],
  actor: string,
): Principal | undefined {
  return tokens.map((token) => readConfigured(token).principal).find((one) => one.actor === actor);
}

interface ConfiguredToken {
  readonly digest: Buffer;
  readonly principal: Principal;
}

const configuredTokens = new WeakMap<ApiToken, ConfiguredToken>();

function readConfigured(token: ApiToken): ConfiguredToken {
  let known = configuredTokens.get(token);
  if (known === undefined) {
    const principal = makePrincipal(`token:${token.name}`, token.scopes);
    known = { digest: Buffer.from(token.digest, 'hex'), principal };
    configuredTokens.set(token, known);
  }
  return known;
}

/** Creates a principal of the root ledger from its scopes alone. */
export function makePrincipal(actor: string, scopes: readonly string[]): Principal {
  return { actor, scopes, role: roleOf(scopes), tenant: undefined };
}

/** Returns the digest that is stored instead of the token. */
export function hashTokenText(token: string): string {
  return hash('sha256', token, 'hex');
}

type TokenSettings = Pick<Config, 'api'>;

/**
 * Records the names of the configuration's tokens, so that no token of the ledger ever gets one of
 * them. A reload refuses a file that uses the name of a token of the ledger. At a start the conflict
 * is only logged, because the service must start; approvals then count both tokens as one person.
 */
export async function claimConfiguredNames(
  { api }: TokenSettings,
  before: TokenSettings | undefined,
  ledger: LedgerSubset<'tokens.claimNames'>,
  log: Log,
): Promise<void> {
  const tokens = api.auth.tokens;
  if (tokens.length === 0) return;
  const taken = new Set(await ledger.tokens.claimNames(tokens.map(({ name }) => name)));
  const known = new Set(before?.api.auth.tokens.map(({ name }) => name));
  for (const { name, place } of tokens.filter((token) => taken.has(token.name))) {
    const message = `the name ${name} belongs or belonged to a token of the database`;
    const hint = 'Choose another name: names of tokens are never reused.';
    if (before !== undefined && !known.has(name)) {
      throw new DuctileError('RELOAD_REFUSED', `${place}: ${message}`, { place, hint });
    }
    log.warn(message, { place, hint });
  }
}
