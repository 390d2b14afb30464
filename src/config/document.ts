import { readFileSync, statSync } from 'node:fs';
import {
  LineCounter,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  parseDocument as parseYaml,
  visit as visitNodes,
} from 'yaml';
import type { Document as YamlDocument, Scalar } from 'yaml';
import { messageOf } from '../base/errors.ts';
import { isExactText } from '../base/parse-json.ts';
import { describeUnsafeJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { isSecretName } from '../base/secrets.ts';
import { makeProblem } from './problem.ts';
import type { Problem } from './problem.ts';

export type KeyPath = readonly PropertyKey[];

/** A YAML file as plain data, with the location of each key. */
export interface Document {
  /** Undefined when there are problems, null when the file is empty. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** Returns `file:line:column` of the key at the path, or of its nearest parent. */
  readonly placeOf: (path: KeyPath) => string;
}

interface FileDocument extends Document {
  readonly bytes: Buffer;
}

export function readDocument(file: string, bytesMax: number): FileDocument {
  let bytes: Buffer = Buffer.alloc(0);
  try {
    const { size } = statSync(file);
    if (size > bytesMax) {
      return { ...failed(file, `is ${size} bytes long; at most ${bytesMax} are read`), bytes };
    }
    bytes = readFileSync(file);
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return { ...parseDocument(text, file), bytes };
  } catch (thrown) {
    return { ...failed(file, describeReadError(thrown)), bytes };
  }
}

export function parseDocument(text: string, file: string): Document {
  const lineCounter = new LineCounter();
  const yaml = parseYaml(text, {
    lineCounter,
    merge: true,
    prettyErrors: false,
    resolveKnownTags: false,
    stringKeys: true,
    // The library's check takes quadratic time.
    uniqueKeys: false,
  });
  const placeAt = (offset: number): string => {
    const { line, col } = lineCounter.linePos(offset);
    return `${file}:${line || 1}:${col || 1}`;
  };
  const placeOf = (path: KeyPath): string => placeAt(offsetOf(yaml, path));
  const faults = [...yaml.errors, ...yaml.warnings].slice(0, limits.problemsMax);
  const problems: Problem[] = faults.map(({ code, message, pos }) => {
    const [sentence, hint] = syntaxMessages[code] ?? [message, undefined];
    return makeProblem(placeAt(pos[0]), '', sentence, hint);
  });
  if (problems.length === 0) problems.push(...checkNodes(yaml, placeAt));
  if (problems.length > 0) return { value: undefined, problems, placeOf };

  try {
    const value: unknown = yaml.toJS();
    reportUnsafe(value, (path, message, hint) => {
      if (problems.length >= limits.problemsMax) return;
      problems.push(makeProblem(placeOf(path), keyText(path), message, hint));
    });
    return { value: problems.length > 0 ? undefined : value, problems, placeOf };
  } catch (thrown) {
    // Aliases without a target, or that expand to too many values.
    problems.push(makeProblem(placeAt(lastAlias(yaml)), '', messageOf(thrown), NO_ALIAS));
    return { value: undefined, problems, placeOf };
  }
}

/** Formats a path: `routes[0].to`. A name with dots is quoted: `plugins["a.b"].config`. */
export function keyText(path: KeyPath): string {
  let text = '';
  for (const segment of path) {
    const name = String(segment);
    if (typeof segment === 'number') text += `[${name}]`;
    else if (/^[\w-]+$/.test(name)) text += text === '' ? name : `.${name}`;
    else text += `[${JSON.stringify(name)}]`;
  }
  return text;
}

/** Returns whether the value at a path of the configuration is a secret. */
export function isSecretPath(path: KeyPath): boolean {
  const last = path.findLast((segment) => typeof segment === 'string') ?? '';
  // Names and scopes of tokens are in the list `tokens`, too.
  if (path[0] === 'tokens') return last === 'key';
  if (path[0] === 'telemetry') return path[2] === 'headers';
  if (path[0] === 'api') return last === 'token' || last === 'api_key';
  // The name of a credential isn't a secret.
  if (path[0] === 'webhooks') return isSecretName(last) && last !== 'credential';
  return namesOf(path).some((segment) => typeof segment === 'string' && isSecretName(segment));
}

/**
 * Returns the keys that users choose. If one of them has the name of a secret, every value below it
 * is a secret.
 */
function namesOf(path: KeyPath): KeyPath {
  const [top, , kind] = path;
  if (top === 'pipelines' || top === 'handlers' || top === 'routes') return path.slice(2);
  if (top !== 'plugins') return [];
  if (kind === 'config') return path.slice(3);
  // plugins.<name>.schedules[0].payload
  return kind === 'schedules' && path[4] === 'payload' ? path.slice(5) : [];
}

/** Messages for errors of the YAML parser that are hard to understand. */
const syntaxMessages: Readonly<Record<string, readonly [string, string]>> = {
  MULTIPLE_DOCS: ['a second document starts here', 'Remove the line with ---.'],
  NON_STRING_KEY: ['a key must be plain text', 'Put the key in quotes.'],
  RESOURCE_EXHAUSTION: [
    'the file is nested too deeply',
    `At most ${limits.jsonDepthMax} levels are read.`,
  ],
  TAB_AS_INDENT: ['a tab is used to indent', 'Indent with spaces.'],
  TAG_RESOLVE_FAILED: [
    'a YAML tag is used',
    'Remove the word that starts with an exclamation mark.',
  ],
};

const NO_ALIAS = 'Replace the alias with its value.';
const TOO_MANY_VALUES = `exceeds the limit of ${limits.configValuesMax} values in one file`;

type Report = (path: KeyPath, message: string, hint?: string) => void;

/** Reports values that JSON, the ledger or a number can't represent. */
function reportUnsafe(root: unknown, report: Report): void {
  let left: number = limits.configValuesMax;
  const visit = (value: unknown, path: KeyPath): void => {
    // Aliases can expand a short text to too many values.
    if (left <= 0) return;
    left -= 1;
    if (left === 0) report(path.slice(0, 4), TOO_MANY_VALUES);
    if (path.length > limits.jsonDepthMax) {
      left = 0;
      return report(path.slice(0, 4), `is nested deeper than ${limits.jsonDepthMax} levels`);
    }
    if (typeof value === 'object' && value !== null) {
      for (const [key, inner] of Object.entries(value)) {
        const unsafeKey = describeUnsafeJson(key, 0);
        if (key === '__proto__') report(path, 'has the key __proto__, which is not allowed');
        else if (unsafeKey !== undefined) report(path, `has a key that ${unsafeKey.slice(2)}`);
        else visit(inner, [...path, Array.isArray(value) ? Number(key) : key]);
      }
      return;
    }
    if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
      return report(path, 'has more digits than a number can hold', 'Put it in quotes.');
    }
    const unsafe = describeUnsafeJson(value, 0);
    if (unsafe !== undefined) report(path, unsafe.slice('$ '.length));
  };
  visit(root, []);
}

/** Finds duplicate keys, numbers that would be rounded, and too many aliases. */
function checkNodes(yaml: YamlDocument.Parsed, placeAt: (offset: number) => string): Problem[] {
  const problems: Problem[] = [];
  let aliases = 0;
  visitNodes(yaml, {
    Alias(_, node) {
      aliases += 1;
      if (aliases !== limits.configAliasesMax + 1) return;
      const message = `there are more than ${limits.configAliasesMax} aliases up to here`;
      problems.push(makeProblem(placeAt(startOf(node) ?? 0), '', message, NO_ALIAS));
    },
    Scalar(_, node) {
      if (!isRounded(node) || problems.length >= limits.problemsMax) return;
      const message = `${String(node.source)} has more digits than a number can hold`;
      problems.push(makeProblem(placeAt(startOf(node) ?? 0), '', message, 'Put it in quotes.'));
    },
    Map(_, map) {
      const seen = new Set<string>();
      for (const { key } of map.items) {
        const name = isScalar(key) ? String(key.value) : '';
        if (seen.has(name) && name !== '<<' && problems.length < limits.problemsMax) {
          const place = placeAt(startOf(key) ?? 0);
          const hint = 'Keep one of the two.';
          problems.push(makeProblem(place, name, 'is given twice in the same map', hint));
        }
        seen.add(name);
      }
    },
  });
  return problems;
}

/** Finds lost digits of fractions and exponents. Whole numbers are found later, with their path. */
function isRounded({ value, source }: Scalar): boolean {
  if (typeof value !== 'number' || source === undefined || !Number.isFinite(value)) return false;
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return false;
  // YAML also has +1, .5 and 5. Numbers that JSON doesn't have, such as 0x1F, are whole.
  const plain = source
    .replace(/^\+/, '')
    .replace(/^(-?)\./, '$10.')
    .replace(/\.$/, '');
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(plain) && !isExactText(plain);
}

function lastAlias(yaml: YamlDocument.Parsed): number {
  let offset = 0;
  visitNodes(yaml, { Alias: (_, node) => void (offset = startOf(node) ?? offset) });
  return offset;
}

function offsetOf(yaml: YamlDocument.Parsed, path: KeyPath): number {
  let node: unknown = yaml.contents;
  let offset = 0;
  for (const segment of path) {
    if (isAlias(node)) node = node.resolve(yaml);
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === segment);
      if (pair === undefined) break;
      offset = startOf(pair.key) ?? offset;
      node = pair.value;
    } else if (isSeq(node) && typeof segment === 'number') {
      node = node.items[segment];
      offset = startOf(node) ?? offset;
    } else break;
  }
  return offset;
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined;
}

function failed(file: string, message: string): Document {
  const problem = makeProblem(file, '', `the file ${message}`);
  return { value: undefined, problems: [problem], placeOf: () => file };
}

function describeReadError(thrown: unknown): string {
  if (thrown instanceof TypeError) return 'is not valid UTF-8';
  const code = (thrown as NodeJS.ErrnoException).code;
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EACCES') return 'cannot be read: permission denied';
  if (code === 'EISDIR') return 'is a directory, not a file';
  return `cannot be read: ${messageOf(thrown)}`;
}
