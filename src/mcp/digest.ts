import { ExactNumber } from '../base/exact-number.ts';

/** A part of an answer that is not shown, or not all of it. */
export interface Cut {
  /** Which entry of which entry: places, and no names, since those may be anybody's text. */
  readonly path: readonly number[];
  readonly kind: 'list' | 'object' | 'text';
  /** Entries, or characters. */
  readonly total: number;
  readonly shown: number;
  /** Of a list whose entries have a status: how many have which. */
  readonly by_status?: Readonly<Record<string, number>>;
}

export interface Digest {
  readonly value: unknown;
  readonly cuts: readonly Cut[];
}

/** How much is shown of a list or an object, of a text, and how deep. */
interface Size {
  readonly entries: number;
  readonly chars: number;
  readonly depth: number;
}

const DEEP = 64;

/** Long texts are cut first, then lists, and depth at last. */
const SIZES: readonly Size[] = [
  { entries: 5000, chars: 4000, depth: DEEP },
  { entries: 1000, chars: 1000, depth: DEEP },
  { entries: 200, chars: 400, depth: DEEP },
  { entries: 100, chars: 200, depth: DEEP },
  { entries: 50, chars: 200, depth: DEEP },
  { entries: 35, chars: 200, depth: DEEP },
  { entries: 25, chars: 120, depth: DEEP },
  { entries: 15, chars: 120, depth: 8 },
  { entries: 10, chars: 100, depth: 6 },
  { entries: 5, chars: 80, depth: 6 },
  { entries: 3, chars: 80, depth: 5 },
  { entries: 2, chars: 60, depth: 4 },
  { entries: 40, chars: 60, depth: 1 },
  { entries: 10, chars: 40, depth: 1 },
  { entries: 1, chars: 20, depth: 1 },
  { entries: 0, chars: 20, depth: 0 },
];

/** The fields of a row are worth more than one more row. */
const FIELDS_PER_ENTRY = 8;
const KEY_CHARS = { min: 40, max: 100 };

/**
 * As much of a value as fits into so many characters of JSON, always the same for the same value. Of
 * what is cut the beginning is shown, and told how much there is. The first entries, or characters of
 * a text, are left out when `from` says so.
 */
export function digest(value: unknown, chars: number, from = 0): Digest {
  if (typeof value === 'string') return digestText(value, chars, from);
  let last: Digest = { value: null, cuts: [] };
  for (const size of SIZES) {
    const cuts: Cut[] = [];
    last = { value: shrink(value, size, { path: [], cuts, from }), cuts };
    if (JSON.stringify(last.value).length <= chars) return last;
  }
  return last;
}

function digestText(text: string, chars: number, from: number): Digest {
  for (let length = chars; ; length = Math.floor(length / 2)) {
    const value = sliceText(text, from, length);
    if (JSON.stringify(value).length > chars) continue;
    const isWhole = from + value.length >= text.length;
    const cut: Cut = { path: [], kind: 'text', total: text.length, shown: value.length };
    return { value, cuts: isWhole ? [] : [cut] };
  }
}

interface Place {
  readonly path: readonly number[];
  readonly cuts: Cut[];
  /** Entries of the outermost list or object that are left out. */
  readonly from: number;
}

function shrink(value: unknown, size: Size, place: Place): unknown {
  if (typeof value === 'string') return shrinkText(value, size, place);
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) return value;
  return Array.isArray(value)
    ? shrinkList(value, size, place)
    : shrinkObject(value as Readonly<Record<string, unknown>>, size, place);
}

function shrinkText(text: string, { chars }: Size, { path, cuts }: Place): string {
  if (text.length <= chars) return text;
  const shown = sliceText(text, 0, chars);
  cuts.push({ path, kind: 'text', total: text.length, shown: shown.length });
  return `${shown}…`;
}

function shrinkList(list: readonly unknown[], size: Size, place: Place): unknown[] {
  const { path, cuts, from } = place;
  const count = size.depth > 0 ? size.entries : 0;
  const shown = list.slice(from, from + count);
  if (from + shown.length < list.length) {
    const tally = tallyOf(list);
    const cut: Cut = { path, kind: 'list', total: list.length, shown: shown.length };
    cuts.push(tally === undefined ? cut : { ...cut, by_status: tally });
  }
  const inner = { ...size, depth: size.depth - 1 };
  return shown.map((entry, index) =>
    shrink(entry, inner, { path: [...path, from + index], cuts, from: 0 }),
  );
}

function shrinkObject(
  object: Readonly<Record<string, unknown>>,
  size: Size,
  { path, cuts, from }: Place,
): Record<string, unknown> {
  const entries = Object.entries(object);
  const count = size.depth > 0 ? size.entries * FIELDS_PER_ENTRY : 0;
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

const STATUS = /^[a-z_]{1,24}$/;
const STATUSES_MAX = 12;

function tallyOf(list: readonly unknown[]): Record<string, number> | undefined {
  const counts = new Map<string, number>();
  for (const entry of list) {
    const status: unknown =
      typeof entry === 'object' && entry !== null && 'status' in entry ? entry.status : undefined;
    if (typeof status !== 'string' || !STATUS.test(status)) return undefined;
    counts.set(status, (counts.get(status) ?? 0) + 1);
    if (counts.size > STATUSES_MAX) return undefined;
  }
  return counts.size === 0 ? undefined : Object.fromEntries(counts);
}

/** Never half of a sign that takes two places. */
function sliceText(text: string, from: number, length: number): string {
  const slice = text.slice(from, from + length);
  return slice.isWellFormed() ? slice : slice.replace(/[\ud800-\udbff]$/, '');
}
