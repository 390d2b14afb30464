/** Which addresses may be reached. What is connected to is what was checked, never a name again. */
import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { Failure } from '../../sdk/typescript/ductile-plugin.ts';

export interface Guard {
  /** Hosts that may be asked at all; empty means every public one. */
  readonly allowHosts: readonly string[];
  /** Whether hosts that the operator named may lie in private networks. */
  readonly allowPrivate: boolean;
  /** The host and port of config.url, which the operator named as well. */
  readonly ownHost: string | undefined;
}

export interface CheckedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** The addresses of a URL's host, all of them allowed; a Failure says which one is not. */
export async function resolveChecked(
  url: URL,
  guard: Guard,
  signal: AbortSignal,
): Promise<CheckedAddress[]> {
  checkUrl(url, guard);
  const host = bareHost(url);
  const addresses = isIP(host) === 0 ? await resolve(host, signal) : [host];
  const isPrivateAllowed = guard.allowPrivate && isNamed(url, guard);
  for (const address of addresses) {
    const kind = classify(address);
    if (kind === 'public' || (kind === 'private' && isPrivateAllowed)) continue;
    throw new Failure(`${url.hostname} leads to ${address}, which must not be reached`, false);
  }
  return addresses.map((address) => ({ address, family: isIP(address) === 6 ? 6 : 4 }));
}

/** Whether the operator named this host, so that the operator's own headers may go there. */
export function isNamed(url: URL, guard: Guard): boolean {
  const named =
    guard.ownHost === undefined ? guard.allowHosts : [...guard.allowHosts, guard.ownHost];
  return named.some((pattern) => matches(url, pattern));
}

/** `forbidden` is never reached; `private` only where the operator opted in. */
export function classify(address: string): 'public' | 'private' | 'forbidden' {
  const family = isIP(address);
  if (family === 4) {
    if (forbidden4.check(address, 'ipv4')) return 'forbidden';
    return private4.check(address, 'ipv4') ? 'private' : 'public';
  }
  if (family === 0 || address.includes('%') || forbidden6.check(address, 'ipv6'))
    return 'forbidden';
  if (private6.check(address, 'ipv6')) return 'private';
  return global6.check(address, 'ipv6') ? 'public' : 'forbidden';
}

function checkUrl(url: URL, guard: Guard): void {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new Failure(`${url.protocol} addresses are not fetched, only http: and https:`, false);
  }
  if (url.username !== '' || url.password !== '') {
    throw new Failure('an address with a user or password is not fetched; use a header', false);
  }
  const isListed = guard.allowHosts.length === 0 || isNamed(url, guard);
  if (!isListed) throw new Failure(`${url.host} is not in config.allow_hosts`, false);
  const port = url.port === '' ? undefined : Number(url.port);
  // Below 1024 live services that an HTTP request could be mistaken by.
  if (port !== undefined && port !== 80 && port !== 443 && port < 1024 && !isNamed(url, guard)) {
    throw new Failure(`port ${port} is not fetched unless config.allow_hosts names it`, false);
  }
}

/** `host`, `host:port` or `*.host`. A `*` stands for one or more labels. */
function matches(url: URL, pattern: string): boolean {
  const wanted = pattern.toLowerCase();
  if (wanted.startsWith('*.')) {
    return url.hostname.endsWith(wanted.slice(1)) && isIP(bareHost(url)) === 0;
  }
  return url.hostname === wanted || hostAndPort(url) === wanted;
}

export function hostAndPort(url: URL): string {
  return `${url.hostname}:${url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port}`;
}

function bareHost(url: URL): string {
  return url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname;
}

async function resolve(host: string, signal: AbortSignal): Promise<string[]> {
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () =>
      reject(new Failure(`${host} was not resolved in time`, true)),
    );
  });
  try {
    const found = await Promise.race([lookup(host, { all: true, verbatim: true }), aborted]);
    return found.map(({ address }) => address);
  } catch (thrown) {
    if (thrown instanceof Failure) throw thrown;
    const code =
      thrown instanceof Error && 'code' in thrown ? String(thrown.code) : 'unknown error';
    throw new Failure(`${host} cannot be resolved: ${code}`, true);
  }
}

function listOf(type: 'ipv4' | 'ipv6', ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits = ''] = range.split('/');
    list.addSubnet(address, Number(bits), type);
  }
  return list;
}

const private4 = listOf('ipv4', [
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
]);

/** This network, the clouds' metadata, link-local, documentation, benchmarks, multicast, reserved. */
const forbidden4 = listOf('ipv4', [
  '0.0.0.0/8',
  '100.100.100.200/32',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]);

/**
 * Of IPv6 only global unicast is in public use. All else is refused without a list: unspecified,
 * link-local, multicast, and the mapped and NAT64 forms that carry an IPv4 address inside.
 */
const global6 = listOf('ipv6', ['2000::/3']);

const private6 = listOf('ipv6', ['::1/128', 'fc00::/7']);

/** Inside those ranges: special purposes with Teredo, documentation, 6to4, the clouds' metadata. */
const forbidden6 = listOf('ipv6', [
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  'fd00:ec2::254/128',
  'fd20:ce::254/128',
]);
