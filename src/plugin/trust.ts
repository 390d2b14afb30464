import { lstatSync, realpathSync, statSync, type Stats } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { isInsideDirectory } from '../config/paths.ts';

/** What a path is found to be, after all links were followed. */
export interface PathFacts {
  readonly path: string;
  readonly real: string;
  readonly mode: number;
  readonly kind: 'file' | 'directory' | 'other';
}

export interface TrustFacts {
  readonly allowSymlinks: boolean;
  /** Real paths of all configured roots. */
  readonly roots: readonly string[];
  /** The plugin's directory. */
  readonly directory: PathFacts;
  readonly manifest: PathFacts;
  /** Undefined when nothing is there. */
  readonly entrypoint: PathFacts | undefined;
  /** Every directory from the entrypoint up to and including the root. */
  readonly parents: readonly PathFacts[];
  /** Paths below the root, in use by this plugin, that are symbolic links. */
  readonly links: readonly string[];
}

interface Fault {
  readonly message: string;
  readonly hint: string;
}

interface Verdict {
  /** Why it is not run; empty when it may. */
  readonly faults: readonly Fault[];
  readonly warnings: readonly string[];
}

const WORLD_WRITABLE = 0o002;
const EXECUTABLE = 0o111;
const SET_ID = 0o6000;

/** Whether a plugin may be run with the rights of this process. */
export function judge(facts: TrustFacts): Verdict {
  const { allowSymlinks, links } = facts;
  const linked = links.map((path) => `${path} is a symbolic link`);
  const refusedLinks = allowSymlinks
    ? []
    : linked.map((message) => fault(message, 'Replace it, or set service.allow_symlinks: true.'));
  return {
    faults: [
      ...refusedLinks,
      ...judgeContainment(facts),
      ...judgeEntrypoint(facts.entrypoint),
      ...judgeWritable(facts),
    ],
    warnings: linked,
  };
}

/** Why an entrypoint's text is refused before anything is looked at, if it is. */
export function refuseEntrypointText(entrypoint: string): Fault | undefined {
  const hint = 'Name a file inside the directory of the plugin, such as run.py.';
  if (isAbsolute(entrypoint)) return fault('must be a relative path', hint);
  if (entrypoint.split(/[/\\]/).includes('..')) return fault('must not contain ..', hint);
  return undefined;
}

/** Looks at the file system and judges. */
export function examine(
  root: string,
  directory: string,
  files: { readonly manifest: string; readonly entrypoint: string },
  policy: Pick<TrustFacts, 'allowSymlinks' | 'roots'>,
): { readonly verdict: Verdict; readonly entrypoint: string } {
  const manifest = join(directory, files.manifest);
  const written = join(directory, files.entrypoint);
  const entrypoint = lookAt(written);
  const real = entrypoint?.real ?? written;
  const home = mustLookAt(directory);
  const verdict = judge({
    ...policy,
    directory: home,
    manifest: mustLookAt(manifest),
    entrypoint,
    parents: parentsUpTo(dirname(real), policy.roots),
    links: [...linksBelow(root, manifest), ...linksBelow(directory, written)],
  });
  return { verdict, entrypoint: real };
}

function judgeContainment({ roots, directory, manifest, entrypoint }: TrustFacts): Fault[] {
  const faults: Fault[] = [];
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

function judgeEntrypoint(entrypoint: PathFacts | undefined): Fault[] {
  if (entrypoint === undefined) {
    return [fault('the entrypoint does not exist', 'Correct entrypoint in the manifest.')];
  }
  const { path, kind, mode } = entrypoint;
  if (kind !== 'file') return [fault(`${path} is not a regular file`, 'Name a program to run.')];
  const faults: Fault[] = [];
  if ((mode & EXECUTABLE) === 0) {
    faults.push(fault(`${path} is not executable`, `Run: chmod +x ${path}`));
  }
  if ((mode & SET_ID) !== 0) {
    faults.push(fault(`${path} is set-uid or set-gid`, `Run: chmod ug-s ${path}`));
  }
  return faults;
}

function judgeWritable({ directory, manifest, entrypoint, parents }: TrustFacts): Fault[] {
  const looked = [directory, manifest, ...(entrypoint === undefined ? [] : [entrypoint])];
  const byReal = new Map([...looked, ...parents].map((facts) => [facts.real, facts]));
  return [...byReal.values()]
    .filter(({ mode }) => (mode & WORLD_WRITABLE) !== 0)
    .map(({ real }) => fault(`${real} is writable by everybody`, `Run: chmod o-w ${real}`));
}

function fault(message: string, hint: string): Fault {
  return { message, hint };
}

function parentsUpTo(start: string, roots: readonly string[]): PathFacts[] {
  const parents: PathFacts[] = [];
  for (let path = start; roots.some((root) => isInsideDirectory(root, path)); path = dirname(path)) {
    const facts = lookAt(path);
    if (facts !== undefined) parents.push(facts);
    if (roots.includes(path)) break;
  }
  return parents;
}

/** The parts of the way from `base` to `path` that are links; `base` itself is not looked at. */
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

/** Undefined when nothing is there, be it for a link that leads nowhere or in a circle. */
function lookAt(path: string): PathFacts | undefined {
  try {
    const stats = statSync(path);
    return { path, real: realpathSync(path), mode: stats.mode, kind: kindOf(stats) };
  } catch {
    return undefined;
  }
}

function mustLookAt(path: string): PathFacts {
  return lookAt(path) ?? { path, real: path, mode: 0, kind: 'other' };
}

function kindOf(stats: Stats): PathFacts['kind'] {
  if (stats.isFile()) return 'file';
  return stats.isDirectory() ? 'directory' : 'other';
}
