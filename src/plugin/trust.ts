import { lstatSync, realpathSync, statSync, type Stats } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { isInsideDirectory } from '../base/files.ts';

/** Facts about a path with all links resolved. */
export interface PathFacts {
  readonly path: string;
  readonly real: string;
  readonly mode: number;
  readonly kind: 'file' | 'directory' | 'other';
}

/** Facts about the files of a plugin, from which its trust is decided. */
export interface TrustFacts {
  readonly allowSymlinks: boolean;
  /** Real paths of all configured roots. */
  readonly roots: readonly string[];
  /** The plugin's directory. */
  readonly directory: PathFacts;
  readonly manifest: PathFacts;
  /** Undefined when it doesn't exist. */
  readonly entrypoint: PathFacts | undefined;
  /** Every directory from the entrypoint up to and including the root. */
  readonly parents: readonly PathFacts[];
  /** Paths below the root, in use by this plugin, that are symbolic links. */
  readonly links: readonly string[];
}

interface TrustFault {
  readonly message: string;
  readonly hint: string;
}

interface TrustResult {
  /** The reasons against running it; empty if it may run. */
  readonly faults: readonly TrustFault[];
  readonly warnings: readonly string[];
}

const WORLD_WRITABLE = 0o002;
const EXECUTABLE = 0o111;
const SET_ID = 0o6000;

/** Decides whether a plugin may run with the rights of the service. Reads no files. */
export function findTrustFaults(facts: TrustFacts): TrustResult {
  const { allowSymlinks, links } = facts;
  const linked = links.map((path) => `${path} is a symbolic link`);
  const refusedLinks = allowSymlinks
    ? []
    : linked.map((message) => fault(message, 'Replace it, or set service.allow_symlinks: true.'));
  return {
    faults: [
      ...refusedLinks,
      ...checkContainment(facts),
      ...checkEntrypointFile(facts.entrypoint),
      ...checkWritable(facts),
    ],
    warnings: linked,
  };
}

/** Refuses an entrypoint by its text, before the file system is read. */
export function refuseEntrypointText(entrypoint: string): TrustFault | undefined {
  const hint = 'Name a file inside the directory of the plugin, such as run.py.';
  if (isAbsolute(entrypoint)) return fault('must be a relative path', hint);
  if (entrypoint.split(/[/\\]/).includes('..')) return fault('must not contain ..', hint);
  return undefined;
}

/** Reads the files of a plugin and decides whether it may run with the rights of the service. */
export function checkTrust(
  root: string,
  directory: string,
  files: { readonly manifest: string; readonly entrypoint: string },
  policy: Pick<TrustFacts, 'allowSymlinks' | 'roots'>,
): { readonly verdict: TrustResult; readonly entrypoint: string } {
  const manifest = join(directory, files.manifest);
  const written = join(directory, files.entrypoint);
  const entrypoint = readPathFacts(written);
  const real = entrypoint?.real ?? written;
  const home = readPathFactsOrDefault(directory);
  const verdict = findTrustFaults({
    ...policy,
    directory: home,
    manifest: readPathFactsOrDefault(manifest),
    entrypoint,
    parents: parentsUpTo(dirname(real), policy.roots),
    links: [...linksBelow(root, manifest), ...linksBelow(directory, written)],
  });
  return { verdict, entrypoint: real };
}

function checkContainment({ roots, directory, manifest, entrypoint }: TrustFacts): TrustFault[] {
  const faults: TrustFault[] = [];
  const hint = 'Move it into the directory of the plugin.';
  if (!roots.some((root) => isInsideDirectory(root, directory.real))) {
    faults.push(
      fault(
        `${directory.path} leads to ${directory.real}, outside every plugin root`,
        'Add the directory it leads to, or its parent, to plugin_roots.',
      ),
    );
  }
  for (const { path, real } of [manifest, ...(entrypoint === undefined ? [] : [entrypoint])]) {
    if (isInsideDirectory(directory.real, real)) continue;
    faults.push(fault(`${path} leads to ${real}, outside the directory of the plugin`, hint));
  }
  return faults;
}

function checkEntrypointFile(entrypoint: PathFacts | undefined): TrustFault[] {
  if (entrypoint === undefined) {
    return [fault('the entrypoint does not exist', 'Correct entrypoint in the manifest.')];
  }
  const { path, kind, mode } = entrypoint;
  if (kind !== 'file') return [fault(`${path} is not a regular file`, 'Name a program to run.')];
  const faults: TrustFault[] = [];
  if ((mode & EXECUTABLE) === 0) {
    faults.push(fault(`${path} is not executable`, `Run: chmod +x ${path}`));
  }
  if ((mode & SET_ID) !== 0) {
    faults.push(fault(`${path} is set-uid or set-gid`, `Run: chmod ug-s ${path}`));
  }
  return faults;
}

function checkWritable({ directory, manifest, entrypoint, parents }: TrustFacts): TrustFault[] {
  const checked = [directory, manifest, ...(entrypoint === undefined ? [] : [entrypoint])];
  const byReal = new Map([...checked, ...parents].map((facts) => [facts.real, facts]));
  return [...byReal.values()]
    .filter(({ mode }) => (mode & WORLD_WRITABLE) !== 0)
    .map(({ real }) => fault(`${real} is writable by all users`, `Run: chmod o-w ${real}`));
}

function fault(message: string, hint: string): TrustFault {
  return { message, hint };
}

function parentsUpTo(start: string, roots: readonly string[]): PathFacts[] {
  const parents: PathFacts[] = [];
  for (
    let path = start;
    roots.some((root) => isInsideDirectory(root, path));
    path = dirname(path)
  ) {
    const facts = readPathFacts(path);
    if (facts !== undefined) parents.push(facts);
    if (roots.includes(path)) break;
  }
  return parents;
}

/** Lists the links on the path from `base` to `path`, without `base`. */
function linksBelow(base: string, path: string): string[] {
  const links: string[] = [];
  for (let part = path; part !== base && isInsideDirectory(base, part); part = dirname(part)) {
    if (isLink(part)) links.push(part);
  }
  return links.toReversed();
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch {
    return false;
  }
}

/** Returns undefined for a missing file, or a broken or circular link. */
function readPathFacts(path: string): PathFacts | undefined {
  try {
    const stats = statSync(path);
    return { path, real: realpathSync(path), mode: stats.mode, kind: kindOf(stats) };
  } catch {
    return undefined;
  }
}

function readPathFactsOrDefault(path: string): PathFacts {
  return readPathFacts(path) ?? { path, real: path, mode: 0, kind: 'other' };
}

function kindOf(stats: Stats): PathFacts['kind'] {
  if (stats.isFile()) return 'file';
  return stats.isDirectory() ? 'directory' : 'other';
}
