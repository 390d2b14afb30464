import { readFileSync, statSync } from 'node:fs';
import { limits } from '../base/limits.ts';
import type { Environment } from './interpolate.ts';
import { makeProblem } from './problem.ts';
import type { Problem } from './problem.ts';
import { listPaths } from './sources.ts';
import type { Source } from './sources.ts';

export interface EnvironmentFiles {
  /** What the files set; a later file wins over an earlier one. */
  readonly variables: Environment;
  readonly files: readonly { readonly file: string; readonly bytes: Buffer }[];
  readonly problems: readonly Problem[];
}

/** Reads the files that `environment_vars.include` names. */
export function readEnvironmentFiles(sources: readonly Source[], home: string): EnvironmentFiles {
  const variables = new Map<string, string>();
  const files: { file: string; bytes: Buffer }[] = [];
  const problems: Problem[] = [];
  const named = sources.flatMap((source) =>
    listPaths(source, ['environment_vars', 'include'], home),
  );
  for (const { path: file, named: complain, problem } of named) {
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
      problems.push(complain(`names ${file}, which ${reason}`));
    }
  }
  return { variables: Object.fromEntries(variables), files, problems };
}

export interface ParsedEnvironment {
  readonly variables: ReadonlyMap<string, string>;
  readonly problems: readonly Problem[];
}

const LITERAL_HINT = 'Write the value itself, or put it in single quotes if it contains ${.';

/**
 * Parses lines of `NAME=value`, optionally with `export` in front. Quotes around a value are removed.
 * In a value without quotes, a `#` after a blank starts a comment. Nothing is replaced in values: one
 * that a shell would replace is a problem, because its text would become the secret.
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
    // The line is not shown: most of these files hold secrets.
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
