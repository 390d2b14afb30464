import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import { compact, isObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { callOperation } from './call-operation.ts';
import { commands } from './commands.ts';
import { nameWords } from './help.ts';
import type { CommonFlags, CliSession } from './host.ts';

/** Parsed command line. */
interface ParsedArguments {
  readonly words: readonly string[];
  /** Long flags without the dashes; true for a flag without a value. */
  readonly flags: ReadonlyMap<string, string | true>;
}

/** Command of the original Ductile, and the documented one that does the same. */
interface CommandAlias {
  readonly from: string;
  /** Command that the note names. */
  readonly to: string;
  /** The arguments after the words of `from`; without it they stay as they are after `to`. */
  readonly rewrite?: (given: ParsedArguments, session: CliSession) => string[] | Promise<string[]>;
}

/** Flags of the original that every command has, and ours. */
export const flagAliases: Readonly<Record<string, string>> = {
  'config-dir': 'config',
  'api-url': 'url',
  'api-key': 'token',
};

/** Flags of the original by command, and ours. */
export const commandFlagAliases: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'config check': { strict: 'fail-on-warnings' },
  'config backup': { output: 'to' },
};

/** Flags that are followed by a value, of all commands. */
const valueFlags: ReadonlySet<string> = new Set([
  ...Object.keys(flagAliases),
  ...Object.values(flagAliases),
  'description',
  'event',
  'fields',
  'format',
  'from',
  'max-body-size',
  'name',
  'path',
  'plugin',
  'scopes',
  'scopes-file',
  'secret-ref',
  'signature-header',
  'to',
]);

/** The first match counts. `docs/migrate/from-the-original.md` lists them, and a test compares. */
export const commandAliases: readonly CommandAlias[] = [
  { from: 'config token create', to: 'token create', rewrite: rewriteTokenCreate },
  {
    from: 'config token inspect',
    to: 'token list',
    rewrite: (given) => ['token', 'list', ...keepFlags(given)],
  },
  { from: 'config token delete', to: 'token revoke' },
  { from: 'config token', to: 'token' },
  { from: 'config scope validate', to: 'token create --dry-run', rewrite: rewriteScopeValidate },
  { from: 'config scope add', to: 'config set token:<name>.scopes', rewrite: changeScopes('add') },
  {
    from: 'config scope remove',
    to: 'config set token:<name>.scopes',
    rewrite: changeScopes('remove'),
  },
  { from: 'config scope set', to: 'config set token:<name>.scopes', rewrite: changeScopes('set') },
  { from: 'config plugin show', to: 'config show plugin:<name>', rewrite: rewritePluginShow },
  { from: 'config plugin set', to: 'config set plugin:<name>.<key>', rewrite: rewritePluginSet },
  { from: 'config plugin', to: 'plugin' },
  { from: 'config route list', to: 'config show routes' },
  { from: 'config route add', to: 'config set routes', rewrite: rewriteRouteAdd },
  { from: 'config route remove', to: 'config unset routes', rewrite: rewriteRouteRemove },
  { from: 'config webhook list', to: 'webhook endpoints' },
  { from: 'config webhook add', to: 'config set webhooks.endpoints', rewrite: rewriteWebhookAdd },
  { from: 'system watch', to: 'watch' },
  { from: 'system skills', to: 'skills export --stdout' },
  { from: 'system plugin-facts', to: 'plugin facts' },
];

/** Returns flags that no rewriting used and that are the same in both. */
function keepFlags({ flags }: ParsedArguments, ...used: readonly string[]): string[] {
  return [...flags].flatMap(([name, value]) => {
    if (used.includes(name)) return [];
    const flag = name.startsWith('-') ? name : `--${name}`;
    return value === true ? [flag] : [flag, value];
  });
}

function rewriteTokenCreate(given: ParsedArguments, { io }: CliSession): string[] {
  const name = textOf(given, 'name') ?? given.words[0];
  const file = textOf(given, 'scopes-file');
  const scopes =
    file === undefined ? [] : ['--scopes', readScopes(resolve(io.cwd, file)).join(',')];
  const rest = keepFlags(given, 'name', 'description', 'scopes-file');
  return ['token', 'create', ...(name === undefined ? [] : [name]), ...scopes, ...rest];
}

function readScopes(file: string): string[] {
  try {
    const parsed: unknown = parseJson(readFileSync(file, 'utf8'));
    const scopes: unknown = isObject(parsed) ? parsed['scopes'] : parsed;
    if (Array.isArray(scopes)) return scopes.map(String);
    throw new Error('it is not {"scopes": ["…"]}');
  } catch (thrown) {
    throw new DuctileError('INPUT_INVALID', `${file} can't be used: ${messageOf(thrown)}`, {
      place: 'scopes-file',
      hint: 'Name the scopes with --scopes.',
    });
  }
}

/** A dry run of a token with the scope: it is refused if the scope is unknown. */
function rewriteScopeValidate(given: ParsedArguments): string[] {
  const [scope = ''] = given.words;
  return ['token', 'create', 'scope-check', '--scopes', scope, '--dry-run', ...keepFlags(given)];
}

function changeScopes(action: 'add' | 'remove' | 'set'): NonNullable<CommandAlias['rewrite']> {
  return async (given, session) => {
    const [name = '', listed = ''] = given.words;
    const named = listed.split(',').map((scope) => scope.trim());
    const key = `token:${name}.scopes`;
    const before = action === 'set' ? [] : await readList(session, given, key);
    const scopes =
      action === 'remove'
        ? before.filter((scope) => !named.includes(String(scope)))
        : [...new Set([...before, ...named])];
    return setKey(`${key}=${JSON.stringify(scopes)}`, given);
  };
}

function rewritePluginShow(given: ParsedArguments): string[] {
  return ['config', 'show', `plugin:${given.words[0] ?? '*'}`, ...keepFlags(given)];
}

function rewritePluginSet(given: ParsedArguments): string[] {
  const [name = '', path = '', ...value] = given.words;
  return setKey(`plugin:${name}.${path}=${value.join(' ')}`, given);
}

async function rewriteRouteAdd(given: ParsedArguments, session: CliSession): Promise<string[]> {
  const entry = routeOf(given);
  return appendEntry('routes', entry, given, session, 'from', 'event', 'to');
}

async function rewriteRouteRemove(given: ParsedArguments, session: CliSession): Promise<string[]> {
  const wanted = Object.entries(routeOf(given));
  const routes = await readList(session, given, 'routes');
  const index = routes.findIndex(
    (route) => isObject(route) && wanted.every(([key, value]) => route[key] === value),
  );
  if (index === -1) {
    throw new DuctileError('INPUT_INVALID', 'no route has these values', {
      place: 'routes',
      hint: 'See the routes with `ductile config show routes`.',
    });
  }
  return ['config', 'unset', `routes.${index}`, ...applyFlags(given, 'from', 'event', 'to')];
}

function routeOf(given: ParsedArguments): Readonly<Record<string, string>> {
  const from = textOf(given, 'from');
  return {
    ...compact({ from }),
    event_type: textOf(given, 'event') ?? '',
    to: textOf(given, 'to') ?? '',
  };
}

async function rewriteWebhookAdd(given: ParsedArguments, session: CliSession): Promise<string[]> {
  const size = textOf(given, 'max-body-size');
  const entry = {
    path: textOf(given, 'path') ?? '',
    plugin: textOf(given, 'plugin') ?? '',
    secret_ref: textOf(given, 'secret-ref') ?? '',
    signature_header: textOf(given, 'signature-header') ?? 'X-Signature-256',
    ...compact({ max_body_size: size }),
  };
  const used = ['path', 'plugin', 'secret-ref', 'signature-header', 'max-body-size', 'name'];
  return appendEntry('webhooks.endpoints', entry, given, session, ...used);
}

/** Appends an entry to a list, or creates the list with it. */
async function appendEntry(
  key: string,
  entry: Readonly<Record<string, string>>,
  given: ParsedArguments,
  session: CliSession,
  ...used: readonly string[]
): Promise<string[]> {
  const { length } = await readList(session, given, key);
  const [place, value] = length === 0 ? [key, [entry]] : [`${key}.${length}`, entry];
  return setKey(`${place}=${JSON.stringify(value)}`, given, ...used);
}

function setKey(assignment: string, given: ParsedArguments, ...used: readonly string[]): string[] {
  return ['config', 'set', assignment, ...applyFlags(given, ...used)];
}

/** Adds `--apply`, because the original changed its files at once, unless it was a dry run. */
function applyFlags(given: ParsedArguments, ...used: readonly string[]): string[] {
  const rest = keepFlags(given, 'apply', ...used);
  return given.flags.has('dry-run') ? rest : [...rest, '--apply'];
}

/** Returns an empty list if the key isn't set or unknown: changing it then reports that. */
async function readList(
  session: CliSession,
  given: ParsedArguments,
  path: string,
): Promise<readonly unknown[]> {
  const config = textOf(given, 'config');
  const options: CommonFlags = compact({ config });
  try {
    const { config: list } = await callOperation(session, options, 'config.show', { path });
    return Array.isArray(list) ? list : [];
  } catch (thrown) {
    if (thrown instanceof DuctileError && thrown.code === 'INPUT_INVALID') return [];
    throw thrown;
  }
}

function textOf({ flags }: ParsedArguments, name: string): string | undefined {
  const value = flags.get(name);
  return typeof value === 'string' ? value : undefined;
}

/**
 * Rewrites a command line of the original Ductile to its documented form. A line on standard error
 * names that form without its values, because one of them may be a token.
 */
export async function rewriteArguments(
  argv: readonly string[],
  session: CliSession,
): Promise<readonly string[]> {
  const notes: string[] = [];
  const renamed = renameFlags(argv, notes);
  const { words } = parseArguments(renamed);
  const alias = commandAliases.find(({ from }) => startsWith(words, from.split(' ')));
  if (alias !== undefined) notes.unshift(`\`${alias.from}\` is \`${alias.to}\``);
  if (notes.length > 0) session.io.stderr.write(`note: in Ductile, ${notes.join(', ')}\n`);
  return alias === undefined ? renamed : rewriteCommand(renamed, alias, session);
}

/**
 * Rewrites a command line with an older spelling to the documented command. Nothing is printed about
 * it, because scripts read the output.
 */
export function rewriteOlderSpelling(argv: readonly string[]): readonly string[] {
  const { words } = parseArguments(argv);
  for (const definition of commands) {
    const { olderSpellings } = definition;
    const spelling = olderSpellings.find((one) => startsWith(words, one.split(' ')));
    if (spelling === undefined) continue;
    return [...nameWords(definition), ...withoutWords(argv, spelling.split(' '))];
  }
  return argv;
}

async function rewriteCommand(
  argv: readonly string[],
  { from, to, rewrite }: CommandAlias,
  session: CliSession,
): Promise<readonly string[]> {
  const commandWords = from.split(' ');
  if (rewrite === undefined) return [...to.split(' '), ...withoutWords(argv, commandWords)];
  const { words, flags } = parseArguments(argv);
  return rewrite({ words: words.slice(commandWords.length), flags }, session);
}

function renameFlags(argv: readonly string[], notes: string[]): string[] {
  const { words } = parseArguments(argv);
  const command = words.slice(0, 2).join(' ');
  const aliases = { ...flagAliases, ...commandFlagAliases[command] };
  const isConfig = words[0] === 'config';
  const renamed: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const argument = argv[at] ?? '';
    const [, name = '', value] = /^--([a-z-]+)(=.*)?$/s.exec(argument) ?? [];
    if (argument === '--') return [...renamed, ...argv.slice(at)];
    const ours = Object.hasOwn(aliases, name) ? aliases[name as keyof typeof aliases] : undefined;
    if (ours !== undefined) {
      notes.push(`\`--${name}\` is \`--${ours}\``);
      renamed.push(`--${ours}${value ?? ''}`);
    } else if (name === 'format' && isConfig) {
      const format = value?.slice(1) ?? argv[(at += 1)];
      notes.push('`--format json` is `--json`');
      if (format === 'json') renamed.push('--json');
    } else renamed.push(argument);
  }
  return renamed;
}

function parseArguments(argv: readonly string[]): ParsedArguments {
  const words: string[] = [];
  const flags = new Map<string, string | true>();
  for (let at = 0; at < argv.length; at += 1) {
    const argument = argv[at] ?? '';
    const [, name, value] = /^--([a-z-]+)(?:=(.*))?$/s.exec(argument) ?? [];
    if (name === undefined) {
      if (!argument.startsWith('-') || argument === '-') words.push(argument);
      else flags.set(argument, true);
    } else if (value !== undefined) flags.set(name, value);
    else if (valueFlags.has(name)) flags.set(name, argv[(at += 1)] ?? '');
    else flags.set(name, true);
  }
  return { words, flags };
}

function startsWith(words: readonly string[], start: readonly string[]): boolean {
  return start.every((word, index) => words[index] === word);
}

/** Removes the words of a command; flags with their values stay. */
function withoutWords(argv: readonly string[], words: readonly string[]): string[] {
  const left = [...words];
  const kept: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const argument = argv[at] ?? '';
    const isFlag = argument.startsWith('--');
    if (!isFlag && argument === left[0]) left.shift();
    else kept.push(argument);
    if (isFlag && valueFlags.has(argument.slice(2)) && at + 1 < argv.length) {
      kept.push(argv[(at += 1)] ?? '');
    }
  }
  return kept;
}
