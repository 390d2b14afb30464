import type { Config, RouteConfig } from '../config/config.ts';
import { suggest } from '../base/text.ts';
import { makeProblem, sentence, type Problem } from '../config/problem.ts';
import { DEFAULT_AGENT } from '../config/webhooks.ts';
import type { Route } from './language/pipeline.ts';
import { WEBHOOK_SOURCE, RUNTIME_SOURCE, runtimePayloadKeys } from '../signal/signal.ts';
import { findPluginCommand, type Catalog, type Plugin } from '../plugin/catalog.ts';
import { keyText } from '../config/document.ts';

export interface CheckedRoutes {
  /** The active routes, with their plugin and command. */
  readonly routes: readonly Route[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

const DEFAULT_COMMAND = 'handle';

/** Checks the configured routes against the loaded plugins. */
export function checkRoutes(configured: readonly RouteConfig[], catalog: Catalog): CheckedRoutes {
  const routes: Route[] = [];
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const [index, route] of configured.entries()) {
    const { from, eventType, place } = route;
    const key = `routes[${index}]`;
    const target = resolveTarget(route, catalog);
    if ('fault' in target) {
      problems.push(makeProblem(place, `${key}.to`, target.fault, target.hint));
      continue;
    }
    const isKnown = from === undefined || from.startsWith(WEBHOOK_SOURCE);
    if (!isKnown && !catalog.plugins.has(from) && !catalog.unloaded.has(from)) {
      const message = `is ${from}, which is not a plugin here; only signals from that source match`;
      warnings.push(makeProblem(place, `${key}.from`, message));
    }
    if (catalog.disabled.has(target.plugin)) {
      const message = `names ${target.plugin}, which is disabled; the route is inactive`;
      warnings.push(makeProblem(place, `${key}.to`, message));
    } else routes.push({ from, eventType, ...target });
  }
  return { routes, problems, warnings };
}

interface WebhookProblems {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** Checks the configured webhooks against the loaded plugins. */
export function checkWebhookConfig(
  { webhooks, file }: Pick<Config, 'webhooks' | 'file'>,
  catalog: Catalog,
): WebhookProblems {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const [index, { plugin, command, place }] of webhooks.endpoints.entries()) {
    const target = resolveTarget({ to: plugin, command }, catalog);
    const key = `webhooks.endpoints[${index}].plugin`;
    if ('fault' in target) problems.push(makeProblem(place, key, target.fault, target.hint));
    else if (catalog.disabled.has(plugin)) {
      const message = `names ${plugin}, which is disabled; this webhook accepts no deliveries`;
      warnings.push(makeProblem(place, key, message));
    }
  }
  // The default agent can be missing: an installation without agents doesn't need it.
  const { agent } = webhooks;
  if (agent !== DEFAULT_AGENT && !catalog.plugins.has(agent)) {
    const effect = 'webhooks with a mode accept no deliveries';
    const message = `names ${agent}, which is not a plugin; ${effect}`;
    warnings.push(makeProblem(file, 'webhooks.agent', message));
  }
  return { problems, warnings };
}

interface Target {
  readonly plugin: string;
  readonly command: string;
}

interface TargetFault {
  readonly fault: string;
  readonly hint?: string;
}

/** Finds the plugin and command of a name. A plugin named `a.b` wins over command `b` of plugin `a`. */
export function resolveTarget(
  { to, command }: Pick<RouteConfig, 'to' | 'command'>,
  catalog: Catalog,
): Target | TargetFault {
  const whole = checkTarget({ plugin: to, command: command ?? DEFAULT_COMMAND }, catalog);
  const dot = to.lastIndexOf('.');
  if (whole !== undefined) return whole;
  if (command === undefined && dot > 0) {
    const split = { plugin: to.slice(0, dot), command: to.slice(dot + 1) };
    const found = checkTarget(split, catalog);
    if (found !== undefined) return found;
  }
  const reason = catalog.problems.find(({ plugin }) => plugin === to);
  if (reason !== undefined) {
    return { fault: `names ${to}, which did not load: ${sentence(reason)}` };
  }
  const hint = suggest(to, [...catalog.plugins.keys()], 'plugins');
  return { fault: `names ${to}, which is not a plugin`, hint };
}

/** Returns undefined if the plugin does not exist. */
function checkTarget(target: Target, catalog: Catalog): Target | TargetFault | undefined {
  const plugin = catalog.plugins.get(target.plugin);
  if (plugin === undefined) {
    const { disabled, unloaded } = catalog;
    return disabled.has(target.plugin) || unloaded.has(target.plugin) ? target : undefined;
  }
  if (findPluginCommand(plugin, target.command) !== undefined) return target;
  const known = Object.keys(plugin.manifest.commands);
  return {
    fault: `names the command ${target.command}, which the plugin ${target.plugin} does not have`,
    hint: suggest(target.command, known, 'commands'),
  };
}

interface RouteCycles {
  /** Cycles in which each manifest declares the event that starts the next command. */
  readonly endless: readonly Problem[];
  /** Cycles that depend on the events that the plugins emit. */
  readonly possible: readonly Problem[];
}

/** Finds cycles of routes. Their events stop at `service.max_hops`. */
export function findRouteCycles(
  configured: readonly RouteConfig[],
  routes: readonly Route[],
  catalog: Catalog,
): RouteCycles {
  const declared = listCycles(findDeclaredEdges(routes, catalog));
  const known = new Set(declared.map(membersOf));
  const others = listCycles(findPossibleEdges(routes)).filter(
    (cycle) => !known.has(membersOf(cycle)),
  );
  const describe = (cycle: Cycle, message: string, advice: string): Problem => {
    const indexes = cycle.map((from, index) =>
      findRoute(configured, from, cycle[index + 1] ?? cycle[0]),
    );
    const [first = -1] = indexes;
    const text = `${message}: ${[...cycle, cycle[0]].join(' → ')}`;
    // The last route probably closed the cycle. The routes of a package have no index.
    const last = Math.max(...indexes);
    const removal = `ductile config unset routes.${last} --apply && ductile system reload`;
    const hint = last < 0 ? advice : `${advice} To remove the last one, run \`${removal}\`.`;
    return makeProblem(configured[first]?.place ?? '', `routes[${first}]`, text, hint);
  };
  return {
    endless: declared.map((cycle) =>
      describe(cycle, 'forms a loop that only service.max_hops ends', CUT),
    ),
    possible: others.map((cycle) => describe(cycle, 'can form a loop', MAKE_SURE)),
  };
}

function findRoute(
  configured: readonly RouteConfig[],
  source: string,
  target: string | undefined,
): number {
  return configured.findIndex(
    ({ from, to }) =>
      (from === undefined || from === source) && (to === target || to.startsWith(`${target}.`)),
  );
}

/** Finds a cycle of routes with this plugin. Endless cycles come first. */
export function findCycleOf(
  plugin: string,
  configured: readonly RouteConfig[],
  routes: readonly Route[],
  catalog: Catalog,
): Problem | undefined {
  const { endless, possible } = findRouteCycles(configured, routes, catalog);
  return [...endless, ...possible].find(({ message }) =>
    message
      .slice(message.indexOf(': ') + 2)
      .split(' → ')
      .includes(plugin),
  );
}

const CUT = 'Remove one of these routes, or change its event_type.';
const MAKE_SURE = 'Make sure that one of them does not always emit the event that starts the next.';

/** The names of plugins. The last one leads to the first. */
type Cycle = readonly string[];
/** Maps each source to its targets, with the plugin of each target. */
type Edges = Map<string, Map<string, string>>;

function membersOf(cycle: Cycle): string {
  return [...new Set(cycle)].toSorted().join(' ');
}

function addEdge(edges: Edges, from: string, to: string, plugin: string): void {
  edges.set(from, (edges.get(from) ?? new Map<string, string>()).set(to, plugin));
}

function findPossibleEdges(routes: readonly Route[]): Edges {
  const edges: Edges = new Map();
  for (const { from, plugin } of routes) {
    if (from !== undefined) addEdge(edges, from, plugin, plugin);
  }
  return edges;
}

/** Finds edges from command to command, from the events that manifests declare. */
function findDeclaredEdges(routes: readonly Route[], { plugins }: Catalog): Edges {
  const targets = new Map(routes.map((route) => [nodeOf(route), route]));
  const emitters = new Map<string, Route[]>();
  for (const target of targets.values()) {
    const plugin = plugins.get(target.plugin);
    const command = plugin === undefined ? undefined : findPluginCommand(plugin, target.command);
    for (const { event } of command?.values.emit ?? []) {
      emitters.set(event, [...(emitters.get(event) ?? []), target]);
    }
  }
  const edges: Edges = new Map();
  for (const route of routes) {
    for (const emitter of emitters.get(route.eventType) ?? []) {
      if (route.from !== undefined && route.from !== emitter.plugin) continue;
      addEdge(edges, nodeOf(emitter), nodeOf(route), route.plugin);
    }
  }
  return edges;
}

function nodeOf({ plugin, command }: Route): string {
  return `${plugin} ${command}`;
}

function listCycles(edges: Edges): Cycle[] {
  const seen = new Set<string>();
  return [...edges.keys()].flatMap((start) => {
    const cycle = findCycle(start, edges);
    if (cycle === undefined || seen.has(membersOf(cycle))) return [];
    seen.add(membersOf(cycle));
    return [cycle];
  });
}

function findCycle(start: string, edges: Edges): Cycle | undefined {
  const paths = new Map<string, Cycle>([[start, []]]);
  for (const [at, path] of paths) {
    for (const [next, plugin] of edges.get(at) ?? []) {
      // The start is reached last, and comes first in the cycle.
      if (next === start) return [plugin, ...path];
      if (!paths.has(next)) paths.set(next, [...path, plugin]);
    }
  }
  return undefined;
}

const PLACEHOLDER = /\{\{\s*([\w-]+)[\w.-]*\s*\}\}/g;

/**
 * Finds placeholders in templates that stay empty, because the event of a route has no such key. The
 * keys are known for Ductile's own signals and for events that a manifest declares.
 */
export function findEmptyPlaceholders(routes: readonly RouteConfig[], catalog: Catalog): Problem[] {
  return routes.flatMap((route, index) => {
    const target = resolveTarget(route, catalog);
    const plugin = 'fault' in target ? undefined : catalog.plugins.get(target.plugin);
    const known = plugin === undefined ? undefined : listMembers(route, catalog);
    if (plugin === undefined || known === undefined) return [];
    return templatesOf(plugin).flatMap(([key, template]) => {
      const names = [...template.matchAll(PLACEHOLDER)].map(([, name = '']) => name);
      return [...new Set(names)]
        .filter((name) => !known.includes(name))
        .map((name) => {
          const location = keyText(['plugins', plugin.name, 'config', key]);
          const event = `sends ${route.eventType} to ${plugin.name}, and that event has no ${name}`;
          const message = `${event}: {{${name}}} in ${location} stays empty`;
          const hint = `${route.eventType} has ${known.join(', ')}.`;
          return makeProblem(route.place, `routes[${index}]`, message, hint);
        });
    });
  });
}

function templatesOf({ manifest, config }: Plugin): [string, string][] {
  return manifest.configKeys.templates.flatMap((key): [string, string][] => {
    const value = config[key];
    return typeof value === 'string' ? [[key, value]] : [];
  });
}

/** Lists the keys of the payload of a route's event. Returns undefined if any key is possible. */
function listMembers({ from, eventType }: RouteConfig, catalog: Catalog): string[] | undefined {
  const own = runtimePayloadKeys[eventType];
  if (own !== undefined && (from === undefined || from === RUNTIME_SOURCE)) return [...own];
  const plugin = from === undefined ? undefined : catalog.plugins.get(from);
  if (plugin === undefined) return undefined;
  const declared = Object.values(plugin.manifest.commands).flatMap(({ values }) =>
    values.emit.filter(({ event }) => event === eventType),
  );
  const paths = declared.flatMap(({ values }) => values);
  if (declared.length === 0 || declared.some(({ values }) => values.length === 0)) return undefined;
  const members = paths.map((path) => path.split('.')[1] ?? '*');
  return members.includes('*') ? undefined : [...new Set([...members, 'result'])];
}
