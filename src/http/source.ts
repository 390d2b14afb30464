import { isIPv4, isIPv6 } from 'node:net';
import { limits } from '../base/limits.ts';

/**
 * Where an address counts as coming from, however it is written. Who has one address of IPv6 has all
 * that begin with the same four groups.
 */
export function sourceOf(text: string): string {
  const address = bareAddress(text);
  if (address === undefined) return text.slice(0, limits.hookSourceChars);
  return isIPv4(address) ? address : `${groupsOf(address).slice(0, 4).join(':')}::/64`;
}

/** Without a port, a zone and the prefix of IPv4 in IPv6; undefined for what is no address. */
export function bareAddress(text: string): string | undefined {
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

/** An address of IPv4 is written as one of IPv6 where both are listened on. */
function mappedIn(address: string): string | undefined {
  const groups = groupsOf(address);
  if (groups.slice(0, 6).join(':') !== '0:0:0:0:0:ffff') return undefined;
  const [high = 0, low = 0] = groups.slice(6).map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** All eight, in hexadecimal without zeros before them. */
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

/** The last two may be written as four bytes. */
function toGroups(group: string): string[] {
  if (!group.includes('.')) return [Number.parseInt(group, 16).toString(16)];
  const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
  return [a * 256 + b, c * 256 + d].map((value) => value.toString(16));
}
