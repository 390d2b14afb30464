import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import {
  accessRules,
  admitHere,
  ANONYMOUS,
  identify,
  isGuarded,
  isRunToken,
  noteWrongToken,
  SCRAPER,
  type Admission,
} from '../access/authorize.operations.ts';
import type { Context } from '../operation/context.ts';
import { allowOrigin } from './cors.ts';
import type { Exchange } from './exchange.ts';
import { hasRepeated, inspectHost } from './check-request.ts';
import { makeProxies } from './client-address.ts';
import type { Route } from './router.ts';
import { makeTries } from './tries.ts';

/** Who is let in, before anything else is looked at. */
export interface Gate {
  /** Refuses, or answers a browser's question before its question: then true. */
  receive(exchange: Exchange): boolean;
  /** Who asks, for a place that may not exist; throws when a token is needed and none is good. */
  admit(exchange: Exchange, route: Route | undefined): Promise<Admission>;
}

export interface ControlRules {
  /** What only those know who can read the state directory. */
  readonly key: string;
  readonly owner: Context['principal'];
}

/**
 * The control socket: whoever can open it is its owner, unless they show a token and are its bearer.
 * A plugin of a tenant that is kept out of the state directory may be able to open it all the same,
 * but it cannot read the key.
 */
export function controlGate(base: Base, { key, owner }: ControlRules): Gate {
  const bearers = makeBearers(base, () => 'local');
  const expected = Buffer.from(`Control ${key}`);
  let guarded = false;
  return {
    receive: () => false,
    async admit(exchange, route) {
      const { authorization } = exchange.request.headers;
      if (authorization === undefined) {
        // Once there is a tenant, there may always be a plugin of it.
        guarded ||= await isGuarded(base);
        if (guarded) throw new DuctileError('UNAUTHORIZED', 'the key of this socket is needed');
        return admitHere(base, owner);
      }
      const given = Buffer.from(authorization);
      if (given.length === expected.length && timingSafeEqual(given, expected)) {
        return admitHere(base, owner);
      }
      const admission = await bearers(exchange, bearerOf(exchange), route);
      if (admission !== undefined && admission !== 'spent') return admission;
      throw refusal(admission);
    },
  };
}

/** The API: a token for everything but what is open to everybody. */
export function tokenGate(base: Base, listenHost: string): Gate {
  const proxies = makeProxies(() => accessRules(base).trustedProxies);
  const bearers = makeBearers(base, (exchange) => proxies.sourceOf(exchange));
  return {
    receive(exchange) {
      const { allowedOrigins } = accessRules(base);
      inspectHost(exchange, listenHost, allowedOrigins);
      return allowOrigin(exchange, allowedOrigins);
    },
    async admit(exchange, route) {
      const { sseQueryToken, discovery, metrics } = accessRules(base);
      const admission = await bearers(exchange, findToken(exchange, route, sseQueryToken), route);
      if (admission !== undefined && admission !== 'spent') return admission;
      if (isOpen(route, discovery)) return admitHere(base, ANONYMOUS);
      const isScraped = route?.surface.isForScrapers === true && metrics === 'open';
      if (isScraped && admission === undefined) return admitHere(base, SCRAPER);
      throw refusal(admission);
    },
  };
}

type Base = Pick<Context, 'engine'>;

/** Finds whose token it is, and counts wrong ones by the address that they come from. */
function makeBearers(base: Base, addressOf: (exchange: Exchange) => string) {
  const tries = makeTries();
  return async (exchange: Exchange, presented: string | undefined, route: Route | undefined) => {
    if (presented === undefined) return undefined;
    const look = () => identify(base, presented);
    // One that has died must not count against others who come from this machine.
    if (isRunToken(presented)) return await look();
    const found = await tries.spend(addressOf(exchange), presented, look);
    if (found === undefined || found === 'spent') {
      noteWrongToken(base, presented, route?.operation.name);
    }
    return found;
  };
}

function refusal(admission: 'spent' | undefined): DuctileError {
  if (admission === 'spent') {
    return new DuctileError('TRIES_SPENT', 'too many wrong tokens came from this address');
  }
  // The same for every reason, so that nothing is learned from a try.
  return new DuctileError('UNAUTHORIZED', 'a valid token is needed');
}

function isOpen(route: Route | undefined, discovery: 'open' | 'token'): boolean {
  if (route === undefined || route.operation.scope !== undefined) return false;
  return discovery === 'open' || route.surface.isForMonitors === true;
}

/** From the header; from the query only for a stream of events, where the operator wants that. */
function findToken(
  exchange: Exchange,
  route: Route | undefined,
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
  const isOne = !hasRepeated(request) || countOf(request) === 1;
  return (token ?? '').length <= limits.tokenCharsMax && isOne ? token : undefined;
}

/** Of two tokens the parser shows the first; nobody can know which one was meant. */
function countOf({ rawHeaders }: IncomingMessage): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === 'authorization') count += 1;
  }
  return count;
}
