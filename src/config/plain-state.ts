import { readFileSync } from 'node:fs';

/** The keys of `state` as they are written. */
export interface WrittenState {
  readonly path?: string | undefined;
  readonly url?: string | undefined;
  readonly dir?: string | undefined;
  readonly schema?: string | undefined;
}

/**
 * What a configuration file says about its state, when every line of it is so plain that it needs no
 * YAML parser to be sure. Undefined means that it is not: then the parser has the say. Most files
 * are, and reading them so lets a command start in half the time.
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
 * Guesses what a file with a syntax error says about its state, from that part of it alone. The
 * guess is good enough to look for a running service, and never to open a ledger.
 */
export function guessState(file: string): WrittenState {
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
/** Keys that bring other files, or that are another name for the state. */
const elsewhere = new Set(['include', 'environment_vars', 'database']);
/** With a dot or a slash in it, so that it is a path and never a number, a boolean or nothing. */
const plain = String.raw`(?=[^\s}]*[./])(?:\.{0,2}/|~/|[A-Za-z_])[\w./~-]*[\w/]`;
const flow = new RegExp(String.raw`^state:\s*\{\s*path:\s+(${plain})\s*\}\s*$`);
const nested = new RegExp(String.raw`^ +path:\s+(${plain})\s*$`);

/** No bracket, quote or block that goes on in the next line, and nothing that stands for another part. */
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
