import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { readHomeDirectory } from '../base/account.ts';
import { isObject } from '../base/json.ts';
import type { StateConfig } from './config.ts';
import type { KeyPath } from './document.ts';
import { findConfig } from './find.ts';
import { resolvePath } from '../base/files.ts';

const stateKeys: readonly string[] = [
  'path',
  'url',
  'dir',
  'schema',
] satisfies (keyof WrittenState)[];

interface StateContext {
  readonly directory: string;
  readonly home: string;
  readonly report: (path: KeyPath, message: string, hint?: string) => void;
}

/** Builds the location of the ledger. */
export function buildState(parsed: WrittenState, key: string, context: StateContext): StateConfig {
  const { directory, home } = context;
  if (parsed.url === undefined) {
    const path = resolvePath(parsed.path ?? './data/state.db', directory, home);
    return { kind: 'sqlite', path, dir: dirname(path) };
  }
  const dir = resolvePath(parsed.dir ?? './data', directory, home);
  const url = URL.parse(parsed.url);
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol)) {
    // The message doesn't show the text: it usually holds a password.
    const form = 'Write postgres://user:password@host:5432/database, special characters as %XX.';
    context.report([key, 'url'], 'is not a PostgreSQL URL', form);
    return { kind: 'postgres', url: '', schema: '', dir };
  }
  const fromUrl = url.searchParams.get('schema') ?? undefined;
  url.searchParams.delete('schema');
  const schema = fromUrl ?? parsed.schema ?? 'ductile';
  const from = parsed.schema === undefined ? 'url' : 'schema';
  if (fromUrl !== undefined && parsed.schema !== undefined && fromUrl !== parsed.schema) {
    context.report([key, 'schema'], `is ${parsed.schema}, but the url has the schema ${fromUrl}`);
  } else if (!/^(?!pg_)[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
    const rule = 'Use lowercase letters, digits and _, at most 63, not starting with pg_.';
    const message = `names the schema ${JSON.stringify(schema)}, which is not allowed`;
    context.report([key, from], message, rule);
  }
  return { kind: 'postgres', url: url.href, schema, dir };
}

/**
 * Finds the location of the ledger without checking the rest of the files. A command that only
 * talks to a running service starts faster, and works while a file is broken. Undefined means that
 * the whole configuration must be loaded, which then reports the problems.
 */
export async function findState(given: string | undefined): Promise<StateConfig | undefined> {
  const home = readHomeDirectory();
  const where = { given, env: process.env, home, cwd: process.cwd() };
  const { file, directory } = findConfig(where);
  const faults: string[] = [];
  const report = (_: KeyPath, message: string): void => void faults.push(message);
  const written = readPlainState(file) ?? (await readWritten(file, home));
  if (written === undefined) return undefined;
  const built = buildState(written, 'state', { directory, home, report });
  return faults.length > 0 ? undefined : built;
}

/** Guesses the location of the ledger of a configuration with a syntax error. */
export function guessStateDirectory(given: string | undefined): string {
  const home = readHomeDirectory();
  const { file, directory } = findConfig({ given, env: process.env, home, cwd: process.cwd() });
  const { path } = guessState(file);
  return dirname(resolvePath(path ?? './data/state.db', directory, home));
}

async function readWritten(file: string, home: string): Promise<WrittenState | undefined> {
  const { readEnvironmentFiles } = await import('./sources.ts');
  const { interpolate } = await import('./interpolate.ts');
  const { mergeDocuments } = await import('./located.ts');
  const { readSources } = await import('./sources.ts');
  const { sources, problems } = readSources(file, home);
  const environment = readEnvironmentFiles(sources, home);
  const { value } = mergeDocuments(sources.map(({ document }) => document));
  if (problems.length > 0 || environment.problems.length > 0 || !isObject(value)) return undefined;
  const { state = value['database'] ?? {}, database } = value;
  if (value['state'] !== undefined && database !== undefined) return undefined;
  const filled = interpolate(state, { ...environment.variables, ...process.env });
  return filled.faults.length === 0 && isWrittenState(filled.value) ? filled.value : undefined;
}

function isWrittenState(value: unknown): value is WrittenState {
  if (!isObject(value)) return false;
  const { path, url, dir, schema } = value;
  const isFile = url === undefined && dir === undefined && schema === undefined;
  return (
    Object.entries(value).every(([key, text]) => stateKeys.includes(key) && isText(text)) &&
    (isFile || path === undefined) &&
    (isFile || url !== undefined)
  );
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.trim() !== '';
}

/** The keys of `state` as written. */
interface WrittenState {
  readonly path?: string | undefined;
  readonly url?: string | undefined;
  readonly dir?: string | undefined;
  readonly schema?: string | undefined;
}

/**
 * Reads the state of a configuration file without a YAML parser. That works if every line is
 * simple, as in most files, and halves the start time of a command. Undefined means that the parser
 * is needed.
 */
export function readPlainState(file: string): WrittenState | undefined {
  const lines = readFileSync(file, 'utf8').split(/\r?\n/);
  if (!lines.every(isSelfContained)) return undefined;
  const keys = lines.flatMap((line) => topKey.exec(line)?.[1] ?? []);
  const isWhole = new Set(keys).size === keys.length && !keys.some((key) => elsewhere.has(key));
  const isKnown = lines.every((line) => /^([ #]|$)/.test(line) || topKey.test(line));
  if (!isWhole || !isKnown) return undefined;
  const at = lines.findIndex((line) => line.startsWith('state:'));
  return at < 0 ? {} : readState(lines.slice(at));
}

/**
 * Guesses the state of a file with a syntax error. The guess is good enough to look for a running
 * service, never to open a ledger.
 */
function guessState(file: string): WrittenState {
  const lines = readFileSync(file, 'utf8').split(/\r?\n/);
  const at = lines.findIndex((line) => /^(state|database):/.test(line));
  if (at < 0) return {};
  const end = lines.findIndex((line, index) => index > at && /^[a-z_]/.test(line));
  const section = lines.slice(at, end < 0 ? lines.length : end).join(' ');
  const named = (key: string): string | undefined =>
    new RegExp(String.raw`[\s{,]${key}:\s+["']?(${plain})`).exec(section)?.[1];
  const path = named('path');
  if (path !== undefined) return { path };
  return { path: `${named('dir') ?? './data'}/state.db` };
}

const topKey = /^([a-z_]+):(?:\s|$)/;
/** Keys that include other files, or that are another name for the state. */
const elsewhere = new Set(['include', 'environment_vars', 'database']);
/** Contains a dot or a slash, so that it is a path and never a number, a boolean or null. */
const plain = String.raw`(?=[^\s}]*[./])(?:\.{0,2}/|~/|[A-Za-z_])[\w./~-]*[\w/]`;
const flow = new RegExp(String.raw`^state:\s*\{\s*path:\s+(${plain})\s*\}\s*$`);
const nested = new RegExp(String.raw`^ +path:\s+(${plain})\s*$`);

/**
 * True for a line without brackets, quotes or blocks that continue, and without anchors or aliases.
 */
function isSelfContained(line: string): boolean {
  if (/^\s*#/.test(line)) return true;
  const isMarked = /\t|(^|[\s[{,:-])[&*!|>%@`?]|<<|^(---|\.\.\.)/.test(line);
  return !isMarked && ['{}', '[]'].every((pair) => isBalanced(line, pair)) && hasClosedQuotes(line);
}

function isBalanced(line: string, [open = '', close = '']: string): boolean {
  return line.split(open).length === line.split(close).length;
}

function hasClosedQuotes(line: string): boolean {
  return line.split('"').length % 2 === 1 && line.split("'").length % 2 === 1;
}

function readState([first = '', ...rest]: readonly string[]): WrittenState | undefined {
  const inline = flow.exec(first)?.[1];
  if (inline !== undefined) return { path: inline };
  if (!/^state:\s*$/.test(first)) return undefined;
  const end = rest.findIndex((line) => /^[a-z_]/.test(line));
  const body = rest.slice(0, end < 0 ? rest.length : end).filter((line) => !/^\s*(#|$)/.test(line));
  const path = body.length === 1 ? nested.exec(body[0] ?? '')?.[1] : undefined;
  return path === undefined ? undefined : { path };
}
