import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { isInsideDirectory } from '../base/files.ts';
import {
  makeProfile,
  ownerOfTenant,
  type Confine,
  type ProfileTier,
  type Profile,
  type ProfileEntry,
} from './profile.ts';
import type {
  HeldProcess,
  Host,
  IsolationRequest,
  IsolationRules,
  ProcessSpec,
} from './process.ts';
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, lstatSync, readlinkSync, statSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join } from 'node:path';

/** Ways to confine a plugin process, strongest first. */
const isolationTiers = ['namespaces', 'bubblewrap', 'landlock'] as const;
export type IsolationTier = (typeof isolationTiers)[number];

/** The way in which a host confines plugin processes. */
export interface IsolationState {
  readonly tier: IsolationTier | 'none';
  /** True if each tenant's processes get a user id of their own. */
  readonly hasOwnUser: boolean;
  /** The reason why there is no tier. */
  readonly reason: string | undefined;
}

/** The isolation of this host. */
export interface Isolation extends IsolationState {
  /**
   * Throws PLUGIN_NOT_ISOLATED without a tier: a process that must be confined never runs
   * unconfined.
   */
  readonly confine: Confine;
}

interface IsolationOptions {
  /** The native spawner, which confines processes. */
  readonly nativePath: string;
  /** Directories and files that don't exist for a confined process. */
  readonly hidden: readonly string[];
  /** Directories that it may read, even inside hidden ones, and never write. */
  readonly readable: readonly string[];
  /** The directories of programs, as in PATH. */
  readonly path: string | undefined;
  /** The service's user id; root can switch to other ids. */
  readonly uid: number;
  /** The tiers to try. */
  readonly tiers?: readonly IsolationTier[];
}

/** Finds the strongest tier that works, by running `true` in each. */
export function findIsolation(options: IsolationOptions): Isolation {
  if (process.platform !== 'linux')
    return makeNoIsolation(`${process.platform} does not support it`);
  const clash = options.readable.find((path) => options.hidden.includes(path));
  if (clash !== undefined)
    return makeNoIsolation(`${clash} contains plugins, but must be hidden from them`);
  const faults: string[] = [];
  for (const tier of options.tiers ?? isolationTiers) {
    const confine = makeConfine(tier, options);
    const fault = typeof confine === 'string' ? confine : probeConfinement(confine);
    if (typeof confine !== 'string' && fault === undefined) {
      return { tier, hasOwnUser: canSwitchUser(tier, options), reason: undefined, confine };
    }
    faults.push(`${tier}: ${fault ?? 'it does not work here'}`);
  }
  return makeNoIsolation(faults.join('; '));
}

/** Names the tier and its gaps in one line. docs/security/model.md says more. */
export function describeIsolation({ tier, hasOwnUser, reason }: IsolationState): string {
  if (tier === 'none') return `none (${reason ?? 'no tier was tried'})`;
  const user = hasOwnUser ? 'with a user id per tenant' : "under the service's user id";
  if (tier !== 'landlock') return `${tier}, ${user}`;
  return `landlock, ${user}; without a private /tmp, process list or network`;
}

/** Confines plugins whose configuration requests it. */
export function makePluginConfine(
  isolation: () => Isolation,
): (spec: ProcessSpec, request: IsolationRequest) => ProcessSpec {
  return (spec, request) =>
    isolation().confine(spec, mergeRules(request), `plugin ${spec.entrypoint}`);
}

/** Makes a host that confines every process of a tenant, unless all tenants trust each other. */
export function confineTenant(
  host: Host,
  slug: string,
  current: () => { readonly config: Config; readonly isolation: Isolation },
): Host {
  return makeConfinedHost(host, (spec: ProcessSpec) => {
    const { config, isolation } = current();
    if (config.tenants.trust === 'shared' && spec.isolation === undefined) return spec;
    const rules = mergeRules(spec.isolation, config.tenants.isolation);
    return isolation.confine(spec, rules, ownerOfTenant(slug));
  });
}

/** The first network that is set counts; lists add up. */
function mergeRules(...requests: readonly (IsolationRequest | undefined)[]): IsolationRules {
  const set = requests.filter((request) => request !== undefined);
  return {
    network: set.find(({ network }) => network !== undefined)?.network ?? 'host',
    read: set.flatMap(({ read }) => read),
    write: set.flatMap(({ write }) => write),
  };
}

/** Makes a host that confines each process when it starts. */
export function makeConfinedHost(host: Host, confine: (spec: ProcessSpec) => ProcessSpec): Host {
  const run: Host['run'] = async (spec, request, options) =>
    await host.run(confine(spec), request, options);
  return {
    get kind() {
      return host.kind;
    },
    start: () => host.start(),
    run,
    hold(spec) {
      try {
        return host.hold(confine(spec));
      } catch {
        // The attempt that uses it gets the error.
        const feed: HeldProcess['feed'] = (request, options) => run(spec, request, options);
        return { spoiled: Promise.resolve(), feed, discard: () => undefined };
      }
    },
    renew: (ms) => host.renew(ms),
    stop: () => host.stop(),
  };
}

function makeConfine(tier: IsolationTier, options: IsolationOptions): Confine | string {
  const bubblewrap = tier === 'bubblewrap' ? findBubblewrap(options.path ?? '') : undefined;
  if (tier === 'bubblewrap' && bubblewrap === undefined) return 'bwrap is not installed';
  if (tier === 'bubblewrap' && options.uid === 0) return 'it keeps the user id 0';
  const wrappers = new Map<string, readonly string[]>();
  const wrap = (spec: ProcessSpec, rules: IsolationRules, owner: string): readonly string[] => {
    const key = JSON.stringify([owner, spec.cwd, spec.entrypoint, spec.env['PATH'], rules]);
    const known = wrappers.get(key);
    if (known !== undefined) return known;
    if (wrappers.size >= limits.isolationProfilesMax) wrappers.clear();
    const user = canSwitchUser(tier, options) ? owner : undefined;
    const { nativePath } = options;
    // Bubblewrap runs the spawner inside the box.
    const readable = bubblewrap === undefined ? [] : [nativePath];
    const seen = { ...options, readable: [...options.readable, ...readable] };
    const profile = makeProfile({ ...seen, spec, rules, owner: user });
    const made =
      bubblewrap === undefined
        ? [nativePath, '--confine', profile.text(tier as ProfileTier), '--']
        : [bubblewrap, ...toBubblewrap(profile), '--', nativePath, '--confine'].concat(
            profile.text('inner'),
            '--',
          );
    wrappers.set(key, made);
    return made;
  };
  return (spec, rules, owner) => {
    const wrapper = wrap(spec, rules, owner);
    const env = confineEnvironment(spec.env, tier, rules);
    const confined = { ...spec, isolation: undefined, wrapper, env };
    return { ...confined, ...allowBoxProcesses(spec, tier) };
  };
}

/** A process with its own user id owns no files, so it can't change their mode or owner. */
function canSwitchUser(tier: IsolationTier, { uid }: IsolationOptions): boolean {
  return uid === 0 && tier !== 'bubblewrap';
}

/** The box adds two processes, which don't count against the plugin's limit. */
function allowBoxProcesses(
  { limits: set }: ProcessSpec,
  tier: IsolationTier,
): Partial<ProcessSpec> {
  if (set?.processes === undefined || set.processes === 0 || tier === 'landlock') return {};
  return { limits: { ...set, processes: set.processes + BOX_PROCESSES } };
}

const BOX_PROCESSES = 2;

/** Moves temporary files to the private /tmp, and a home directory that isn't visible, too. */
function confineEnvironment(
  env: ProcessSpec['env'],
  tier: IsolationTier,
  { read, write }: IsolationRules,
): Record<string, string> {
  const { TMPDIR: _, ...others } = env;
  if (tier === 'landlock') return others;
  const home = others['HOME'];
  const isVisible =
    home !== undefined && [...read, ...write].some((path) => isInsideDirectory(path, home));
  return { ...others, TMPDIR: '/tmp', HOME: isVisible ? home : '/tmp' };
}

function makeNoIsolation(reason: string): Isolation {
  return {
    tier: 'none',
    hasOwnUser: false,
    reason,
    confine() {
      throw new DuctileError('PLUGIN_NOT_ISOLATED', `The plugin cannot be confined: ${reason}`);
    },
  };
}

/** Runs `true` confined. Returns undefined if that works, else the reason. */
function probeConfinement(confine: Confine): string | undefined {
  const entrypoint = ['/bin/true', '/usr/bin/true'].find((path) => existsSync(path));
  if (entrypoint === undefined) return 'there is no /bin/true to try it with';
  const spec: ProcessSpec = { entrypoint, cwd: '/', env: {}, ...unlimited };
  try {
    const rules = { network: 'host', read: [], write: [] } as const;
    const { wrapper = [], env } = confine(spec, rules, 'probe');
    const [program, ...args] = [...wrapper, entrypoint];
    const { status, stderr, error } = spawnSync(program, args, {
      env,
      cwd: '/',
      encoding: 'utf8',
      timeout: PROBE_MS_MAX,
    });
    if (error !== undefined) return error.message;
    return status === 0 ? undefined : stderr.trim().split('\n').at(-1);
  } catch (error) {
    return messageOf(error);
  }
}

const PROBE_MS_MAX = 10_000;
const unlimited = {
  timeoutMs: PROBE_MS_MAX,
  killGraceMs: 0,
  drainMs: 0,
  stdoutBytesMax: 0,
  stderrBytesMax: 0,
};

/** Namespaces, an empty root and no capabilities. The visible paths follow. */
const BOX = [
  '--unshare-user --unshare-ipc --unshare-pid --unshare-uts',
  '--die-with-parent --cap-drop ALL --proc /proc --dev /dev --tmpfs /tmp --dir /run',
  '--symlink /tmp /var/tmp',
]
  .join(' ')
  .split(' ');

function toBubblewrap({ entries, network }: Profile): string[] {
  const mounted = entries.flatMap((entry) => toMount(entry, entries));
  return [...BOX, ...(network === 'none' ? ['--unshare-net'] : []), ...mounted];
}

function findBubblewrap(searched: string): string | undefined {
  return searched
    .split(delimiter)
    .map((directory) => join(directory, 'bwrap'))
    .find((candidate) => isAbsolute(candidate) && isExecutable(candidate));
}

function toMount({ path, access }: ProfileEntry, entries: readonly ProfileEntry[]): string[] {
  if (access === 'write') return ['--bind-try', path, path];
  const link = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (link) return ['--symlink', readlinkSync(path), path];
  if (access === 'read') return existsSync(path) ? ['--ro-bind-try', path, path] : [];
  const isVisible = entries.some(
    (other) => other.access !== 'hide' && path.startsWith(`${other.path}/`),
  );
  if (!isVisible || !existsSync(path)) return [];
  return statSync(path).isDirectory() ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path];
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return dirname(path) !== path;
  } catch {
    return false;
  }
}
