import { BlockList, isIPv6, isIPv4 } from 'node:net';
import { addProxy } from '../config/webhooks.ts';
import type { Exchange } from './exchange.ts';
import { limits } from '../base/limits.ts';

/** Finds the address of the client, as far as the proxies in front of the service are trusted. */
export interface TrustedProxies {
  /** True if the connection is from a trusted proxy, so that its `X-Forwarded-…` headers count. */
  isTrusted(exchange: Exchange): boolean;
  /** Returns the client's address, or its network for IPv6. */
  sourceOf(exchange: Exchange): string;
}

/** Follows the configuration: rebuilds the list after a reload that changes it. */
export function createTrustedProxies(trusted: () => readonly string[]): TrustedProxies {
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
      return toAddressGroup(sender ?? remoteAddress);
    },
  };
}

/** Finds the last address that isn't a trusted proxy; any client can write what comes before it. */
function findSender({ request }: Exchange, proxies: BlockList): string | undefined {
  const given = [request.headers['x-forwarded-for'] ?? []].flat().join(',');
  const hops = given.split(',').map((hop) => hop.trim());
  return hops.findLast((hop) => hop !== '' && !isIn(proxies, hop));
}

function isIn(proxies: BlockList, text: string): boolean {
  const address = parseIpAddress(text);
  return address !== undefined && proxies.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

/**
 * Normalizes an address for rate limits. For IPv6 it returns the /64 network, because one client
 * usually owns all of it.
 */
export function toAddressGroup(text: string): string {
  const address = parseIpAddress(text);
  if (address === undefined) return text.slice(0, limits.webhookSourceChars);
  return isIPv4(address) ? address : `${groupsOf(address).slice(0, 4).join(':')}::/64`;
}

/**
 * Removes a port, a zone and the prefix of IPv4 in IPv6; undefined if the text isn't an address.
 */
export function parseIpAddress(text: string): string | undefined {
  if (isIPv4(text)) return text;
  const [, bracketed, dotted] = AROUND.exec(text) ?? [];
  if (dotted !== undefined) return isIPv4(dotted) ? dotted : undefined;
  const address = bracketed ?? text;
  if (!isIPv6(address)) return undefined;
  const [plain = ''] = address.split('%', 1);
  return mappedIn(plain) ?? plain;
}

/** `[address]`, `[address]:port` and `a.b.c.d:port`. */
const AROUND = /^(?:\[([^\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/;

/** A dual-stack listener shows IPv4 addresses in IPv6 form. */
function mappedIn(address: string): string | undefined {
  const groups = groupsOf(address);
  if (groups.slice(0, 6).join(':') !== '0:0:0:0:0:ffff') return undefined;
  const [high = 0, low = 0] = groups.slice(6).map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** Expands to all eight groups, in hexadecimal without leading zeros. */
function groupsOf(address: string): string[] {
  const [head = '', tail] = address.split('::');
  const before = split(head);
  const after = split(tail ?? '');
  const left = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: left }, () => '0'), ...after];
}

function split(groups: string): string[] {
  return groups === '' ? [] : groups.split(':').flatMap(toGroups);
}

/** The last two groups may be written as four decimal bytes. */
function toGroups(group: string): string[] {
  if (!group.includes('.')) return [Number.parseInt(group, 16).toString(16)];
  const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
  return [a * 256 + b, c * 256 + d].map((value) => value.toString(16));
}
