import type { RouteConfig } from '../config/config.ts';
import { makeProblem } from '../config/problem.ts';
import type { Problem } from '../config/problem.ts';
import type { Route } from './route.ts';
import { lookupCommand } from '../plugin/catalog.ts';
import type { Catalog } from '../plugin/catalog.ts';

export interface Circles {
  /** Each command on the way says in its manifest that it emits what starts the next. */
  readonly endless: readonly Problem[];
  /** They lead back, but whether events do depends on the plugins. */
  readonly possible: readonly Problem[];
}

/** Routes that lead back to where they came from; events stop going round at `service.max_hops`. */
export function findCircles(
  configured: readonly RouteConfig[],
  routes: readonly Route[],
  catalog: Catalog,
): Circles {
  const sure = listCircles(declaredSteps(routes, catalog));
  const known = new Set(sure.map(membersOf));
  const others = listCircles(possibleSteps(routes)).filter((way) => !known.has(membersOf(way)));
  const describe = (way: Way, message: string, advice: string): Problem => {
    const indexes = way.map((from, nth) => findRoute(configured, from, way[nth + 1] ?? way[0]));
    const [index = -1] = indexes;
    const said = `${message}: ${[...way, way[0]].join(' → ')}`;
    // The last route is likely to be the one that closed the circle. A package's routes have no index.
    const last = Math.max(...indexes);
    const removal = `ductile config unset routes.${last} --apply && ductile system reload`;
    const hint = last < 0 ? advice : `${advice} To take the last one out: \`${removal}\`.`;
    return makeProblem(configured[index]?.place ?? '', `routes[${index}]`, said, hint);
  };
  return {
    endless: sure.map((way) => describe(way, 'goes in a circle up to service.max_hops', CUT)),
    possible: others.map((way) => describe(way, 'can go in a circle', MAKE_SURE)),
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

/** The circle of routes that a plugin is part of, the surest first; undefined if there is none. */
export function findCircleOf(
  plugin: string,
  configured: readonly RouteConfig[],
  routes: readonly Route[],
  catalog: Catalog,
): Problem | undefined {
  const { endless, possible } = findCircles(configured, routes, catalog);
  return [...endless, ...possible].find(({ message }) =>
    message
      .slice(message.indexOf(': ') + 2)
      .split(' → ')
      .includes(plugin),
  );
}

const CUT = 'Take one of these routes out, or let it answer to another event.';
const MAKE_SURE = 'Make sure that one of them does not always emit the event that starts the next.';

/** Names of plugins; the last one leads to the first. */
type Way = readonly string[];
type Steps = Map<string, Map<string, string>>;

function membersOf(way: Way): string {
  return [...new Set(way)].toSorted().join(' ');
}

function addStep(steps: Steps, from: string, to: string, plugin: string): void {
  steps.set(from, (steps.get(from) ?? new Map<string, string>()).set(to, plugin));
}

function possibleSteps(routes: readonly Route[]): Steps {
  const steps: Steps = new Map();
  for (const { from, plugin } of routes) {
    if (from !== undefined) addStep(steps, from, plugin, plugin);
  }
  return steps;
}

/** From command to command, as far as manifests say what is emitted. */
function declaredSteps(routes: readonly Route[], { plugins }: Catalog): Steps {
  const targets = new Map(routes.map((route) => [nodeOf(route), route]));
  const emitters = new Map<string, Route[]>();
  for (const target of targets.values()) {
    const plugin = plugins.get(target.plugin);
    const command = plugin === undefined ? undefined : lookupCommand(plugin, target.command);
    for (const { event } of command?.values.emit ?? []) {
      emitters.set(event, [...(emitters.get(event) ?? []), target]);
    }
  }
  const steps: Steps = new Map();
  for (const route of routes) {
    for (const emitter of emitters.get(route.eventType) ?? []) {
      if (route.from !== undefined && route.from !== emitter.plugin) continue;
      addStep(steps, nodeOf(emitter), nodeOf(route), route.plugin);
    }
  }
  return steps;
}

function nodeOf({ plugin, command }: Route): string {
  return `${plugin} ${command}`;
}

function listCircles(steps: Steps): Way[] {
  const seen = new Set<string>();
  return [...steps.keys()].flatMap((start) => {
    const way = findWayBack(start, steps);
    if (way === undefined || seen.has(membersOf(way))) return [];
    seen.add(membersOf(way));
    return [way];
  });
}

function findWayBack(start: string, steps: Steps): Way | undefined {
  const ways = new Map<string, Way>([[start, []]]);
  for (const [at, way] of ways) {
    for (const [next, plugin] of steps.get(at) ?? []) {
      // The start is reached last, and stands first.
      if (next === start) return [plugin, ...way];
      if (!ways.has(next)) ways.set(next, [...way, plugin]);
    }
  }
  return undefined;
}
