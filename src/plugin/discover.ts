import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import type { Dirent } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { makeProblem } from '../config/problem.ts';
import type { Problem } from '../config/problem.ts';
import { MANIFEST_FILE } from './manifest.ts';

export interface FoundPlugin {
  readonly root: string;
  readonly directory: string;
}

export interface Discovery {
  /** In the order of the roots, and by path within one root. */
  readonly found: readonly FoundPlugin[];
  readonly warnings: readonly Problem[];
}

/** Directories that hold what plugins are made with, not plugins. */
const skipped = new Set(['node_modules', '__pycache__']);

/** Files that show that somebody meant a directory to be a plugin. */
const typical = [
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

/** All directories with a manifest under the roots. */
export function discover(roots: readonly string[], allowSymlinks: boolean): Discovery {
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

interface Walk {
  readonly allowSymlinks: boolean;
  readonly found: FoundPlugin[];
  readonly warnings: Problem[];
  /** Real paths that were visited, so that links cannot lead in circles. */
  readonly seen: Set<string>;
  left: number;
}

function visit(root: string, directory: string, depth: number, walk: Walk): void {
  const entries = list(directory, walk);
  if (entries === undefined) return;
  if (entries.some(({ name }) => name === MANIFEST_FILE)) walk.found.push({ root, directory });
  else if (depth === 1) warnLooksLikePlugin(directory, entries, walk);
  const inner = entries.filter((entry) => mayHold(directory, entry, walk));
  if (depth >= limits.rootDepthMax && inner.length > 0) {
    warn(walk, directory, `is ${depth} levels below its root; what is under it was not searched`);
    return;
  }
  for (const { name } of inner) visit(root, join(directory, name), depth + 1, walk);
}

/** What a directory holds; undefined when it was seen before, or cannot be. */
function list(directory: string, walk: Walk): Dirent[] | undefined {
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

function mayHold(directory: string, entry: Dirent, walk: Walk): boolean {
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

/** False for a link that leads nowhere or in a circle. */
function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function warnLooksLikePlugin(directory: string, entries: readonly Dirent[], walk: Walk): void {
  const sign = entries.find(({ name }) => typical.includes(name));
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
