import { DuctileError } from '../base/errors.ts';
import { suggest } from '../config/nearest.ts';
import type { Catalog, Plugin } from './catalog.ts';
import { showProblem } from './operations.ts';

/** Returns a plugin that can run. Throws the reason why it can't, or that there is no such plugin. */
export function requirePlugin(catalog: Catalog, name: string): Plugin {
  const plugin = catalog.plugins.get(name);
  if (plugin !== undefined) return plugin;
  const problem = catalog.problems.find((one) => one.plugin === name);
  if (problem !== undefined) {
    const { message, place, hint } = showProblem(problem);
    throw new DuctileError('PLUGIN_INVALID', `the plugin ${name} did not load: ${message}`, {
      place,
      ...(hint === null ? {} : { hint }),
    });
  }
  const needed = catalog.dormant.get(name);
  if (needed !== undefined) {
    const keys = needed.map((key) => `plugins.${name}.config.${key}`).join(', ');
    const hint = `Set ${keys}.`;
    throw new DuctileError('PLUGIN_INVALID', `the plugin ${name} is not set up yet`, { hint });
  }
  if (catalog.disabled.has(name)) {
    const hint = `Set plugins.${name}.enabled to true.`;
    throw new DuctileError('PLUGIN_NOT_FOUND', `the plugin ${name} is disabled`, { hint });
  }
  const hint = suggest(name, [...catalog.plugins.keys()], 'plugins');
  throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${name}`, { hint });
}

/** Refuses a name that is neither a plugin nor one that is disabled, broken or not set up. */
export function refuseUnknownPlugin({ found, plugins, disabled }: Catalog, name: string): void {
  if (found.has(name) || plugins.has(name) || disabled.has(name)) return;
  const hint = suggest(name, [...plugins.keys()], 'plugins');
  throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${name}`, { hint });
}
