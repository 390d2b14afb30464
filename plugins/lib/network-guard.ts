/** Decides which addresses a plugin may reach. It connects to the address that was checked, never to a name again. */
import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { Failure } from '../../sdk/typescript/ductile-plugin.ts';
import ranges from './address-ranges.json' with { type: 'json' };

export interface Guard {
  /** Hosts that may be reached at all; empty means every public one. Without a port, the default one. */
  readonly allowHosts: readonly string[];
  /** True if hosts that the operator named may be in private networks. */
  readonly allowPrivate: boolean;
  /** The origin of config.url, which the operator named as well. */
  readonly ownOrigin: string | undefined;
}

export interface CheckedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** Resolves a URL's host; throws a Failure if an address isn't allowed. */
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
    const hint = kind === 'private' ? '; config.allow_private allows it for named hosts' : '';
    throw new Failure(
      `${url.hostname} leads to ${address}, which must not be reached${hint}`,
      false,
    );
  }
  return addresses.map((address) => ({ address, family: isIP(address) === 6 ? 6 : 4 }));
}

/** True if the operator named this host and port. */
export function isNamed(url: URL, guard: Guard): boolean {
  return (
    url.origin === guard.ownOrigin || guard.allowHosts.some((pattern) => matches(url, pattern))
  );
}

/**
 * True if the operator's headers may be sent there. They are secrets, so a host that is named without a
 * port gets them only over https.
 */
export function mayGetHeaders(url: URL, guard: Guard): boolean {
  if (url.origin === guard.ownOrigin) return true;
  return guard.allowHosts.some(
    (pattern) =>
      matches(url, pattern) &&
      (url.protocol === 'https:' || (splitPort(pattern).port ?? HTTPS) !== HTTPS),
  );
}

/** `forbidden` is never reachable; `private` only if the operator allows it. */
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
  // Other services below port 1024 could misinterpret an HTTP request.
  if (port !== undefined && port !== 80 && port !== 443 && port < 1024 && !isNamed(url, guard)) {
    throw new Failure(`port ${port} is not fetched unless config.allow_hosts names it`, false);
  }
}

/** `host`, `host:port`, `*.host` or `*.host:port`. A `*` stands for one or more labels. */
function matches(url: URL, pattern: string): boolean {
  const { host, port } = splitPort(pattern.toLowerCase());
  const usual = url.protocol === 'https:' ? HTTPS : HTTP;
  if ((url.port === '' ? usual : Number(url.port)) !== (port ?? usual)) return false;
  if (!host.startsWith('*.')) return url.hostname === host;
  return url.hostname.endsWith(host.slice(1)) && isIP(bareHost(url)) === 0;
}

const HTTP = 80;
const HTTPS = 443;

function splitPort(pattern: string): { host: string; port: number | undefined } {
  const match = /^(.*[^:]):(\d{1,5})$/.exec(pattern);
  const host = match?.[1] ?? pattern;
  // The colons of an IPv6 address are inside brackets.
  const isPort = match !== null && (!host.startsWith('[') || host.endsWith(']'));
  return isPort ? { host, port: Number(match[2]) } : { host: pattern, port: undefined };
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

function listOf(type: 'ipv4' | 'ipv6', listed: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of listed) {
    const [address = '', bits = ''] = range.split('/');
    list.addSubnet(address, Number(bits), type);
  }
  return list;
}

const private4 = listOf('ipv4', ranges.private4);

/** This network, metadata services, link-local, documentation, benchmarks, multicast, reserved. */
const forbidden4 = listOf('ipv4', ranges.forbidden4);

/**
 * Only global unicast is in public use in IPv6. Everything else is refused without a list: unspecified,
 * link-local, multicast, and the mapped and NAT64 forms that contain an IPv4 address.
 */
const global6 = listOf('ipv6', ranges.global6);

const private6 = listOf('ipv6', ranges.private6);

/** Inside those ranges: special purposes with Teredo, documentation, 6to4, metadata services. */
const forbidden6 = listOf('ipv6', ranges.forbidden6);
