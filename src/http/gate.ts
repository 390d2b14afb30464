import type { IncomingMessage } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { accessRules, ANONYMOUS, identify } from '../operations/access.ts';
import type { Context } from '../operations/context.ts';
import { allowOrigin } from './cors.ts';
import type { Exchange } from './exchange.ts';
import { hasRepeated, inspectHost } from './inspect.ts';
import type { Route } from './router.ts';
import { addressOf, makeTries } from './tries.ts';

export type Principal = Context['principal'];

/** Who is let in, before anything else is looked at. */
export interface Gate {
  /** Refuses, or answers a browser's question before its question: then true. */
  receive(exchange: Exchange): boolean;
  /** Who asks, for a place that may not exist; throws when a token is needed and none is good. */
  admit(exchange: Exchange, route: Route | undefined): Principal | Promise<Principal>;
}

/** The control socket: whoever can open it is its owner. */
export function openGate(owner: Principal): Gate {
  return { receive: () => false, admit: () => owner };
}

/** The API: a token for everything but what is open to everybody. */
export function tokenGate(base: Pick<Context, 'engine'>, listenHost: string): Gate {
  const tries = makeTries();
  return {
    receive(exchange) {
      const { allowedOrigins } = accessRules(base);
      inspectHost(exchange, listenHost, allowedOrigins);
      return allowOrigin(exchange, allowedOrigins);
    },
    async admit(exchange, route) {
      const { sseQueryToken, discovery } = accessRules(base);
      const presented = findToken(exchange, route, sseQueryToken);
      const principal =
        presented === undefined
          ? undefined
          : await tries.spend(addressOf(exchange.request), presented, () =>
              identify(base, presented),
            );
      if (principal !== undefined && principal !== 'spent') return principal;
      if (isOpen(route, discovery)) return ANONYMOUS;
      if (principal === 'spent') {
        throw new DuctileError('TRIES_SPENT', 'too many wrong tokens came from this address');
      }
      // The same for every reason, so that nothing is learned from a try.
      throw new DuctileError('UNAUTHORIZED', 'a valid token is needed');
    },
  };
}

function isOpen(route: Route | undefined, discovery: 'open' | 'token'): boolean {
  if (route === undefined || route.operation.scope !== undefined) return false;
  return discovery === 'open' || route.surface.isForMonitors === true;
}

/** From the header; from the query only for a stream of events, where the operator wants that. */
function findToken(
  { request, url }: Exchange,
  route: Route | undefined,
  isQueryAllowed: boolean,
): string | undefined {
  const header = request.headers.authorization;
  if (header !== undefined) {
    const token = /^bearer ([\x21-\x7e]+)$/i.exec(header)?.[1];
    const isOne = !hasRepeated(request) || countOf(request) === 1;
    const isUsable = (token ?? '').length <= limits.tokenCharsMax && isOne;
    return isUsable ? token : undefined;
  }
  if (!isQueryAllowed || route?.surface.isStream !== true) return undefined;
  return new URLSearchParams(url.slice(url.indexOf('?'))).get('token') ?? undefined;
}

/** Of two tokens the parser shows the first; nobody can know which one was meant. */
function countOf({ rawHeaders }: IncomingMessage): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === 'authorization') count += 1;
  }
  return count;
}
