import { limits } from '../base/limits.ts';
import { keyText } from './document.ts';
import type { LocatedNode } from './located.ts';
import { makeProblem } from './problem.ts';
import type { Problem } from './problem.ts';
import { translations } from './translations.ts';
import type { Around, Translation } from './translations.ts';

export interface Translated {
  readonly root: LocatedNode;
  /** One for each spelling that was translated or ignored. */
  readonly notes: readonly Problem[];
}

/**
 * Puts the keys of Ductile in the place of the original's spellings. Every value keeps its location.
 * In one file, a key of Ductile wins over a spelling of it.
 */
export function translateSpellings(
  document: LocatedNode,
  table: readonly Translation[] = translations,
): Translated {
  const notes: Problem[] = [];
  const note = (problem: Problem): void => {
    if (notes.length < limits.problemsMax) notes.push(problem);
  };
  const root = table.reduce(
    (node, translation) => translateBelow(node, translation.from.split('.'), [], translation, note),
    document,
  );
  return { root, notes };
}

type Note = (problem: Problem) => void;

/** Follows the words of `from` to every map that has its last one. */
function translateBelow(
  node: LocatedNode,
  [word = '', ...rest]: readonly string[],
  above: readonly PropertyKey[],
  translation: Translation,
  note: Note,
): LocatedNode {
  const { content } = node;
  if ('list' in content) {
    if (word !== '*') return node;
    const list = content.list.map((inner, index) =>
      translateBelow(inner, rest, [...above, index], translation, note),
    );
    return { ...node, content: { list } };
  }
  if (!('map' in content)) return node;
  if (rest.length === 0) {
    return { ...node, content: { map: translateKey(content.map, word, above, translation, note) } };
  }
  const map = new Map(content.map);
  for (const [key, inner] of content.map) {
    if (word !== '*' && word !== key) continue;
    map.set(key, translateBelow(inner, rest, [...above, key], translation, note));
  }
  return { ...node, content: { map } };
}

function translateKey(
  around: Around,
  key: string,
  above: readonly PropertyKey[],
  translation: Translation,
  note: Note,
): Around {
  const { to, applies, change = (value) => value, beside, message, hint } = translation;
  const value = around.get(key);
  if (value === undefined || applies?.(value) === false) return around;
  const place = value.document.placeOf(value.path);
  const written = keyText(value.path);
  const map = new Map(around);
  map.delete(key);
  if (to === undefined) {
    note(makeProblem(place, written, message ?? 'has no effect', hint));
    return map;
  }
  const ours = keyText([...above, ...to]);
  const filled = fillKey(map, to, change(value));
  if (filled === 'taken') {
    note(makeProblem(place, written, `is ignored, because ${ours} is set too`, 'Remove it.'));
    return map;
  }
  note(makeProblem(place, written, `is accepted as ${ours}`, hint));
  for (const [other, node] of beside?.(value, around) ?? []) {
    if (node === undefined) filled.delete(other);
    else filled.set(other, node);
  }
  return filled;
}

/** The map with a value where there is none yet. Maps on the way to it are made. */
function fillKey(
  around: Around,
  [key = '', ...rest]: readonly string[],
  value: LocatedNode,
): Map<string, LocatedNode> | 'taken' {
  const before = around.get(key);
  const isEmpty = before === undefined || isNull(before);
  if (rest.length === 0) return isEmpty ? new Map(around).set(key, value) : 'taken';
  const inner = isEmpty ? new Map<string, LocatedNode>() : mapOf(before);
  const filled = inner === undefined ? 'taken' : fillKey(inner, rest, value);
  if (filled === 'taken') return 'taken';
  const home = isEmpty ? value : before;
  return new Map(around).set(key, { ...home, content: { map: filled } });
}

function mapOf({ content }: LocatedNode): Around | undefined {
  return 'map' in content ? content.map : undefined;
}

function isNull({ content }: LocatedNode): boolean {
  return 'scalar' in content && (content.scalar === null || content.scalar === undefined);
}
