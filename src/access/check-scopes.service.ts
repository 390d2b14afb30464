import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { suggest } from '../base/text.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { isNoun, scopeNouns } from './scopes.ts';

/** The plugins that scopes may name, and their commands as far as they can be read. */
export interface Scoped {
  readonly names: ReadonlySet<string>;
  readonly commandsOf: (plugin: string) => readonly string[] | undefined;
}

/** Without a catalogue, only what the configuration lists is known. */
export function scopedBy({ plugins }: Config, catalog?: Catalog): Scoped {
  return {
    names: new Set([...Object.keys(plugins), ...(catalog?.found ?? [])]),
    commandsOf: (name) => {
      const found = catalog?.plugins.get(name) ?? catalog?.sources.byName.get(name);
      return found === undefined ? undefined : Object.keys(found.manifest.commands);
    },
  };
}

/** Why a scope does not do what somebody meant by it. */
export interface ScopeFault {
  readonly message: string;
  readonly hint: string;
}

/** Why a scope grants nothing; undefined when it means something. */
export function explainScope(scope: string, { names }: Scoped): ScopeFault | undefined {
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

/** A rule for a command that its plugin does not have: most likely another one was meant. */
export function explainCommand(scope: string, { commandsOf }: Scoped): ScopeFault | undefined {
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
