import { BlockList, isIPv6 } from 'node:net';
import { addProxy } from '../config/webhooks.ts';
import type { Exchange } from './exchange.ts';
import { bareAddress, sourceOf } from './source.ts';

/** Where requests come from, as far as the proxies in front of the service are trusted. */
export interface Proxies {
  /** Whether the connection is from a trusted proxy, so that its `X-Forwarded-…` headers count. */
  isTrusted(exchange: Exchange): boolean;
  /** The client's address, or the network that it counts as. */
  sourceOf(exchange: Exchange): string;
}

/** Follows the configuration: the list is built again when a reload brings another one. */
export function makeProxies(trusted: () => readonly string[]): Proxies {
  let of: readonly string[] | undefined;
  let list = new BlockList();
  const read = (): BlockList => {
    const proxies = trusted();
    if (proxies === of) return list;
    of = proxies;
    list = new BlockList();
    for (const proxy of proxies) addProxy(list, proxy);
    return list;
  };
  const isTrusted = ({ request }: Exchange): boolean =>
    trusted().length > 0 && isIn(read(), request.socket.remoteAddress ?? '');
  return {
    isTrusted,
    sourceOf(exchange) {
      const { remoteAddress = '' } = exchange.request.socket;
      const sender = isTrusted(exchange) ? findSender(exchange, read()) : undefined;
      return sourceOf(sender ?? remoteAddress);
    },
  };
}

/** The last address that isn't a trusted proxy; any client can write what comes before it. */
function findSender({ request }: Exchange, proxies: BlockList): string | undefined {
  const given = [request.headers['x-forwarded-for'] ?? []].flat().join(',');
  const hops = given.split(',').map((hop) => hop.trim());
  return hops.findLast((hop) => hop !== '' && !isIn(proxies, hop));
}

function isIn(proxies: BlockList, text: string): boolean {
  const address = bareAddress(text);
  return address !== undefined && proxies.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}
