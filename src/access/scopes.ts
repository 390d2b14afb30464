import { DuctileError } from '../base/errors.ts';

/**
 * A right that a request requires. This file defines the scopes of tokens:
 *
 * - `*` grants everything.
 * - `<noun>:ro` and `<noun>:rw` grant a noun; writing implies reading.
 * - `<noun>:<part>:ro` and `<noun>:<part>:rw` grant a part of it.
 * - `read:*` and `read:<noun>` grant reading.
 * - `<plugin>:ro` and `<plugin>:rw` grant the reading commands or all commands of a plugin.
 * - `<plugin>:allow:<command>` grants one command.
 * - `<plugin>:deny:<command>` refuses one command, whatever else is granted.
 */
export type Need = string | PluginNeed;

/** A command of a plugin to use or, without a command, a plugin to inspect. */
interface PluginNeed {
  readonly plugin: string;
  readonly command?: string;
  readonly type: 'read' | 'write';
}

/** Nouns of scopes. A plugin of such a name has no scopes of its own. */
export const scopeNouns: ReadonlySet<string> = new Set([
  'analytics',
  'config',
  'credentials',
  'directives',
  'events',
  'incidents',
  'installations',
  'jobs',
  'metrics',
  'packages',
  'plugin',
  'runs',
  'schedules',
  'system',
  'tenants',
  'tokens',
  'webhooks',
]);

/** True if the granted scopes cover a need. */
export function allows(granted: readonly string[], need: Need): boolean {
  const grants = readGrants(granted);
  return typeof need === 'string' ? allowsNoun(grants, need) : allowsPlugin(grants, need);
}

/** True if the scopes may cover a need that only the request itself decides. */
export function mayAllow(granted: readonly string[], effect: 'read' | 'write'): boolean {
  const { all, readAll, nouns, plugins } = readGrants(granted);
  if (all) return true;
  const own = [...plugins.values()].filter(({ access, allowed }) => access ?? allowed.size > 0);
  if (effect === 'read') return readAll || nouns.size > 0 || own.length > 0;
  const isWriter = ({ access, allowed }: PluginGrant) => access === 'rw' || allowed.size > 0;
  return [...nouns.values()].includes('rw') || own.some(isWriter);
}

/** True if the scopes allow using or inspecting any plugin. */
export function mayAllowPlugin(granted: readonly string[]): boolean {
  const { all, readAll, nouns, plugins } = readGrants(granted);
  if (all || readAll || nouns.has('plugin') || nouns.has('plugin:invoke')) return true;
  return [...plugins.values()].some(({ access, allowed }) => access ?? allowed.size > 0);
}

/** A command that a scope denies. */
export interface DeniedCommand {
  readonly plugin: string;
  readonly command: string;
}

/** A command that a request would start. An absent field stands for every plugin or command. */
export interface StartedCommand extends Partial<DeniedCommand> {
  /** Its part in the request, such as `a step of deploy`. */
  readonly as?: string;
}

/** Lists all denied commands, for callers that run commands indirectly. */
export function listDeniedCommands(granted: readonly string[]): DeniedCommand[] {
  return [...readGrants(granted).plugins].flatMap(([plugin, { denied }]) =>
    [...denied].map((command) => ({ plugin, command })),
  );
}

/** Returns the smallest common scope that covers a need. */
export function describeNeed(need: Need): string {
  if (typeof need === 'string') return need;
  const { plugin, type } = need;
  // A plugin with the name of a noun has no scopes of its own.
  const owner = isNoun(plugin) || plugin === 'read' ? 'plugin' : plugin;
  return `${owner}:${type === 'read' ? 'ro' : 'rw'}`;
}

/** Explains what a refused caller needs. */
export function hintForNeed(granted: readonly string[], need: Need): string {
  const scope = describeNeed(need);
  if (typeof need === 'string' || need.command === undefined) {
    return `Use a token with the scope ${scope}.`;
  }
  const { plugin, command } = need;
  if (readGrants(granted).plugins.get(plugin)?.denied.has(command) === true) {
    return `The token's scope ${plugin}:deny:${command} forbids this. Use another token.`;
  }
  if (scope.startsWith('plugin:')) return `Use a token with the scope ${scope}.`;
  return `Use a token with the scope ${scope}, or ${plugin}:allow:${command} for this command alone.`;
}

/** Refuses a token of a tenant. */
export function createOperatorError(): DuctileError {
  return new DuctileError('FORBIDDEN', 'only the operator of the whole system can do this', {
    hint: 'Use a token of the operator. Tokens of a tenant only reach the data of that tenant.',
  });
}

type Access = 'ro' | 'rw';

interface PluginGrant {
  access: Access | undefined;
  readonly allowed: Set<string>;
  readonly denied: Set<string>;
}

interface Grants {
  all: boolean;
  readAll: boolean;
  /** Keyed by noun, or by noun and part. */
  readonly nouns: Map<string, Access>;
  readonly plugins: Map<string, PluginGrant>;
}

/** Synonyms of nouns. */
const synonyms: Readonly<Record<string, string>> = {
  event: 'events',
  signal: 'events',
  signals: 'events',
  job: 'jobs',
  plugins: 'plugin',
  schedule: 'schedules',
  run: 'runs',
  token: 'tokens',
  directive: 'directives',
  credential: 'credentials',
  incident: 'incidents',
  installation: 'installations',
  package: 'packages',
  webhook: 'webhooks',
};

function allowsNoun(grants: Grants, need: string): boolean {
  const { noun, part, access } = parse(need);
  if (grants.all) return true;
  if (access === undefined) return false;
  if (grants.readAll && access === 'ro') return true;
  if (covers(grants.nouns.get(noun), access)) return true;
  return part !== undefined && covers(grants.nouns.get(`${noun}:${part}`), access);
}

function allowsPlugin(grants: Grants, { plugin, command, type }: PluginNeed): boolean {
  const access = type === 'read' ? 'ro' : 'rw';
  const own = grants.plugins.get(plugin);
  if (command !== undefined && own?.denied.has(command) === true) return false;
  if (grants.all || covers(grants.nouns.get('plugin'), access)) return true;
  if (grants.readAll && access === 'ro') return true;
  if (covers(grants.nouns.get('plugin:invoke'), access)) return true;
  if (own === undefined) return false;
  if (covers(own.access, access)) return true;
  return command === undefined ? own.allowed.size > 0 : own.allowed.has(command);
}

function covers(granted: Access | undefined, needed: Access): boolean {
  return granted === 'rw' || (granted === 'ro' && needed === 'ro');
}

const known = new WeakMap<readonly string[], Grants>();

function readGrants(granted: readonly string[]): Grants {
  let grants = known.get(granted);
  if (grants === undefined) {
    grants = { all: false, readAll: false, nouns: new Map(), plugins: new Map() };
    for (const scope of granted) addGrant(grants, scope);
    known.set(granted, grants);
  }
  return grants;
}

/** Ignores text that isn't a scope. */
function addGrant(grants: Grants, scope: string): void {
  if (scope === '*') grants.all = true;
  const [first = '', second = '', third, ...more] = scope.split(':');
  if (more.length > 0) return;
  if (first === 'read' && third === undefined) {
    if (second === '*') grants.readAll = true;
    else if (isNoun(second)) raise(grants.nouns, toNoun(second), 'ro');
    return;
  }
  const { noun, part, access } = parse(scope);
  if (isNoun(first)) {
    if (access !== undefined) raise(grants.nouns, join(noun, part), access);
    return;
  }
  addPluginGrant(grants, first, second, third);
}

function addPluginGrant(
  { plugins }: Grants,
  name: string,
  word: string,
  command: string | undefined,
): void {
  if (name === '' || name === 'read') return;
  const grant = plugins.get(name) ?? { access: undefined, allowed: new Set(), denied: new Set() };
  if (command === undefined && isAccess(word)) grant.access = grant.access === 'rw' ? 'rw' : word;
  else if (word === 'allow' && command !== undefined) grant.allowed.add(command);
  else if (word === 'deny' && command !== undefined) grant.denied.add(command);
  else return;
  plugins.set(name, grant);
}

function raise(nouns: Map<string, Access>, name: string, access: Access): void {
  if (nouns.get(name) !== 'rw') nouns.set(name, access);
}

interface ParsedScope {
  readonly noun: string;
  readonly part: string | undefined;
  readonly access: Access | undefined;
}

function parse(scope: string): ParsedScope {
  const [noun = '', second = '', third] = scope.split(':');
  const last = third ?? second;
  return {
    noun: toNoun(noun),
    part: third === undefined ? undefined : second,
    access: isAccess(last) ? last : undefined,
  };
}

function join(noun: string, part: string | undefined): string {
  return part === undefined ? noun : `${noun}:${part}`;
}

function toNoun(word: string): string {
  return synonyms[word] ?? word;
}

export function isNoun(word: string): boolean {
  return scopeNouns.has(toNoun(word));
}

function isAccess(word: string): word is Access {
  return word === 'ro' || word === 'rw';
}
