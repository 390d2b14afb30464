import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { keyText } from '../config/document.ts';
import { suggest } from '../base/text.ts';
import { makeProblem, type Problem } from '../config/problem.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { isNoun, scopeNouns } from './scopes.ts';

/** The plugins that scopes can name. */
export interface ScopedPlugins {
  readonly names: ReadonlySet<string>;
  /** Returns the commands of a plugin; undefined if its manifest isn't known. */
  readonly commandsOf: (plugin: string) => readonly string[] | undefined;
}

/** Lists the plugins of the configuration and, if there is a catalog, all that it found. */
export function listScopedPlugins({ plugins }: Config, catalog?: Catalog): ScopedPlugins {
  return {
    names: new Set([...Object.keys(plugins), ...(catalog?.found ?? [])]),
    commandsOf: (name) => {
      const found = catalog?.plugins.get(name) ?? catalog?.sources.byName.get(name);
      return found === undefined ? undefined : Object.keys(found.manifest.commands);
    },
  };
}

/** The reason why a scope doesn't do what its author wants. */
export interface ScopeFault {
  readonly message: string;
  readonly hint: string;
}

/** Explains why a scope grants nothing; undefined if it is valid. */
export function explainScope(scope: string, { names }: ScopedPlugins): ScopeFault | undefined {
  if (scope === '*') return undefined;
  const [first = '', second = '', third, ...more] = scope.split(':');
  const shown = JSON.stringify(scope);
  const none = { message: `has ${shown}, which is not a scope`, hint: FORMS };
  if (more.length > 0 || second === '') return none;
  if (first === 'read') {
    const isKnown = third === undefined && (second === '*' || isNoun(second));
    return isKnown ? undefined : none;
  }
  const isAccess = ['ro', 'rw'].includes(third ?? second);
  if (isNoun(first)) {
    return isAccess
      ? undefined
      : { message: `has ${shown}, which is neither ro nor rw`, hint: FORMS };
  }
  const isRule = isRuleWord(second) && third !== undefined && third !== '';
  if (!(isRule || (isAccess && third === undefined))) return none;
  if (names.has(first)) return undefined;
  const message = `has ${shown}, but no plugin is configured as ${first}`;
  return { message, hint: suggest(first, [...scopeNouns, ...names], 'words before the colon') };
}

/** Explains a rule for a command that its plugin doesn't have, which is probably a typing error. */
export function explainCommand(
  scope: string,
  { commandsOf }: ScopedPlugins,
): ScopeFault | undefined {
  const [plugin = '', rule = '', command = ''] = scope.split(':');
  if (!isRuleWord(rule) || isNoun(plugin)) return undefined;
  const known = commandsOf(plugin);
  const isUsual = Object.hasOwn(limits.timeoutMs, command);
  if (known === undefined || known.includes(command) || isUsual) return undefined;
  const message = `has ${JSON.stringify(scope)}, but ${plugin} has no command ${command}`;
  return { message, hint: suggest(command, known, `commands of ${plugin}`) };
}

function isRuleWord(word: string): boolean {
  return word === 'allow' || word === 'deny';
}

const FORMS =
  'Write jobs:ro, plugin:rw, <plugin>:ro, <plugin>:allow:<command>, <plugin>:deny:<command> or *.';

/** Checks the API access of plugins: invalid scopes are problems, useless settings are warnings. */
export function checkApiAccess(
  { plugins, api }: Config,
  known: ScopedPlugins,
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const [name, { apiAccess, enabled, place }] of Object.entries(plugins)) {
    if (apiAccess === undefined || !enabled) continue;
    const path = ['plugins', name, 'api_access'];
    for (const [index, scope] of apiAccess.scopes.entries()) {
      const toProblem = ({ message, hint }: ScopeFault): Problem =>
        makeProblem(
          apiAccess.places[index] ?? place,
          keyText([...path, 'scopes', index]),
          message,
          hint,
        );
      const fault = explainScope(scope, known);
      if (fault !== undefined) problems.push(toProblem(fault));
      const typo = explainCommand(scope, known);
      if (typo !== undefined) warnings.push(toProblem(typo));
    }
    if (api.enabled) continue;
    const message = 'has no effect: api.enabled is false, so the jobs of the plugin get no token';
    const hint = 'Enable the API, or remove api_access.';
    warnings.push(makeProblem(place, keyText(path), message, hint));
  }
  return { problems, warnings };
}
