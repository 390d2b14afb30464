import { DuctileError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { keyText } from '../config/document.ts';
import { findConfigFindings, toFinding } from '../config/findings.ts';
import type { Category, Finding } from '../config/findings.ts';
import type { Reading } from '../config/load.ts';
import { suggest } from '../config/nearest.ts';
import { makeProblem, sortProblems } from '../config/problem.ts';
import type { Problem } from '../config/problem.ts';
import { loadCatalog, lookupCommand } from '../plugin/catalog.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { Route } from '../pipeline/route.ts';
import { checkRoutes } from './check.ts';

/** Everything that can be found out about a configuration without starting it. */
export function diagnose(reading: Reading, nowMs: number): Finding[] {
  const findings = findConfigFindings(reading);
  const { config } = reading;
  if (config !== undefined) {
    try {
      findings.push(...diagnosePlugins(config, loadCatalog(config), nowMs));
    } catch (thrown) {
      findings.push(...thrownProblems(thrown).map((found) => toFinding('error', 'plugins', found)));
    }
  }
  return rank(findings);
}

function diagnosePlugins(config: Config, catalog: Catalog, nowMs: number): Finding[] {
  const { routes, problems, warnings } = checkRoutes(config.routes, catalog);
  const as = (severity: Finding['severity'], category: Category) => (problem: Problem) =>
    toFinding(severity, category, problem);
  return [
    ...catalog.problems.map(as('error', 'plugins')),
    ...catalog.warnings.map(as('warning', 'plugins')),
    ...findDormant(config, catalog).map(as('info', 'plugins')),
    ...problems.map(as('error', 'routes')),
    ...warnings.map(as('warning', 'routes')),
    ...findCycles(config, routes).map(as('warning', 'routes')),
    ...Object.keys(config.plugins).flatMap((name) => checkSchedules(name, config, catalog, nowMs)),
  ];
}

function findDormant({ file }: Config, { dormant }: Catalog): Problem[] {
  return [...dormant].map(([name, keys]) => {
    const key = keyText(['plugins', name]);
    const wanted = keys.map((wantedKey) => `${key}.config.${wantedKey}`).join(' and ');
    return makeProblem(file, key, 'was found and waits to be set up', `To use it, set ${wanted}.`);
  });
}

function checkSchedules(name: string, config: Config, catalog: Catalog, nowMs: number): Finding[] {
  const plugin = catalog.plugins.get(name);
  const settings = config.plugins[name];
  if (settings === undefined || !settings.enabled) return [];
  return settings.schedules.flatMap(({ id, command, timing }, index): Finding[] => {
    const key = keyText(['plugins', name, 'schedules', index]);
    const found = (severity: Finding['severity'], message: string, hint: string): Finding[] => [
      toFinding(severity, 'schedules', makeProblem(settings.place, key, message, hint)),
    ];
    if (plugin !== undefined && lookupCommand(plugin, command) === undefined) {
      const known = Object.keys(plugin.manifest.commands);
      const message = `(${id}) is for the command ${command}, which the plugin does not have`;
      return found('error', message, suggest(command, known, 'commands'));
    }
    if (timing.mode === 'at' && timing.atMs < nowMs) {
      return found(
        'warning',
        `(${id}) is for a moment that is over`,
        'Remove it, or set a new one.',
      );
    }
    return [];
  });
}

/** Routes that lead back to where they came from; events stop going round at `service.max_hops`. */
function findCycles({ routes: configured }: Config, routes: readonly Route[]): Problem[] {
  const targets = new Map<string, Set<string>>();
  for (const { from, plugin } of routes) {
    if (from === undefined) continue;
    targets.set(from, (targets.get(from) ?? new Set()).add(plugin));
  }
  const seen = new Set<string>();
  return configured.flatMap(({ from, place }, index) => {
    const way = from === undefined ? undefined : findWay(from, from, targets);
    const members = way?.toSorted().join(' ') ?? '';
    if (way === undefined || seen.has(members)) return [];
    seen.add(members);
    const message = `can go in a circle: ${[...way, from].join(' → ')}`;
    const hint = 'Make sure that one of them does not always emit the event that starts the next.';
    return [makeProblem(place, `routes[${index}]`, message, hint)];
  });
}

/** The plugins on the way from one to another, the last one left out. */
function findWay(
  start: string,
  goal: string,
  targets: ReadonlyMap<string, ReadonlySet<string>>,
): string[] | undefined {
  const ways = new Map<string, readonly string[]>([[start, [start]]]);
  for (const [at, way] of ways) {
    for (const next of targets.get(at) ?? []) {
      if (next === goal) return [...way];
      if (!ways.has(next)) ways.set(next, [...way, next]);
    }
  }
  return undefined;
}

function thrownProblems(thrown: unknown): readonly Problem[] {
  if (!(thrown instanceof DuctileError) || thrown.code !== 'CONFIG_INVALID') throw thrown;
  return (thrown.details?.['problems'] ?? []) as readonly Problem[];
}

function rank(findings: readonly Finding[]): Finding[] {
  const order = ['error', 'warning', 'info'];
  return sortProblems(findings).toSorted(
    (a, b) => order.indexOf(a.severity) - order.indexOf(b.severity),
  );
}
