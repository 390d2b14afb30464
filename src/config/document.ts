import { readFileSync, statSync } from 'node:fs';
import {
  LineCounter,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  parseDocument as parseYaml,
} from 'yaml';
import type { Document as YamlDocument } from 'yaml';
import { messageOf } from '../base/errors.ts';
import { findUnsafe } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { makeProblem } from './problem.ts';
import type { Problem } from './problem.ts';

export type Path = readonly PropertyKey[];

/** A YAML file as plain data that still knows where in the file each key stands. */
export interface Document {
  /** Undefined when there are problems, null when the file says nothing. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** `file:line:column` of the key at the path, or of the nearest thing around it. */
  readonly placeOf: (path: Path) => string;
}

export interface ReadDocument extends Document {
  readonly bytes: Buffer;
}

export function readDocument(file: string, bytesMax: number): ReadDocument {
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
  });
  const placeAt = (offset: number): string => {
    const { line, col } = lineCounter.linePos(offset);
    return `${file}:${line || 1}:${col || 1}`;
  };
  const placeOf = (path: Path): string => placeAt(offsetOf(yaml, path));
  const problems: Problem[] = [...yaml.errors, ...yaml.warnings].map(({ code, message, pos }) => {
    const [said, hint] = syntaxWords[code] ?? [message, undefined];
    return makeProblem(placeAt(pos[0]), wordAt(text, pos[0], code), said, hint);
  });
  if (problems.length > 0) return { value: undefined, problems, placeOf };

  try {
    const value: unknown = yaml.toJS();
    scan(value, [], (path, message, hint) => {
      problems.push(makeProblem(placeOf(path), keyText(path), message, hint));
    });
    return { value: problems.length > 0 ? undefined : value, problems, placeOf };
  } catch (thrown) {
    return { value: undefined, problems: [makeProblem(file, '', messageOf(thrown))], placeOf };
  }
}

/** `routes[0].to`; a name that itself has dots is quoted: `plugins["a.b"].config`. */
export function keyText(path: Path): string {
  let text = '';
  for (const segment of path) {
    const name = String(segment);
    if (typeof segment === 'number') text += `[${name}]`;
    else if (/^[\w-]+$/.test(name)) text += text === '' ? name : `.${name}`;
    else text += `[${JSON.stringify(name)}]`;
  }
  return text;
}

/** Errors of the YAML parser whose own words do not help somebody who edits a file. */
const syntaxWords: Readonly<Record<string, readonly [string, string]>> = {
  DUPLICATE_KEY: ['is given twice in the same map', 'Keep one of the two.'],
  MULTIPLE_DOCS: ['a second document starts here', 'Remove the line with ---.'],
  NON_STRING_KEY: ['a key must be plain text', 'Put the key in quotes.'],
  TAB_AS_INDENT: ['a tab is used to indent', 'Indent with spaces.'],
  TAG_RESOLVE_FAILED: [
    'a YAML tag is used',
    'Remove the word that starts with an exclamation mark.',
  ],
};

function wordAt(text: string, offset: number, code: string): string {
  if (code !== 'DUPLICATE_KEY') return '';
  return /^["']?([^\s:"']+)/.exec(text.slice(offset, offset + 200))?.[1] ?? '';
}

type Report = (path: Path, message: string, hint?: string) => void;

/** What YAML can say but JSON, the ledger or a number cannot keep. */
function scan(value: unknown, path: Path, report: Report): void {
  if (path.length > limits.jsonDepthMax) {
    return report(path.slice(0, 4), `is nested deeper than ${limits.jsonDepthMax} levels`);
  }
  if (typeof value === 'object' && value !== null) {
    for (const [key, inner] of Object.entries(value)) {
      const innerPath = [...path, Array.isArray(value) ? Number(key) : key];
      if (key === '__proto__') report(path, 'has the key __proto__, which is not allowed');
      else scan(inner, innerPath, report);
    }
    return;
  }
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return report(path, 'has more digits than a number can keep', 'Put it in quotes.');
  }
  const unsafe = findUnsafe(value, 0);
  if (unsafe !== undefined) report(path, unsafe.slice('$ '.length));
}

function offsetOf(yaml: YamlDocument.Parsed, path: Path): number {
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
