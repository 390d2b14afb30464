import { readFileSync, realpathSync } from 'node:fs';
import { relative } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  isCollection,
  isMap,
  isNode,
  isScalar,
  parseDocument as parseYaml,
  stringify,
  type Pair,
  type YAMLMap,
} from 'yaml';
import { DuctileError } from '../base/errors.ts';
import { writeFileAtomic } from '../base/files.ts';
import { hasExact } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { valueAt } from './address.ts';
import { keyText, parseDocument, type KeyPath } from './document.ts';
import { readConfig, type LoadOptions, type ConfigReading } from './load.ts';
import { writeLock } from './integrity.ts';
import { configInvalid, sentence, type Problem } from './problem.ts';

/** A checked change of one key that isn't written yet. */
export interface ConfigEdit {
  readonly file: string;
  readonly key: string;
  readonly text: string;
  /** The configuration after the change. */
  readonly reading: ConfigReading;
}

/** Sets a key in the file that has it, and keeps comments and order. Refuses an invalid result. */
export function planEdit(
  reading: ConfigReading,
  path: KeyPath,
  value: unknown,
  options: LoadOptions,
): ConfigEdit {
  const { file, inside } = findTargetFile(reading, path);
  const text = patchText(readFileSync(file, 'utf8'), inside, value);
  if (text === undefined) {
    const message = `${keyText(path)} cannot be set in ${file}`;
    throw makeKeyError(message, findSpelling(reading, path));
  }
  return checkEdit(file, path, text, options);
}

/**
 * Removes a key from the last file that has it. The value of an earlier file then becomes active.
 */
export function planRemoval(
  reading: ConfigReading,
  path: KeyPath,
  options: LoadOptions,
): ConfigEdit {
  if (valueAt(reading.document.value, path) === undefined) {
    throw makeKeyError(`${keyText(path)} is not set`);
  }
  const { file, inside } = findTargetFile(reading, path);
  const text = removeKey(readFileSync(file, 'utf8'), inside);
  if (text === undefined) throw makeKeyError(`${keyText(path)} is not set in ${file}`);
  return checkEdit(file, path, text, options);
}

function checkEdit(file: string, path: KeyPath, text: string, options: LoadOptions): ConfigEdit {
  const reading = readConfig({ ...options, replace: new Map([[file, text]]) });
  if (reading.config === undefined) throw configInvalid(reading.problems);
  return { file, key: keyText(path), text, reading };
}

function makeKeyError(message: string, spelling?: Problem): DuctileError {
  return new DuctileError('INPUT_INVALID', message, {
    place: 'key',
    hint:
      spelling === undefined
        ? 'Run `ductile config show` to see the current keys.'
        : `Edit ${spelling.place} first: ${sentence(spelling)}.`,
  });
}

/** Finds a key in the original project's spelling, which can be read but not edited. */
function findSpelling({ translated }: ConfigReading, [top]: KeyPath): Problem | undefined {
  return translated.find(({ key }) => key === String(top));
}

/**
 * Writes the change, keeps the previous file as `<file>.bak`, and renews the lock of that file
 * alone. If any step fails, the file is restored.
 */
export function applyEdit(
  { file, text }: ConfigEdit,
  before: ConfigReading,
  options: LoadOptions,
  now: string,
) {
  const backup = `${file}.bak`;
  const old = readFileSync(file);
  // Writes through symbolic links.
  const target = realpathSync(file);
  writeFileAtomic(backup, old);
  writeFileAtomic(target, text);
  try {
    const after = readConfig(options);
    if (after.config === undefined) throw configInvalid(after.problems);
    return { backup, locked: relock(before, after, file, now) };
  } catch (thrown) {
    writeFileAtomic(target, old);
    throw thrown;
  }
}

/** Locks only the change that was made here. A file that changed otherwise stays unlocked. */
function relock(before: ConfigReading, after: ConfigReading, file: string, now: string): boolean {
  const { manifest, found, drift } = before;
  const wasSound = !drift.some(({ problem }) => problem.place === file);
  if (manifest.state !== 'sound' || !wasSound) return false;
  const path = relative(found.directory, file);
  const hash = after.files.find((candidate) => candidate.path === file)?.hash ?? '';
  const hashes = new Map([...manifest.manifest.hashes, [path, hash]]);
  writeLock(found.directory, { ...manifest.manifest, generatedAt: now, hashes });
  return true;
}

/** Finds the file to write to: the last one with the key, or with the longest part of its path. */
function findTargetFile(
  { sources, found }: ConfigReading,
  path: KeyPath,
): { file: string; inside: KeyPath } {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const head = path.slice(0, depth);
    const home = sources.findLast(
      ({ document }) =>
        valueAt(document.value, head) !== undefined && !hasList(document.value, head),
    );
    if (home !== undefined) return { file: home.file, inside: path };
    const inList = findInList(sources, head, path);
    if (inList !== undefined) return inList;
  }
  return { file: found.file, inside: path };
}

/** Paths through lists need care: indices change when files are merged. */
function hasList(value: unknown, path: KeyPath): boolean {
  return path.some((_, index) => Array.isArray(valueAt(value, path.slice(0, index))));
}

/** Lists of several files are appended, so indices continue from file to file. */
function findInList(
  sources: ConfigReading['sources'],
  head: KeyPath,
  path: KeyPath,
): { file: string; inside: KeyPath } | undefined {
  const at = head.findIndex((segment) => typeof segment === 'number');
  if (at === -1) return undefined;
  let index = Number(head[at]);
  for (const { document, file } of sources) {
    const list = valueAt(document.value, head.slice(0, at));
    const length = Array.isArray(list) ? list.length : 0;
    if (index < length)
      return { file, inside: [...head.slice(0, at), index, ...path.slice(at + 1)] };
    index -= length;
  }
  return undefined;
}

/** Parses a value of the command line. Lists and maps may be written in YAML, without quotes. */
export function parseValue(text: string): unknown {
  if (/^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?)$/.test(text) || /^["[{]/.test(text)) {
    try {
      const value = parseJson(text);
      if (hasExact(value)) throw notExact(text);
      return value;
    } catch (thrown) {
      if (thrown instanceof DuctileError) throw thrown;
      return /^[[{]/.test(text) ? parseFlow(text) : text;
    }
  }
  return text;
}

function notExact(text: string): DuctileError {
  const message = `${text} has a number with more digits than a number can hold`;
  return new DuctileError('INPUT_INVALID', message, { hint: 'Put the number in quotes.' });
}

/** `{payload.name}` is a map without a value to YAML, and a text to the user. */
function parseFlow(text: string): unknown {
  const { value, problems } = parseDocument(text, '');
  const isMeant = problems.length === 0 && !hasNull(value);
  return isMeant && typeof value === 'object' ? value : text;
}

function hasNull(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === null;
  return Object.values(value).some(hasNull);
}

/**
 * Returns the text with one key set. Only the lines of that key change: a value is replaced in
 * place, a new key goes below the last one of its map. If that fails, the whole text is rewritten
 * with its comments. Returns undefined when the key can't be there.
 */
export function patchText(text: string, path: KeyPath, value: unknown): string | undefined {
  const patched = patchLines(text, path, value);
  if (patched !== undefined) {
    const document = parseYaml(patched);
    const isRight =
      document.errors.length === 0 && isDeepStrictEqual(valueAt(document.toJS(), path), value);
    if (isRight) return patched;
  }
  const document = parseYaml(text);
  try {
    document.setIn(path, value);
    return document.toString({ lineWidth: 0 });
  } catch {
    return undefined;
  }
}

/**
 * Returns the text without one key or entry of a list. Only its lines are removed. If that fails,
 * the whole text is rewritten. Returns undefined when the key isn't there.
 */
export function removeKey(text: string, path: KeyPath): string | undefined {
  const document = parseYaml(text);
  if (!document.hasIn(path)) return undefined;
  const cut = cutLines(text, document.getIn(path.slice(0, -1), true), path.at(-1));
  document.deleteIn(path);
  const whole = document.toString({ lineWidth: 0 });
  if (cut === undefined) return whole;
  const after = parseYaml(cut);
  const isRight =
    after.errors.length === 0 && isDeepStrictEqual(after.toJS(), emptyAsNull(document, path));
  return isRight ? cut : whole;
}

/** A map without its last line is a key without a value. */
function emptyAsNull(document: ReturnType<typeof parseYaml>, path: KeyPath): unknown {
  const parent = path.slice(0, -1);
  const around = parent.length === 0 ? document.contents : document.getIn(parent, true);
  const isLeft = isCollection(around) && around.items.length > 0;
  if (isLeft) return document.toJS();
  if (parent.length === 0) return null;
  document.setIn(parent, null);
  return document.toJS();
}

function cutLines(
  text: string,
  map: unknown,
  segment: PropertyKey | undefined,
): string | undefined {
  if (!isMap(map) || map.flow === true || segment === undefined) return undefined;
  const pair = findPair(map, segment);
  const start = isNode(pair?.key) ? pair.key.range?.[0] : undefined;
  const end = endOf(pair?.value) ?? (isNode(pair?.key) ? pair.key.range?.[1] : undefined);
  if (start === undefined || end === undefined) return undefined;
  const from = text.lastIndexOf('\n', start - 1) + 1;
  if (text.slice(from, start).trim() !== '') return undefined;
  const lineEnd = text.indexOf('\n', text[end - 1] === '\n' ? end - 1 : end);
  return text.slice(0, from) + (lineEnd === -1 ? '' : text.slice(lineEnd + 1));
}

function patchLines(text: string, path: KeyPath, value: unknown): string | undefined {
  let node: unknown = parseYaml(text).contents;
  for (const [index, segment] of path.entries()) {
    if (!isMap(node)) {
      if (!isCollection(node) || typeof segment !== 'number') return undefined;
      node = node.items[segment];
      continue;
    }
    const pair = findPair(node, segment);
    if (pair === undefined) return insertKey(text, node, path.slice(index), value);
    const rest = path.slice(index + 1);
    if (rest.length === 0 || isEmpty(text, pair))
      return replaceValue(text, pair, nest(rest, value));
    node = pair.value;
  }
  return replaceNode(text, node, value);
}

function findPair(map: YAMLMap, segment: PropertyKey): Pair | undefined {
  return map.items.find(({ key }) => isScalar(key) && String(key.value) === String(segment));
}

function replaceValue(text: string, pair: Pair, value: unknown): string | undefined {
  if (!isEmpty(text, pair)) return replaceNode(text, pair.value, value);
  const { key } = pair;
  const end = isNode(key) ? key.range?.[1] : undefined;
  const colon = end === undefined ? -1 : text.indexOf(':', end);
  if (colon === -1) return undefined;
  return `${text.slice(0, colon + 1)} ${inline(value)}${text.slice(colon + 1)}`;
}

/** A value on one line, or between brackets, can be replaced in place. */
function replaceNode(text: string, node: unknown, value: unknown): string | undefined {
  if (!isNode(node) || !node.range) return undefined;
  if (isCollection(node) && node.flow !== true) return undefined;
  if (isScalar(node) && ['BLOCK_FOLDED', 'BLOCK_LITERAL'].includes(node.type ?? '')) {
    return undefined;
  }
  const [start, end] = node.range;
  return `${text.slice(0, start)}${inline(value)}${text.slice(end)}`;
}

function insertKey(text: string, map: YAMLMap, path: KeyPath, value: unknown): string | undefined {
  const first = map.items[0]?.key;
  if (map.flow === true || !isNode(first) || !first.range) return undefined;
  const column = first.range[0] - (text.lastIndexOf('\n', first.range[0] - 1) + 1);
  const end = endOf(map);
  if (end === undefined) return undefined;
  const from = text[end - 1] === '\n' ? end - 1 : end;
  const lineEnd = text.indexOf('\n', from);
  const at = lineEnd === -1 ? text.length : lineEnd;
  const lines = stringify(nest(path, value), { lineWidth: 0 }).trimEnd().split('\n');
  const added = lines.map((line) => `\n${' '.repeat(column)}${line}`).join('');
  return `${text.slice(0, at)}${added}${text.slice(at)}`;
}

/** Returns the end of the last value inside, without comments below it. */
function endOf(node: unknown): number | undefined {
  if (isMap(node) && node.flow !== true) {
    const last = node.items.at(-1);
    return endOf(last?.value) ?? (isNode(last?.key) ? last.key.range?.[1] : undefined);
  }
  if (isCollection(node) && node.flow !== true) return endOf(node.items.at(-1));
  return isNode(node) ? node.range?.[1] : undefined;
}

function isEmpty(text: string, { value }: Pair): boolean {
  if (!isScalar(value)) return value === null;
  return value.value === null && text.slice(value.range?.[0], value.range?.[1]).trim() === '';
}

function nest(path: KeyPath, value: unknown): unknown {
  return path.reduceRight<unknown>((inner, key) => ({ [String(key)]: inner }), value);
}

/** Formats a value on one line. */
function inline(value: unknown): string {
  const text = stringify(value, { lineWidth: 0, collectionStyle: 'flow' }).trimEnd();
  return text.includes('\n') ? JSON.stringify(value) : text;
}
