import {
  lstatSync,
  readFileSync,
  realpathSync,
  statSync,
  existsSync,
  readdirSync,
  type Dirent,
} from 'node:fs';
import { basename, join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { readDocument } from '../config/document.ts';
import { configInvalid, makeProblem, type Problem } from '../config/problem.ts';
import { MANIFEST_FILE, parseManifest, type Manifest } from './manifest.ts';
import { checkTrust } from './trust.ts';

/** The code of a plugin on disk, before the configuration gives it a name and settings. */
export interface PluginSource {
  readonly manifest: Manifest;
  readonly manifestFile: string;
  readonly directory: string;
  /** Absolute, with symbolic links resolved. */
  readonly entrypoint: string;
  /** The bytes of the manifest and of the entrypoint. */
  readonly files: readonly Buffer[];
}

export interface PluginProblem extends Problem {
  readonly plugin: string;
}

export interface PluginSources {
  readonly byName: ReadonlyMap<string, PluginSource>;
  readonly problems: readonly PluginProblem[];
  readonly warnings: readonly Problem[];
}

/** Finds all valid plugins under the roots, by the name in the manifest. */
export function findPluginSources(config: Config): PluginSources {
  const roots = checkRoots(config);
  const { allowSymlinks } = config.service;
  const { found, warnings } = findPluginDirectories(
    config.pluginRoots.map(({ path }) => path),
    allowSymlinks,
  );
  const search: SourceSearch = {
    policy: { allowSymlinks, roots },
    byName: new Map(),
    problems: [],
    warnings: [...warnings],
  };
  for (const place of found) {
    try {
      addSource(place, search);
    } catch (thrown) {
      const problem = makeProblem(place.directory, '', messageOf(thrown));
      search.problems.push({ ...problem, plugin: basename(place.directory) });
    }
  }
  return search;
}

interface SourceSearch {
  readonly policy: { readonly allowSymlinks: boolean; readonly roots: readonly string[] };
  readonly byName: Map<string, PluginSource>;
  readonly problems: PluginProblem[];
  readonly warnings: Problem[];
}

/** Returns the real paths of the roots. Throws CONFIG_INVALID for a root that can't be used. */
function checkRoots({ pluginRoots, service }: Config): string[] {
  const problems: Problem[] = [];
  for (const { path, place } of pluginRoots) {
    const report = (message: string, hint: string): void => {
      problems.push(makeProblem(place, 'plugin_roots', `names ${path}, which ${message}`, hint));
    };
    try {
      const stats = statSync(path, { throwIfNoEntry: false });
      if (stats === undefined) report('does not exist', 'Create it, or remove it from the list.');
      else if (!stats.isDirectory())
        report('is not a directory', 'Name the directory that contains it.');
      else if (!service.allowSymlinks && lstatSync(path).isSymbolicLink()) {
        const target = realpathSync(path);
        report('is a symbolic link', `Name ${target}, or set service.allow_symlinks: true.`);
      }
    } catch (thrown) {
      report('cannot be reached', messageOf(thrown));
    }
  }
  if (problems.length > 0) throw configInvalid(problems);
  return pluginRoots.map(({ path }) => realpathSync(path));
}

function addSource(found: PluginDirectory, search: SourceSearch): void {
  const { directory } = found;
  const manifestFile = join(directory, MANIFEST_FILE);
  const document = readDocument(manifestFile, limits.manifestBytesMax);
  const { manifest, problems } = parseManifest(document);
  // Without a readable manifest, use the directory's name.
  const name = manifest?.name ?? basename(directory);
  const refuse = (reasons: readonly Problem[]): void => {
    search.problems.push(...reasons.map((problem) => ({ ...problem, plugin: name })));
  };
  if (manifest === undefined) return refuse(problems);
  const first = search.byName.get(name);
  if (first !== undefined) {
    const message = `is ${name}, which ${first.manifestFile} has too; that plugin comes first and is used`;
    const hint = 'Rename or remove one of them.';
    search.warnings.push(makeProblem(document.placeOf(['name']), 'name', message, hint));
    return;
  }
  const place = document.placeOf(['entrypoint']);
  const { entrypoint, faults } = checkEntrypoint(found, manifest.entrypoint, place, search);
  if (faults.length > 0) return refuse(faults);
  const files = [document.bytes, readFileSync(entrypoint)];
  search.byName.set(name, { manifest, manifestFile, directory, entrypoint, files });
}

function checkEntrypoint(
  { root, directory }: PluginDirectory,
  written: string,
  place: string,
  { policy, warnings }: SourceSearch,
): { readonly entrypoint: string; readonly faults: readonly Problem[] } {
  const files = { manifest: MANIFEST_FILE, entrypoint: written };
  const { verdict, entrypoint } = checkTrust(root, directory, files, policy);
  warnings.push(...verdict.warnings.map((message) => makeProblem(directory, '', message)));
  const faults = verdict.faults.map(({ message, hint }) => makeProblem(place, '', message, hint));
  return { entrypoint, faults };
}

interface PluginDirectory {
  readonly root: string;
  readonly directory: string;
}

interface PluginDirectories {
  /** In the order of the roots, and by path within one root. */
  readonly found: readonly PluginDirectory[];
  readonly warnings: readonly Problem[];
}

/** Directories of dependencies, which hold no plugins. */
const skipped = new Set(['node_modules', '__pycache__']);

/** Files that suggest that a directory is meant to be a plugin. */
const typicalFiles = [
  'manifest.yml',
  'run.py',
  'run.sh',
  'run.js',
  'run.ts',
  'main.py',
  'main.go',
  'index.js',
  'index.ts',
];

/** Finds all directories with a manifest under the roots. */
function findPluginDirectories(
  roots: readonly string[],
  allowSymlinks: boolean,
): PluginDirectories {
  const walk: Walk = { allowSymlinks, found: [], warnings: [], seen: new Set(), left: 0 };
  for (const root of roots) {
    walk.left = limits.rootDirectoriesMax;
    visit(root, root, 0, walk);
    if (walk.left < 0) {
      const message = `has more than ${limits.rootDirectoriesMax} directories; the rest was not searched`;
      warn(walk, root, message, 'Point plugin_roots at a directory that holds only plugins.');
    }
  }
  return walk;
}

/** State of the search for plugin directories. */
interface Walk {
  readonly allowSymlinks: boolean;
  readonly found: PluginDirectory[];
  readonly warnings: Problem[];
  /** Real paths of visited directories, against circular links. */
  readonly seen: Set<string>;
  /** The number of directories that may still be visited. */
  left: number;
}

function visit(root: string, directory: string, depth: number, walk: Walk): void {
  const entries = listEntries(directory, walk);
  if (entries === undefined) return;
  if (entries.some(({ name }) => name === MANIFEST_FILE)) walk.found.push({ root, directory });
  else if (depth === 1) warnLooksLikePlugin(directory, entries, walk);
  const inner = entries.filter((entry) => mayContainPlugins(directory, entry, walk));
  if (depth >= limits.rootDepthMax && inner.length > 0) {
    warn(
      walk,
      directory,
      `is ${depth} levels below its root; its subdirectories were not searched`,
    );
    return;
  }
  for (const { name } of inner) visit(root, join(directory, name), depth + 1, walk);
}

/** Returns undefined for a directory that was visited before or can't be read. */
function listEntries(directory: string, walk: Walk): Dirent[] | undefined {
  try {
    const real = realpathSync(directory);
    if (walk.seen.has(real)) return undefined;
    walk.left -= 1;
    if (walk.left < 0) return undefined;
    walk.seen.add(real);
    const entries = readdirSync(directory, { withFileTypes: true });
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (thrown) {
    warn(walk, directory, `cannot be searched: ${messageOf(thrown)}`);
    return undefined;
  }
}

/** Returns whether an entry of a directory may contain plugins. */
function mayContainPlugins(directory: string, entry: Dirent, walk: Walk): boolean {
  if (entry.name.startsWith('.') || skipped.has(entry.name)) return false;
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  const path = join(directory, entry.name);
  if (!isDirectory(path)) return false;
  if (!walk.allowSymlinks && existsSync(join(path, MANIFEST_FILE))) {
    const message = 'is a symbolic link to a plugin and was not followed';
    warn(walk, path, message, 'Replace it, or set service.allow_symlinks: true.');
  }
  return walk.allowSymlinks;
}

/** Returns false for a broken or circular link. */
function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function warnLooksLikePlugin(directory: string, entries: readonly Dirent[], walk: Walk): void {
  const sign = entries.find(({ name }) => typicalFiles.includes(name));
  if (sign === undefined) return;
  const hint =
    sign.name === 'manifest.yml'
      ? `Rename manifest.yml to ${MANIFEST_FILE}.`
      : `Add ${MANIFEST_FILE}, or move it out of the plugin root.`;
  warn(walk, directory, `has ${sign.name} but no ${MANIFEST_FILE}, so it is not a plugin`, hint);
}

function warn(walk: Walk, place: string, message: string, hint?: string): void {
  walk.warnings.push(makeProblem(place, '', `the directory ${message}`, hint));
}
