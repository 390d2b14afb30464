import { lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { readDocument } from '../config/document.ts';
import { configInvalid, makeProblem } from '../config/problem.ts';
import type { Problem } from '../config/problem.ts';
import { discover } from './discover.ts';
import type { FoundPlugin } from './discover.ts';
import { MANIFEST_FILE, parseManifest } from './manifest.ts';
import type { Manifest } from './manifest.ts';
import { examine } from './trust.ts';

/** A plugin as it was found, before the configuration gives it a name and settings. */
export interface Base {
  readonly manifest: Manifest;
  readonly manifestFile: string;
  readonly directory: string;
  /** Absolute, with all links followed. */
  readonly entrypoint: string;
  /** The bytes of the manifest and of the entrypoint. */
  readonly files: readonly Buffer[];
}

export interface PluginProblem extends Problem {
  readonly plugin: string;
}

export interface Bases {
  readonly bases: ReadonlyMap<string, Base>;
  readonly problems: readonly PluginProblem[];
  readonly warnings: readonly Problem[];
}

/** Everything under the plugin roots that may be run, by the name in its manifest. */
export function findBases(config: Config): Bases {
  const roots = checkRoots(config);
  const { allowSymlinks } = config.service;
  const { found, warnings } = discover(
    config.pluginRoots.map(({ path }) => path),
    allowSymlinks,
  );
  const finding: Finding = {
    policy: { allowSymlinks, roots },
    bases: new Map(),
    problems: [],
    warnings: [...warnings],
  };
  for (const place of found) {
    try {
      addBase(place, finding);
    } catch (thrown) {
      const problem = makeProblem(place.directory, '', messageOf(thrown));
      finding.problems.push({ ...problem, plugin: basename(place.directory) });
    }
  }
  return finding;
}

interface Finding {
  readonly policy: { readonly allowSymlinks: boolean; readonly roots: readonly string[] };
  readonly bases: Map<string, Base>;
  readonly problems: PluginProblem[];
  readonly warnings: Problem[];
}

/** The real paths of the roots. A root that cannot be used at all is the configuration's fault. */
function checkRoots({ pluginRoots, service }: Config): string[] {
  const problems: Problem[] = [];
  for (const { path, place } of pluginRoots) {
    const report = (message: string, hint: string): void => {
      problems.push(makeProblem(place, 'plugin_roots', `names ${path}, which ${message}`, hint));
    };
    try {
      const stats = statSync(path, { throwIfNoEntry: false });
      if (stats === undefined) report('does not exist', 'Create it, or remove it from the list.');
      else if (!stats.isDirectory()) report('is not a directory', 'Name the directory around it.');
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

function addBase(found: FoundPlugin, finding: Finding): void {
  const { directory } = found;
  const manifestFile = join(directory, MANIFEST_FILE);
  const document = readDocument(manifestFile, limits.manifestBytesMax);
  const { manifest, problems } = parseManifest(document);
  // Without a readable name, the directory's is the best guess.
  const name = manifest?.name ?? basename(directory);
  const refuse = (reasons: readonly Problem[]): void => {
    finding.problems.push(...reasons.map((problem) => ({ ...problem, plugin: name })));
  };
  if (manifest === undefined) return refuse(problems);
  const first = finding.bases.get(name);
  if (first !== undefined) {
    const message = `is ${name}, as in ${first.manifestFile}, which comes first and is used`;
    const hint = 'Rename or remove one of them.';
    finding.warnings.push(makeProblem(document.placeOf(['name']), 'name', message, hint));
    return;
  }
  const place = document.placeOf(['entrypoint']);
  const { entrypoint, faults } = checkTrust(found, manifest.entrypoint, place, finding);
  if (faults.length > 0) return refuse(faults);
  const files = [document.bytes, readFileSync(entrypoint)];
  finding.bases.set(name, { manifest, manifestFile, directory, entrypoint, files });
}

function checkTrust(
  { root, directory }: FoundPlugin,
  written: string,
  place: string,
  { policy, warnings }: Finding,
): { readonly entrypoint: string; readonly faults: readonly Problem[] } {
  const files = { manifest: MANIFEST_FILE, entrypoint: written };
  const { verdict, entrypoint } = examine(root, directory, files, policy);
  warnings.push(...verdict.warnings.map((message) => makeProblem(directory, '', message)));
  const faults = verdict.faults.map(({ message, hint }) => makeProblem(place, '', message, hint));
  return { entrypoint, faults };
}
