import type { RouteConfig } from '../config/config.ts';
import { keyText } from '../config/document.ts';
import { makeProblem, type Problem } from '../config/problem.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import { runtimePayloadKeys } from '../signal/runtime-payload.ts';
import { resolveTarget } from './check-routes.service.ts';

const PLACEHOLDER = /\{\{\s*([\w-]+)[\w.-]*\s*\}\}/g;

/**
 * Finds placeholders in templates that stay empty, because the event of a route has no such member. The
 * members are known for Ductile's own signals and for events that a manifest declares.
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

/** The members that the payload of a route's event can have; undefined when it can have any. */
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
