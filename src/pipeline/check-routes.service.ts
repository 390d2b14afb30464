import type { Config, RouteConfig } from '../config/config.ts';
import { suggest } from '../config/nearest.ts';
import { makeProblem, sentence } from '../config/problem.ts';
import { USUAL_AGENT } from '../config/webhooks.ts';
import type { Problem } from '../config/problem.ts';
import type { Route } from './route.ts';
import { WEBHOOK_SOURCE } from '../signal/delivery-event.ts';
import { lookupCommand } from '../plugin/catalog.ts';
import type { Catalog } from '../plugin/catalog.ts';

export interface CheckedRoutes {
  /** The routes in force, with plugin and command told apart. */
  readonly routes: readonly Route[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

const DEFAULT_COMMAND = 'handle';

/** Compares the configured routes with the plugins that there are. */
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
      const message = `is ${from}, which is no plugin here; only signals of that source will match`;
      warnings.push(makeProblem(place, `${key}.from`, message));
    }
    if (catalog.disabled.has(target.plugin)) {
      const message = `names ${target.plugin}, which is disabled; the route is not in force`;
      warnings.push(makeProblem(place, `${key}.to`, message));
    } else routes.push({ from, eventType, ...target });
  }
  return { routes, problems, warnings };
}

export interface CheckedHooks {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** Compares the webhooks of the configuration with the plugins that there are. */
export function checkHooks(
  { webhooks, file }: Pick<Config, 'webhooks' | 'file'>,
  catalog: Catalog,
): CheckedHooks {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const [index, { plugin, command, place }] of webhooks.endpoints.entries()) {
    const target = resolveTarget({ to: plugin, command }, catalog);
    const key = `webhooks.endpoints[${index}].plugin`;
    if ('fault' in target) problems.push(makeProblem(place, key, target.fault, target.hint));
    else if (catalog.disabled.has(plugin)) {
      const message = `names ${plugin}, which is disabled; nothing is taken there`;
      warnings.push(makeProblem(place, key, message));
    }
  }
  // The usual one need not be set up by those who have no agents.
  const { agent } = webhooks;
  if (agent !== USUAL_AGENT && !catalog.plugins.has(agent)) {
    const message = `names ${agent}, which is not a plugin; webhooks with a mode take nothing`;
    warnings.push(makeProblem(file, 'webhooks.agent', message));
  }
  return { problems, warnings };
}

interface Target {
  readonly plugin: string;
  readonly command: string;
}

interface Fault {
  readonly fault: string;
  readonly hint?: string;
}

/** A plugin literally named `a.b` wins over the command `b` of the plugin `a`. */
export function resolveTarget(
  { to, command }: Pick<RouteConfig, 'to' | 'command'>,
  catalog: Catalog,
): Target | Fault {
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

/** Undefined when there is no such plugin. */
function checkTarget(target: Target, catalog: Catalog): Target | Fault | undefined {
  const plugin = catalog.plugins.get(target.plugin);
  if (plugin === undefined) {
    const { disabled, unloaded } = catalog;
    return disabled.has(target.plugin) || unloaded.has(target.plugin) ? target : undefined;
  }
  if (lookupCommand(plugin, target.command) !== undefined) return target;
  const known = Object.keys(plugin.manifest.commands);
  return {
    fault: `names the command ${target.command}, which the plugin ${target.plugin} does not have`,
    hint: suggest(target.command, known, 'commands'),
  };
}
