import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, realpathSync, statSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, relative, sep } from 'node:path';
import type { Host, ProcessSpec } from './process.ts';

/** How processes are kept from looking into directories that are not theirs. */
export interface Isolation {
  readonly tier: 'landlock' | 'bubblewrap' | 'none';
  /** What a program is started through; empty without a tier. */
  readonly wrapper: readonly string[];
  /** Why there is none. */
  readonly reason: string | undefined;
}

export interface IsolationWish {
  /** The native spawner, which has Landlock built in. */
  readonly nativePath: string;
  /** Directories and files that are not to be seen. */
  readonly hidden: readonly string[];
  /** Directories that may be read although they are in one of those. */
  readonly readable: readonly string[];
  /** Where programs are searched for. */
  readonly path: string | undefined;
}

/** The best way that works here; each is tried on a program that does nothing. */
export function findIsolation(wish: IsolationWish): Isolation {
  const hidden = existing(wish.hidden);
  const readable = existing(wish.readable);
  const exposed = readable.find((directory) => hidden.some((one) => contains(directory, one)));
  if (exposed !== undefined) {
    return none(`${exposed} must be readable by plugins, and has what must be hidden in it`);
  }
  const landlock = landlockWrapper(wish.nativePath, hidden, readable);
  if (landlock !== undefined && works(landlock)) return found('landlock', landlock);
  const bubblewrap = bubblewrapWrapper(wish.path ?? '', hidden, readable);
  if (bubblewrap !== undefined && works(bubblewrap)) return found('bubblewrap', bubblewrap);
  return none(
    process.platform === 'linux'
      ? 'the kernel has no Landlock or the native spawner is not there, and bubblewrap does not work'
      : `there is no way for that on ${process.platform}`,
  );
}

/** A host whose processes all are started through something, as that is when they are. */
export function confined(host: Host, wrapperNow: () => readonly string[]): Host {
  const wrap = (spec: ProcessSpec): ProcessSpec => {
    const wrapper = wrapperNow();
    return wrapper.length === 0 ? spec : { ...spec, wrapper };
  };
  return {
    get rung() {
      return host.rung;
    },
    start: () => host.start(),
    run: (spec, request, options) => host.run(wrap(spec), request, options),
    hold: (spec) => host.hold(wrap(spec)),
    renew: (ms) => host.renew(ms),
    stop: () => host.stop(),
  };
}

function landlockWrapper(
  nativePath: string,
  hidden: readonly string[],
  readable: readonly string[],
): string[] | undefined {
  if (process.platform !== 'linux' || !existsSync(nativePath)) return undefined;
  const flagged = (flag: string, paths: readonly string[]) => paths.flatMap((path) => [flag, path]);
  return [nativePath, '--confine', ...flagged('-h', hidden), ...flagged('-r', readable), '--'];
}

/** As it is, with processes of its own to look at. */
const EVERYTHING_ELSE = '--dev-bind / / --unshare-pid --proc /proc --die-with-parent'.split(' ');

function bubblewrapWrapper(
  searched: string,
  hidden: readonly string[],
  readable: readonly string[],
): string[] | undefined {
  if (process.platform !== 'linux') return undefined;
  const program = searched
    .split(delimiter)
    .map((directory) => join(directory, 'bwrap'))
    .find((candidate) => isAbsolute(candidate) && isExecutable(candidate));
  if (program === undefined) return undefined;
  // From the outside in, and what may be read after what is hidden around it.
  const outermost = hidden.filter((one) => !hidden.some((other) => isBelow(other, one)));
  return [
    program,
    ...EVERYTHING_ELSE,
    ...outermost.flatMap((path) =>
      statSync(path).isDirectory() ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path],
    ),
    ...readable.flatMap((directory) => ['--ro-bind', directory, directory]),
    '--',
  ];
}

function works([program = '', ...args]: readonly string[]): boolean {
  const nothing = ['/bin/true', '/usr/bin/true'].find((path) => existsSync(path));
  if (nothing === undefined) return false;
  const { status } = spawnSync(program, [...args, nothing], { stdio: 'ignore', env: {} });
  return status === 0;
}

function found(tier: 'landlock' | 'bubblewrap', wrapper: readonly string[]): Isolation {
  return { tier, wrapper, reason: undefined };
}

function none(reason: string): Isolation {
  return { tier: 'none', wrapper: [], reason };
}

/** With all links followed: what is hidden is the place, whatever it is called. */
function existing(paths: readonly string[]): string[] {
  return [...new Set(paths.filter((path) => existsSync(path)).map((path) => realpathSync(path)))];
}

function contains(directory: string, path: string): boolean {
  return directory === path || isBelow(directory, path);
}

function isBelow(directory: string, path: string): boolean {
  const way = relative(directory, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return dirname(path) !== path;
  } catch {
    return false;
  }
}
