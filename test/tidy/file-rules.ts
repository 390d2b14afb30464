/** Rules about what a single source file may do, and about what goes together. */
import { matchesGlob } from 'node:path';
import type { Facts } from './facts.ts';

const environmentReaders = [
  /^src\/base\/probe\.ts$/,
  /^src\/(config|cli|app)\//,
  /^extras\/prove\//,
  /^src\/main\.ts$/,
];

/** A lock that the kernel frees, which Node has only through SQLite; it holds no data. */
export const LOCK = 'src/base/file-lock.ts';

// In lower case only, so that a sentence that begins with `Select` doesn't match.
const sql = [
  'select\\s[^]*\\sfrom\\s',
  'with\\s[^]*\\sas\\s*\\(',
  'insert\\s+into\\s',
  'update\\s+[\\w."?]+\\s+set\\s',
  'delete\\s+from\\s',
  '(?:create|alter|drop)\\s+(?:table|index|unique|schema|view|trigger)\\s',
  'begin\\s+immediate',
  'pragma\\s+\\w',
];
const sqlPattern = new RegExp(`^\\s*(?:${[...sql, ...sql.map(toUpper)].join('|')})`);

export function findFileFaults(path: string, facts: Facts): string[] {
  const faults: string[] = [];
  const statement = facts.strings.find((text) => sqlPattern.test(text));
  if (statement !== undefined && !mayHaveSql(path)) {
    faults.push(`${path}: SQL outside of the ledger: ${statement.trim().slice(0, 40)}`);
  }
  if (facts.readsEnvironment && !environmentReaders.some((pattern) => pattern.test(path))) {
    faults.push(`${path}: reads the environment, which configuration does`);
  }
  return faults;
}

function mayHaveSql(path: string): boolean {
  return path.startsWith('src/ledger/') || path.endsWith('.sql.ts') || path === LOCK;
}

function toUpper(pattern: string): string {
  return pattern.replaceAll(/\\.|[a-z]+/g, (part) =>
    part.startsWith('\\') ? part : part.toUpperCase(),
  );
}

export type Versions = Readonly<Record<string, string>>;

export function findInexact(versions: Versions): string[] {
  return Object.entries(versions)
    .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
    .map(([name, version]) => `${name}: ${version} is not one exact version`);
}

/** `page` has a row `| name | reason | what would replace it |` for each package, and for no other. */
export function findUnexplained(names: readonly string[], page: string): string[] {
  const rows = new Map<string, readonly string[]>();
  for (const match of page.matchAll(/^\| `([^`]+)`\s*\|([^|]+)\|([^|]+)\|$/gm)) {
    const [, name = '', reason = '', replacement = ''] = match;
    rows.set(name, [reason.trim(), replacement.trim()]);
  }
  const missing = names.filter((name) => !(rows.get(name)?.every((cell) => cell !== '') ?? false));
  const stale = [...rows.keys()].filter((name) => !names.includes(name));
  return [
    ...missing.map((name) => `${name} has no reason in docs/internals/dependencies.md`),
    ...stale.map((name) => `${name} is explained but not used`),
  ];
}

/** Returns the patterns that match no file; each alternative in braces has to match one. */
export function findUnmatched(patterns: readonly string[], paths: readonly string[]): string[] {
  const expanded = new Set(patterns.flatMap(expandBraces));
  return [...expanded].filter((pattern) => !paths.some((path) => matchesGlob(path, pattern)));
}

function expandBraces(pattern: string): string[] {
  const found = /\{([^{}]*)\}/.exec(pattern);
  if (found === null) return [pattern];
  const [braces, inner = ''] = found;
  const [before, after] = [
    pattern.slice(0, found.index),
    pattern.slice(found.index + braces.length),
  ];
  return inner.split(',').flatMap((each) => expandBraces(`${before}${each}${after}`));
}
