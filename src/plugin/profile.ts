import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, sep } from 'node:path';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { overlaps } from '../base/files.ts';
import type { IsolationRules, ProcessSpec } from './process.ts';

/** Converts the spec of a process to that of a confined one, for an owner such as a tenant. */
export type Confine = (spec: ProcessSpec, rules: IsolationRules, owner: string) => ProcessSpec;

/** Tiers of the native program; `inner` is for a process that is in a box already. */
export type ProfileTier = 'namespaces' | 'landlock' | 'inner';

/** A path with its access. The deepest path decides. */
export interface ProfileEntry {
  readonly access: 'read' | 'write' | 'hide';
  readonly path: string;
}

/** The access of one confined process; native/profile.h reads its text. */
export interface Profile {
  /** Sorted, parents first. */
  readonly entries: readonly ProfileEntry[];
  readonly network: IsolationRules['network'];
  readonly text: (tier: ProfileTier) => string;
}

interface ProfileOptions {
  readonly hidden: readonly string[];
  readonly readable: readonly string[];
  readonly spec: Pick<ProcessSpec, 'cwd' | 'entrypoint' | 'env'>;
  readonly rules: IsolationRules;
  /** The owner of the user id; undefined keeps the service's. */
  readonly owner: string | undefined;
}

/** Programs, libraries and their settings. Links stay links. */
const systemPaths = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'].concat(
  '/etc',
  '/opt',
  '/nix',
  '/gnu',
);
/** Often a link to a file of the resolver. */
const RESOLVER_FILE = '/etc/resolv.conf';

export function makeProfile({ hidden, readable, spec, rules, owner }: ProfileOptions): Profile {
  const searched = (spec.env['PATH'] ?? '').split(delimiter).filter((path) => isAbsolute(path));
  const own = [...readable, spec.cwd, dirname(spec.entrypoint)];
  const read = [...own, ...searched, RESOLVER_FILE, ...rules.read].map(toRealPath);
  const write = rules.write.map(toRealPath);
  const guarded = [...hidden, ...own].map(toRealPath);
  const exposed = write.find((path) => guarded.some((one) => overlaps(path, one)));
  if (exposed !== undefined) {
    const message = `${exposed} is listed under isolation.write, and overlaps with files of Ductile`;
    throw new DuctileError('PLUGIN_NOT_ISOLATED', message);
  }
  const access = new Map<string, ProfileEntry['access']>();
  for (const path of [...systemPaths, ...read]) if (path !== sep) access.set(path, 'read');
  for (const path of write) if (path !== sep) access.set(path, 'write');
  for (const path of hidden.map(toRealPath)) access.set(path, 'hide');
  const entries = [...access]
    .map(([path, allowed]) => ({ path, access: allowed }))
    .toSorted((one, other) => compareDepth(one.path, other.path));
  refuseOddPaths(entries);
  const lines = entries.map((entry) => `${entry.access} ${entry.path}`);
  if (rules.network === 'none') lines.push('network none');
  if (owner !== undefined) lines.push(`user ${pickUser(owner, readUserMap())}`);
  lines.push(`tmp ${limits.isolatedTmpBytesMax}`);
  const text = (tier: ProfileTier): string => [`tier ${tier}`, ...lines].join('\n');
  return { entries, network: rules.network, text };
}

export function ownerOfTenant(slug: string): string {
  return `tenant ${slug}`;
}

export function userOfTenant(slug: string): number {
  return pickUser(ownerOfTenant(slug), readUserMap());
}

const WHOLE_RANGE = 2 ** 31;

/**
 * Picks a user id for an owner, the same every time, above the ids that systems assign. Two owners
 * can share an id; their processes are in different namespaces anyway.
 */
export function pickUser(owner: string, userMap: string): number {
  const digest = createHash('sha256').update(owner).digest().readUInt32LE(0);
  const [, , count = 0] = userMap.trim().split(/\s+/).map(Number);
  // A container that maps few ids has a free range near the end of 16 bits.
  const range = count >= WHOLE_RANGE ? limits.isolatedUsers : limits.isolatedUsersInContainer;
  return range.first + (digest % range.count);
}

function readUserMap(): string {
  return readFileSync('/proc/self/uid_map', 'utf8');
}

/** Resolves links of an existing path. */
export function toRealPath(path: string): string {
  return existsSync(path) ? realpathSync(path) : path;
}

function compareDepth(one: string, other: string): number {
  const depth = (path: string): number => path.split(sep).length;
  return depth(one) - depth(other) || (one < other ? -1 : 1);
}

/** Refuses line breaks, which would start another entry. */
function refuseOddPaths(entries: readonly ProfileEntry[]): void {
  const odd = entries.find(({ path }) => path.includes('\n'));
  if (odd === undefined) return;
  const message = `the path ${JSON.stringify(odd.path)} has a line break`;
  throw new DuctileError('PLUGIN_NOT_ISOLATED', message);
}
