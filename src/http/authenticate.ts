import { timingSafeEqual, hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import {
  readAccessRules,
  admitToRoot,
  ANONYMOUS,
  identify,
  isSocketGuarded,
  isRunToken,
  recordWrongToken,
  SCRAPER,
  type Admission,
} from '../operation/authorize.ts';
import type { Context } from '../operation/context.ts';
import { answerCors, checkHost, hasRepeatedHeader, type Exchange } from './exchange.ts';
import { createTrustedProxies } from './client-address.ts';
import type { ApiRoute } from './router.ts';

/** Decides who a caller is, before anything else is read. */
export interface Authenticator {
  /** Refuses a foreign host or origin. Returns true if it answered a CORS preflight. */
  answerPreflight(exchange: Exchange): boolean;
  /**
   * Identifies the caller, even for a path that doesn't exist. Throws if a token is needed and none
   * is valid.
   */
  authenticate(exchange: Exchange, route: ApiRoute | undefined): Promise<Admission>;
}

interface ControlSocketRules {
  /** Secret that only users who can read the state directory know. */
  readonly key: string;
  readonly owner: Context['principal'];
}

/**
 * Authenticates on the control socket: the caller is the owner, or the bearer of a token that they
 * send. A tenant's plugin that can't read the state directory may still be able to open the socket,
 * but it can't read the key.
 */
export function createControlAuthenticator(
  base: Base,
  { key, owner }: ControlSocketRules,
): Authenticator {
  const checkToken = createTokenCheck(base, () => 'local');
  const expected = Buffer.from(`Control ${key}`);
  let guarded = false;
  return {
    answerPreflight: () => false,
    async authenticate(exchange, route) {
      const { authorization } = exchange.request.headers;
      if (authorization === undefined) {
        // Once a tenant exists, one of its plugins may be running at any time.
        guarded ||= await isSocketGuarded(base);
        if (guarded) throw new DuctileError('UNAUTHORIZED', 'the key of this socket is needed');
        return admitToRoot(base, owner);
      }
      const given = Buffer.from(authorization);
      if (given.length === expected.length && timingSafeEqual(given, expected)) {
        return admitToRoot(base, owner);
      }
      const admission = await checkToken(exchange, bearerOf(exchange), route);
      if (admission !== undefined && admission !== 'spent') return admission;
      throw refusal(admission);
    },
  };
}

/** Authenticates on the API: everything but open discovery needs a token. */
export function createTokenAuthenticator(base: Base, listenHost: string): Authenticator {
  const proxies = createTrustedProxies(() => readAccessRules(base).trustedProxies);
  const checkToken = createTokenCheck(base, (exchange) => proxies.sourceOf(exchange));
  return {
    answerPreflight(exchange) {
      const { allowedOrigins } = readAccessRules(base);
      checkHost(exchange, listenHost, allowedOrigins);
      return answerCors(exchange, allowedOrigins);
    },
    async authenticate(exchange, route) {
      const { sseQueryToken, discovery, metrics } = readAccessRules(base);
      const admission = await checkToken(
        exchange,
        findToken(exchange, route, sseQueryToken),
        route,
      );
      if (admission !== undefined && admission !== 'spent') return admission;
      if (isOpen(route, discovery)) return admitToRoot(base, ANONYMOUS);
      const isScraped = route?.surface.openTo === 'scrapers' && metrics === 'open';
      if (isScraped && admission === undefined) return admitToRoot(base, SCRAPER);
      throw refusal(admission);
    },
  };
}

type Base = Pick<Context, 'engine'>;

/** Finds the bearer of a token, and counts wrong tokens by address. */
function createTokenCheck(base: Base, addressOf: (exchange: Exchange) => string) {
  const failures = createTokenFailures();
  return async (exchange: Exchange, presented: string | undefined, route: ApiRoute | undefined) => {
    if (presented === undefined) return undefined;
    const verify = () => identify(base, presented);
    // An expired run token must not count against other callers on this machine.
    if (isRunToken(presented)) return await verify();
    const found = await failures.check(addressOf(exchange), presented, verify);
    if (found === undefined || found === 'spent') {
      recordWrongToken(base, presented, route?.operation.name);
    }
    return found;
  };
}

function refusal(admission: 'spent' | undefined): DuctileError {
  if (admission === 'spent') {
    return new DuctileError('TRIES_SPENT', 'too many wrong tokens came from this address');
  }
  // The message is the same for every reason, so that a guess reveals nothing.
  return new DuctileError('UNAUTHORIZED', 'a valid token is needed');
}

function isOpen(route: ApiRoute | undefined, discovery: 'open' | 'token'): boolean {
  if (route === undefined || route.operation.scope !== undefined) return false;
  return discovery === 'open' || route.surface.openTo === 'monitors';
}

/**
 * Reads the token from the header. The query is used only for event streams, and only if the
 * operator allows it.
 */
function findToken(
  exchange: Exchange,
  route: ApiRoute | undefined,
  isQueryAllowed: boolean,
): string | undefined {
  if (exchange.request.headers.authorization !== undefined) return bearerOf(exchange);
  if (!isQueryAllowed || route?.surface.isStream !== true) return undefined;
  return (
    new URLSearchParams(exchange.url.slice(exchange.url.indexOf('?'))).get('token') ?? undefined
  );
}

function bearerOf({ request }: Exchange): string | undefined {
  const token = /^bearer ([\x21-\x7e]+)$/i.exec(request.headers.authorization ?? '')?.[1];
  const isOne = !hasRepeatedHeader(request) || countOf(request) === 1;
  return (token ?? '').length <= limits.tokenCharsMax && isOne ? token : undefined;
}

/**
 * Counts the headers: of two tokens Node returns the first, but the caller may have meant the
 * other.
 */
function countOf({ rawHeaders }: IncomingMessage): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === 'authorization') count += 1;
  }
  return count;
}

/** Failed token checks by address, so that tokens can't be guessed and valid ones keep working. */
interface TokenFailures {
  /**
   * Returns what `verify` finds, or 'spent' for a wrong token from an address with too many failures.
   * A token is verified before its address counts. The exception are tokens short enough to be
   * guessed: while the address is over its limit, they are verified only if they were valid before.
   */
  check<T>(
    address: string,
    token: string,
    verify: () => Promise<T | undefined>,
  ): Promise<T | 'spent' | undefined>;
}

interface FailureCount {
  failures: number;
  /** When `failures` was computed. */
  at: number;
}

export function createTokenFailures(now: () => number = () => performance.now()): TokenFailures {
  const accounts = new Map<string, FailureCount>();
  const proven = new Set<string>();
  const open = (address: string): FailureCount => {
    const account = accounts.get(address) ?? { failures: 0, at: now() };
    const healed = ((now() - account.at) / limits.wrongTokensMs) * limits.wrongTokensMax;
    account.failures = Math.max(0, account.failures - healed);
    account.at = now();
    // Insert at the end, so that the address that was quiet for longest is dropped first.
    accounts.delete(address);
    accounts.set(address, account);
    dropOldest(accounts);
    return account;
  };
  return {
    async check(address, token, verify) {
      const account = open(address);
      const isSpent = account.failures >= limits.wrongTokensMax;
      const digest =
        token.length < limits.tokenGuessableChars ? hash('sha256', token, 'base64') : undefined;
      if (isSpent && digest !== undefined && !proven.has(digest)) return 'spent';
      // Count before the check, or as many as arrive at once would all be checked.
      if (!isSpent) account.failures += 1;
      let isWrong = false;
      try {
        const found = await verify();
        isWrong = found === undefined;
        if (digest !== undefined) {
          if (isWrong) proven.delete(digest);
          else dropOldest(proven.add(digest));
        }
        return isWrong && isSpent ? 'spent' : found;
      } finally {
        if (!isWrong && !isSpent) account.failures = Math.max(0, account.failures - 1);
      }
    },
  };
}

function dropOldest(entries: Map<string, unknown> | Set<string>): void {
  if (entries.size <= limits.wrongTokenAddressesMax) return;
  for (const oldest of entries.keys()) {
    entries.delete(oldest);
    return;
  }
}
