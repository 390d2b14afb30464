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
import { keyText, parseDocument, type Path } from './document.ts';
import { readConfig, type LoadOptions, type Reading } from './load.ts';
import { writeManifest } from './integrity.ts';
import { configInvalid, sentence, type Problem } from './problem.ts';

/** A change of one key, worked out and checked, and not written yet. */
export interface Edit {
  readonly file: string;
  readonly key: string;
  readonly text: string;
  /** What would be in force. */
  readonly reading: Reading;
}

/** Sets a key in the file that has it, comments and order kept; a result that is invalid is refused. */
export function planEdit(reading: Reading, path: Path, value: unknown, options: LoadOptions): Edit {
  const { file, inside } = findHome(reading, path);
  const text = patchText(readFileSync(file, 'utf8'), inside, value);
  if (text === undefined) {
    const message = `${keyText(path)} has no such place in ${file}`;
    throw misplaced(message, findSpelling(reading, path));
  }
  return checked(file, path, text, options);
}

/** Takes a key out of the last file that has it; what another file says of it is then in force. */
export function planRemoval(reading: Reading, path: Path, options: LoadOptions): Edit {
  if (valueAt(reading.document.value, path) === undefined) {
    throw misplaced(`${keyText(path)} is not set`);
  }
  const { file, inside } = findHome(reading, path);
  const text = removeKey(readFileSync(file, 'utf8'), inside);
  if (text === undefined) throw misplaced(`${keyText(path)} is not set in ${file}`);
  return checked(file, path, text, options);
}

function checked(file: string, path: Path, text: string, options: LoadOptions): Edit {
  const reading = readConfig({ ...options, replace: new Map([[file, text]]) });
  if (reading.config === undefined) throw configInvalid(reading.problems);
  return { file, key: keyText(path), text, reading };
}

function misplaced(message: string, spelling?: Problem): DuctileError {
  return new DuctileError('INPUT_INVALID', message, {
    place: 'key',
    hint:
      spelling === undefined
        ? 'See what is there with `ductile config show`.'
        : `Edit ${spelling.place} first: ${sentence(spelling)}.`,
  });
}

/** A key in the spelling of the original, which can be read but not changed as ours. */
function findSpelling({ translated }: Reading, [top]: Path): Problem | undefined {
  return translated.find(({ key }) => key === String(top));
}

/**
 * Writes the change, keeps what was there as `<file>.bak`, and renews the lock of that file alone. It
 * is all or nothing: when any of it fails, the file is what it was.
 */
export function applyEdit(
  { file, text }: Edit,
  before: Reading,
  options: LoadOptions,
  now: string,
) {
  const backup = `${file}.bak`;
  const old = readFileSync(file);
  // A link stays one; what it leads to is changed.
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

/**
 * Only what was changed here is accepted. A file that somebody else changed stays as unaccepted as
 * it was.
 */
function relock(before: Reading, after: Reading, file: string, now: string): boolean {
  const { manifest, found, drift } = before;
  const wasSound = !drift.some(({ problem }) => problem.place === file);
  if (manifest.state !== 'sound' || !wasSound) return false;
  const path = relative(found.directory, file);
  const hash = after.files.find((candidate) => candidate.path === file)?.hash ?? '';
  const hashes = new Map([...manifest.manifest.hashes, [path, hash]]);
  writeManifest(found.directory, { ...manifest.manifest, generatedAt: now, hashes });
  return true;
}

/** The file to write to: the last one with the key, or with most of the way to it. */
function findHome({ sources, found }: Reading, path: Path): { file: string; inside: Path } {
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

/** Whether the way to a key leads through a list, whose indices change when files are merged. */
function hasList(value: unknown, path: Path): boolean {
  return path.some((_, index) => Array.isArray(valueAt(value, path.slice(0, index))));
}

/** Lists of several files are appended to each other, so an index counts on from file to file. */
function findInList(
  sources: Reading['sources'],
  head: Path,
  path: Path,
): { file: string; inside: Path } | undefined {
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

/**
 * What somebody wrote on a command line, as the kind of value that it looks like: lists and maps also
 * without the quotes of JSON, as they stand in the files.
 */
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
  const message = `${text} has a number with more digits than a number can keep`;
  return new DuctileError('INPUT_INVALID', message, { hint: 'Put the number in quotes.' });
}

/** A text in braces, such as `{payload.name}`, is a map to YAML, but one without any value. */
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
 * The text with one key set. Only the lines of that key change: a value is replaced where it
 * stands, a new key goes below the last one of its map. Where that cannot be done, the whole is
 * written anew, with its comments. Undefined when the key cannot be there at all.
 */
export function patchText(text: string, path: Path, value: unknown): string | undefined {
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
 * The text without one key or entry of a list. Its lines go and all others stay; where that cannot be
 * done, the whole is written anew. Undefined when it is not there.
 */
export function removeKey(text: string, path: Path): string | undefined {
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

/** A map that has lost its last line is a key without a value. */
function emptyAsNull(document: ReturnType<typeof parseYaml>, path: Path): unknown {
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

function patchLines(text: string, path: Path, value: unknown): string | undefined {
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

/** What stands on one line, or between brackets, can be replaced as it stands. */
function replaceNode(text: string, node: unknown, value: unknown): string | undefined {
  if (!isNode(node) || !node.range) return undefined;
  if (isCollection(node) && node.flow !== true) return undefined;
  if (isScalar(node) && ['BLOCK_FOLDED', 'BLOCK_LITERAL'].includes(node.type ?? '')) {
    return undefined;
  }
  const [start, end] = node.range;
  return `${text.slice(0, start)}${inline(value)}${text.slice(end)}`;
}

function insertKey(text: string, map: YAMLMap, path: Path, value: unknown): string | undefined {
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

/** Where the last value inside ends; what is commented out below does not count. */
function endOf(node: unknown): number | undefined {
  if (isMap(node) && node.flow !== true) {
    const last = node.items.at(-1);
    return endOf(last?.value) ?? (isNode(last?.key) ? last.key.range?.[1] : undefined);
  }
  if (isCollection(node) && node.flow !== true) return endOf(node.items.at(-1));
  return isNode(node) ? node.range?.[1] : undefined;
}

/** A key with nothing after it. */
function isEmpty(text: string, { value }: Pair): boolean {
  if (!isScalar(value)) return value === null;
  return value.value === null && text.slice(value.range?.[0], value.range?.[1]).trim() === '';
}

function nest(path: Path, value: unknown): unknown {
  return path.reduceRight<unknown>((inner, key) => ({ [String(key)]: inner }), value);
}

/** The value on one line. */
function inline(value: unknown): string {
  const text = stringify(value, { lineWidth: 0, collectionStyle: 'flow' }).trimEnd();
  return text.includes('\n') ? JSON.stringify(value) : text;
}
