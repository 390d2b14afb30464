import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, lstatSync, readlinkSync, statSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import type { ProcessSpec } from './process.ts';
import type { Confine, Profile, ProfileEntry } from './profile.ts';

/** Runs a program that does nothing; undefined when that works, else why it doesn't. */
export function runsUnder(confine: Confine): string | undefined {
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

/** Namespaces, an empty root, and no rights; what is visible follows. */
const BOX = [
  '--unshare-user --unshare-ipc --unshare-pid --unshare-uts',
  '--die-with-parent --cap-drop ALL --proc /proc --dev /dev --tmpfs /tmp --dir /run',
  '--symlink /tmp /var/tmp',
]
  .join(' ')
  .split(' ');

/** The arguments of bubblewrap for a profile. */
export function toBubblewrap({ entries, network }: Profile): string[] {
  const mounted = entries.flatMap((entry) => toMount(entry, entries));
  return [...BOX, ...(network === 'none' ? ['--unshare-net'] : []), ...mounted];
}

export function findBubblewrap(searched: string): string | undefined {
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
