import { ExactNumber } from '../../base/parse-json.ts';
import { compact, isObject } from '../../base/json.ts';
import { toVisibleText } from '../../base/text.ts';

/** A part of a result that is left out or cut. */
export interface ResultCut {
  /** The position in each level. Positions instead of names, because a name can be any text. */
  readonly path: readonly number[];
  readonly kind: 'list' | 'object' | 'text' | 'folded' | 'columns' | 'page';
  /** Entries, or characters. */
  readonly total: number;
  readonly shown: number;
  /** Counts by status, for a list whose entries have one. */
  readonly by_status?: Readonly<Record<string, number>>;
  /** Counts by severity. */
  readonly by_severity?: Readonly<Record<string, number>>;
  /** Columns that are left out of the rows. */
  readonly columns?: readonly string[];
}

interface Digest {
  readonly value: unknown;
  readonly cuts: readonly ResultCut[];
}

/** Limits of a digest: entries of a list, fields of an object, characters of a text, levels. */
interface Size {
  readonly entries: number;
  readonly fields: number;
  readonly chars: number;
  readonly depth: number;
}

const DEEP = 64;
const FIELDS = 200;

const texts = (...chars: readonly number[]): Size[] =>
  chars.map((count) => ({ entries: 5000, fields: 5000, chars: count, depth: DEEP }));
const lists = (chars: number, ...entries: readonly number[]): Size[] =>
  entries.map((count) => ({ entries: count, fields: FIELDS, chars, depth: DEEP }));

/** Sizes that cut long texts only, so that every row of a list stays. */
const TEXT_SIZES: readonly Size[] = texts(4000, 2000, 1000, 600, 400, 300, 200);

/** Sizes to try, largest first: they cut long texts first, then lists, then objects, then levels. */
const SIZES: readonly Size[] = [
  ...TEXT_SIZES,
  ...lists(200, 1000, 500, 300, 200, 150, 100, 80, 60, 50, 40, 35, 30, 25, 20),
  ...lists(120, 20, 17, 15, 13, 11, 10, 9, 8, 7, 6, 5, 4),
  { entries: 3, fields: 60, chars: 120, depth: 8 },
  { entries: 2, fields: 60, chars: 80, depth: 8 },
  { entries: 1, fields: 60, chars: 80, depth: 8 },
  { entries: 5, fields: 40, chars: 80, depth: 6 },
  { entries: 3, fields: 24, chars: 80, depth: 5 },
  { entries: 2, fields: 16, chars: 60, depth: 4 },
  { entries: 20, fields: 100, chars: 60, depth: 2 },
  { entries: 40, fields: 320, chars: 60, depth: 1 },
  { entries: 10, fields: 80, chars: 40, depth: 1 },
  { entries: 1, fields: 8, chars: 20, depth: 1 },
  { entries: 0, fields: 0, chars: 20, depth: 0 },
];

const KEY_CHARS = { min: 40, max: 100 };

interface DigestOptions {
  /** Entries of the outermost list or object, or characters of a text, to leave out (default: 0). */
  readonly from?: number;
  /** True to cut long texts only. The result can then be larger than the limit. */
  readonly keepRows?: boolean;
}

/**
 * Returns as much of a value as fits into so many bytes of JSON, always the same for the same value.
 * Each part that is cut shows its beginning, and is listed with how much there is.
 */
export function digest(
  value: unknown,
  bytes: number,
  { from = 0, keepRows = false }: DigestOptions = {},
): Digest {
  if (typeof value === 'string') return digestText(value, bytes, from);
  let last: Digest = { value: null, cuts: [] };
  for (const size of keepRows ? TEXT_SIZES : SIZES) {
    const cuts: ResultCut[] = [];
    last = { value: shrink(value, size, { path: [], cuts, from }), cuts };
    if (countJsonBytes(last.value) <= bytes) return last;
  }
  return last;
}

export function countJsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

function digestText(text: string, bytes: number, from: number): Digest {
  for (let length = bytes; ; length = Math.floor(length / 2)) {
    const value = sliceText(text, from, length);
    if (countJsonBytes(value) > bytes) continue;
    const isWhole = from + value.length >= text.length;
    const cut: ResultCut = { path: [], kind: 'text', total: text.length, shown: value.length };
    return { value, cuts: isWhole ? [] : [cut] };
  }
}

/** State while a value is shrunk. */
interface ShrinkState {
  readonly path: readonly number[];
  readonly cuts: ResultCut[];
  /** Entries of the outermost list or object that are left out. */
  readonly from: number;
}

function shrink(value: unknown, size: Size, state: ShrinkState): unknown {
  if (typeof value === 'string') return shrinkText(value, size, state);
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) return value;
  return Array.isArray(value)
    ? shrinkList(value, size, state)
    : shrinkObject(value as Readonly<Record<string, unknown>>, size, state);
}

function shrinkText(text: string, { chars }: Size, { path, cuts }: ShrinkState): string {
  if (text.length <= chars) return text;
  const shown = sliceText(text, 0, chars);
  cuts.push({ path, kind: 'text', total: text.length, shown: shown.length });
  return `${shown}…`;
}

function shrinkList(list: readonly unknown[], size: Size, state: ShrinkState): unknown[] {
  const { path, cuts, from } = state;
  const count = size.depth > 0 ? size.entries : 0;
  const shown = list.slice(from, from + count);
  if (from + shown.length < list.length) {
    const cut: ResultCut = { path, kind: 'list', total: list.length, shown: shown.length };
    cuts.push({ ...cut, ...tallyBy(list, 'status'), ...tallyBy(list, 'severity') });
  }
  const inner = { ...size, depth: size.depth - 1 };
  return shown.map((entry, index) =>
    shrink(entry, inner, { path: [...path, from + index], cuts, from: 0 }),
  );
}

function shrinkObject(
  object: Readonly<Record<string, unknown>>,
  size: Size,
  { path, cuts, from }: ShrinkState,
): Record<string, unknown> {
  const entries = Object.entries(object);
  const count = size.depth > 0 ? size.fields : 0;
  const shown = entries.slice(from, from + count);
  if (from + shown.length < entries.length) {
    cuts.push({ path, kind: 'object', total: entries.length, shown: shown.length });
  }
  const inner = { ...size, depth: size.depth - 1 };
  const keyChars = Math.max(KEY_CHARS.min, Math.min(KEY_CHARS.max, size.chars));
  return Object.fromEntries(
    shown.map(([key, entry], index) => [
      key.length <= keyChars ? key : `${sliceText(key, 0, keyChars)}… ${from + index}`,
      shrink(entry, inner, { path: [...path, from + index], cuts, from: 0 }),
    ]),
  );
}

const WORD = /^[a-z_]{1,24}$/;
const WORDS_MAX = 12;

function tallyBy(
  list: readonly unknown[],
  field: 'status' | 'severity',
): Pick<ResultCut, 'by_status' | 'by_severity'> {
  const counts = new Map<string, number>();
  for (const entry of list) {
    const word = isObject(entry) ? entry[field] : undefined;
    if (typeof word !== 'string' || !WORD.test(word)) return {};
    counts.set(word, (counts.get(word) ?? 0) + 1);
    if (counts.size > WORDS_MAX) return {};
  }
  return counts.size === 0 ? {} : { [`by_${field}`]: Object.fromEntries(counts) };
}

/** Cuts a text, and never in the middle of a surrogate pair. */
function sliceText(text: string, from: number, length: number): string {
  const slice = text.slice(from, from + length);
  return slice.isWellFormed() ? slice : slice.replace(/[\ud800-\udbff]$/, '');
}

/** Options of a list of cuts. */
export interface CutListing {
  /** The value that the paths of the cuts lead into. */
  readonly value: unknown;
  /** Characters for all descriptions; at least one is always listed. */
  readonly charsMax: number;
  /** Returns the handle with which the caller can request this part. */
  readonly handleOf: (path: readonly number[]) => string | undefined;
}

/** Descriptions of cuts, as far as they fit. */
interface DescribedCuts {
  readonly listed: readonly Readonly<Record<string, unknown>>[];
  /** The number of cuts that aren't listed. */
  readonly left: number;
}

/** Describes the outermost cuts first, because everything else is within them. */
export function describeCuts(cuts: readonly ResultCut[], listing: CutListing): DescribedCuts {
  const { value, charsMax, handleOf } = listing;
  const ordered = cuts.toSorted((a, b) => a.path.length - b.path.length);
  const entries = ordered.map(({ path, ...cut }) => {
    const handle = handleOf(path);
    return {
      at: toText(namesOf(value, path)),
      ...cut,
      ...compact({ handle }),
    };
  });
  return listFitting(entries, charsMax);
}

/**
 * Describes cuts for a caller that can't request each part. The same field of many rows is described
 * once, with a `*` for each name that differs, and with the number of rows.
 */
export function groupCuts(
  cuts: readonly ResultCut[],
  value: unknown,
  charsMax: number,
): DescribedCuts {
  const named = cuts.map(({ path, ...cut }) => ({ ...cut, names: namesOf(value, path) }));
  const groups = Map.groupBy(named, ({ kind, names }) => {
    const [first = ''] = names;
    return [kind, names.length, first, names.at(-1)].join('\n');
  });
  const entries = [...groups.values()].map((group) => {
    const [{ names, ...cut }] = group as [(typeof group)[0]];
    if (group.length === 1) return { at: toText(names), ...cut };
    const isSame = (name: string, at: number): boolean =>
      group.every((other) => other.names[at] === name);
    const common = names.map((name, at) => (isSame(name, at) ? name : '*'));
    const longest = Math.max(...group.map(({ total }) => total));
    const { kind, shown } = cut;
    return { at: toText(common), kind, places: group.length, longest, shown };
  });
  return listFitting(entries, charsMax);
}

/** Lists as many entries as fit, and at least one. */
function listFitting(
  entries: readonly Readonly<Record<string, unknown>>[],
  charsMax: number,
): DescribedCuts {
  let chars = 0;
  const end = entries.findIndex((entry, index) => {
    chars += JSON.stringify(entry).length;
    return index > 0 && chars > charsMax;
  });
  const listed = end === -1 ? entries : entries.slice(0, end);
  return { listed, left: entries.length - listed.length };
}

const NAME_CHARS_MAX = 40;
const AT_CHARS_MAX = 120;

/** Formats a path for people and models: `/jobs/3/result`. */
function toText(names: readonly string[]): string {
  const text = names.map((name) => `/${toVisibleText(name).slice(0, NAME_CHARS_MAX)}`).join('');
  if (text.length > AT_CHARS_MAX) return `${text.slice(0, AT_CHARS_MAX)}…`;
  return text === '' ? '/' : text;
}

function namesOf(value: unknown, path: readonly number[]): string[] {
  let inner = value;
  return path.map((index) => {
    const name = isObject(inner) ? (Object.keys(inner)[index] ?? '') : String(index);
    inner = Object.values(inner ?? {})[index];
    return name;
  });
}
