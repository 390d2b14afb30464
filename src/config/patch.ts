import { isDeepStrictEqual } from 'node:util';
import { isCollection, isMap, isNode, isScalar, parseDocument, stringify } from 'yaml';
import type { Pair, YAMLMap } from 'yaml';
import { valueAt } from './address.ts';
import type { Path } from './document.ts';

/**
 * The text with one key set. Only the lines of that key change: a value is replaced where it
 * stands, a new key goes below the last one of its map. Where that cannot be done, the whole is
 * written anew, with its comments. Undefined when the key cannot be there at all.
 */
export function patchText(text: string, path: Path, value: unknown): string | undefined {
  const patched = patchLines(text, path, value);
  if (patched !== undefined) {
    const document = parseDocument(patched);
    const isRight =
      document.errors.length === 0 && isDeepStrictEqual(valueAt(document.toJS(), path), value);
    if (isRight) return patched;
  }
  const document = parseDocument(text);
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
  const document = parseDocument(text);
  if (!document.hasIn(path)) return undefined;
  const cut = cutLines(text, document.getIn(path.slice(0, -1), true), path.at(-1));
  document.deleteIn(path);
  const whole = document.toString({ lineWidth: 0 });
  if (cut === undefined) return whole;
  const after = parseDocument(cut);
  const isRight =
    after.errors.length === 0 && isDeepStrictEqual(after.toJS(), emptyAsNull(document, path));
  return isRight ? cut : whole;
}

/** A map that has lost its last line is a key without a value. */
function emptyAsNull(document: ReturnType<typeof parseDocument>, path: Path): unknown {
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
  let node: unknown = parseDocument(text).contents;
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
