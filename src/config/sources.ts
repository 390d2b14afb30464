import { lstatSync, readdirSync, statSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { keyText, parseDocument, readDocument, type Document, type KeyPath } from './document.ts';
import { resolvePath } from '../base/files.ts';
import { makeProblem, type Problem } from './problem.ts';
import type { Environment } from './interpolate.ts';

/** A file of the configuration. */
export interface ConfigSource {
  readonly file: string;
  readonly bytes: Buffer;
  readonly document: Document;
}

interface ConfigSources {
  /** The root file, then its includes; a later file overrides an earlier one. */
  readonly sources: readonly ConfigSource[];
  readonly problems: readonly Problem[];
  /** Locations of files and directories that are symbolic links. */
  readonly links: readonly Problem[];
}

export function readSources(
  root: string,
  home: string,
  replace: ReadonlyMap<string, string> = new Map(),
): ConfigSources {
  const sources: ConfigSource[] = [];
  const problems: Problem[] = [];
  const links: Problem[] = [];
  /** The chain of includes that leads to each file. */
  const seen = new Map<string, readonly string[]>();

  const readFile = (file: string, parents: readonly string[], named: MakeProblem): void => {
    const before = seen.get(file);
    const chain = [...parents, file];
    if (before !== undefined) {
      const message = parents.includes(file)
        ? `is part of a cycle: ${chain.join(' → ')}`
        : `includes ${file} again; it was included by ${before.join(' → ')}`;
      problems.push(named(message, 'Include every file once.'));
      return;
    }
    seen.set(file, chain);
    if (seen.size > limits.configFilesMax) {
      if (seen.size === limits.configFilesMax + 1) {
        problems.push(named(`exceeds the limit of ${limits.configFilesMax} files`));
      }
      return;
    }
    if (isLink(file)) links.push(named(`${file} is a symbolic link`));
    const text = replace.get(file);
    const { bytes, ...document } =
      text === undefined
        ? readDocument(file, limits.configBytesMax)
        : { ...parseDocument(text, file), bytes: Buffer.from(text) };
    problems.push(...document.problems);
    sources.push({ file, bytes, document });
    for (const include of listPaths({ file, bytes, document }, ['include'], home)) {
      if (include.problem === undefined) readPath(include.path, chain, include.named);
      else problems.push(include.problem);
    }
  };
  const readPath = (path: string, parents: readonly string[], named: MakeProblem): void => {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) problems.push(named(`names ${path}, which does not exist`));
    else if (!found.isDirectory()) readFile(path, parents, named);
    else {
      if (isLink(path)) links.push(named(`${path} is a symbolic link`));
      for (const file of listDirectory(path)) readFile(file, parents, named);
    }
  };

  readFile(root, [], (message, hint) => makeProblem(root, '', message, hint));
  return { sources, problems, links };
}

/** Creates a problem at the key that names the file. */
type MakeProblem = (message: string, hint?: string) => Problem;

interface NamedPath {
  /** Absolute. */
  readonly path: string;
  readonly named: MakeProblem;
  readonly problem: Problem | undefined;
}

/** Lists the paths in a list of a source. The schema reports entries of the wrong type. */
function listPaths({ document, file }: ConfigSource, key: KeyPath, home: string): NamedPath[] {
  let list: unknown = document.value;
  for (const segment of key) list = isObject(list) ? list[String(segment)] : undefined;
  if (!Array.isArray(list)) return [];
  return list.flatMap((written: unknown, index): NamedPath[] => {
    if (typeof written !== 'string' || written.trim() === '') return [];
    const path = [...key, index];
    const named: MakeProblem = (message, hint) =>
      makeProblem(document.placeOf(path), keyText(path), message, hint);
    const problem = written.includes('${')
      ? named('names a variable, but files are read before variables', 'Write the path itself.')
      : undefined;
    return [{ path: resolvePath(written, dirname(file), home), named, problem }];
  });
}

function listDirectory(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && /^[^.].*\.ya?ml$/.test(entry.name))
    .map(({ name }) => join(directory, name))
    .toSorted();
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

interface EnvironmentFiles {
  /** Variables of the files; a later file overrides an earlier one. */
  readonly variables: Environment;
  readonly files: readonly { readonly file: string; readonly bytes: Buffer }[];
  readonly problems: readonly Problem[];
}

/** Reads the files that `environment_vars.include` names. */
export function readEnvironmentFiles(
  sources: readonly ConfigSource[],
  home: string,
): EnvironmentFiles {
  const variables = new Map<string, string>();
  const files: { file: string; bytes: Buffer }[] = [];
  const problems: Problem[] = [];
  const named = sources.flatMap((source) =>
    listPaths(source, ['environment_vars', 'include'], home),
  );
  for (const { path: file, named: makeNamed, problem } of named) {
    if (problem !== undefined) {
      problems.push(problem);
      continue;
    }
    try {
      const size = statSync(file).size;
      if (size > limits.configBytesMax) throw new Error(`it is ${size} bytes long`);
      const bytes = readFileSync(file);
      files.push({ file, bytes });
      const parsed = parseEnvironment(bytes.toString('utf8'), file);
      problems.push(...parsed.problems);
      for (const [name, value] of parsed.variables) variables.set(name, value);
    } catch (thrown) {
      const code = (thrown as NodeJS.ErrnoException).code;
      const reason = code === 'ENOENT' ? 'does not exist' : 'cannot be read';
      problems.push(makeNamed(`names ${file}, which ${reason}`));
    }
  }
  return { variables: Object.fromEntries(variables), files, problems };
}

interface ParsedEnvironment {
  readonly variables: ReadonlyMap<string, string>;
  readonly problems: readonly Problem[];
}

const LITERAL_HINT = 'Write the value itself, or put it in single quotes if it contains ${.';

/**
 * Parses lines of `NAME=value`, optionally with `export` in front. Quotes around a value are
 * removed. In a value without quotes, a `#` after a blank starts a comment. Values aren't expanded.
 * A value that a shell would expand is a problem, because its text would become the secret.
 */
export function parseEnvironment(text: string, file: string): ParsedEnvironment {
  const variables = new Map<string, string>();
  const problems: Problem[] = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const written = line.trim();
    if (written === '' || written.startsWith('#')) continue;
    const match = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$/.exec(written);
    const name = match?.[1] ?? '';
    const value = match === null ? undefined : unquote(match[2] ?? '');
    // The message doesn't show the line: most of these files hold secrets.
    const report = (message: string, hint?: string): void =>
      void problems.push(makeProblem(`${file}:${index + 1}:1`, name, message, hint));
    if (match === null) report('the line is not NAME=value');
    else if (value === undefined) report('a quote is not closed');
    else if (value.includes('${') && !match[2]?.startsWith("'")) {
      report('has a `${`, and values in environment files are not interpolated', LITERAL_HINT);
    } else variables.set(name, value);
  }
  return { variables, problems };
}

function unquote(written: string): string | undefined {
  const quote = written[0];
  if (quote !== '"' && quote !== "'") return written.replace(/(^|\s+)#.*$/, '');
  const end = written.indexOf(quote, 1);
  if (end === -1 || !/^\s*(#.*)?$/.test(written.slice(end + 1))) return undefined;
  return written.slice(1, end);
}
