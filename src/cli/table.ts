import { fromTimestamp } from '../base/clock.ts';

export const GAP = '  ';
const FLEXIBLE_MIN = 8;
const COLUMN_MIN = 1;
/**
 * The time of an id and the counter of its process, `0199a1b2-c3d4-7e5f`: a process creates it
 * once. So the short form is unique among jobs, runs, signals and everything else that has an id.
 */
const SHORT_ID_CHARS = 18;

/**
 * Aligns cells in columns. With a width, no line is longer: the last column is cut first, then ids
 * are shortened as far as they stay unique, then the widest columns are cut.
 */
export function layOut(lines: readonly (readonly string[])[], width = Infinity): string[][] {
  const count = lines[0]?.length ?? 0;
  const naturals = (rows: readonly (readonly string[])[]): number[] =>
    Array.from({ length: count }, (_, at) =>
      Math.max(0, ...rows.map((row) => widthOf(row[at] ?? ''))),
    );
  let rows = lines.map((line) => [...line]);
  let widths = shrinkLast(naturals(rows), width);
  if (total(widths) > width) {
    rows = shortenIds(rows);
    widths = shrinkWidest(shrinkLast(naturals(rows), width), width);
  }
  return rows.map((row) =>
    row.map((cell, at) => {
      const columnWidth = widths[at] ?? 0;
      return at === count - 1 ? cut(cell, columnWidth) : fitText(cell, columnWidth);
    }),
  );
}

export function joinCells(cells: readonly string[]): string {
  return cells.join(GAP).trimEnd();
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
}

function shrinkLast(widths: readonly number[], width: number): number[] {
  const over = total(widths) - width;
  const last = widths.at(-1) ?? 0;
  if (over <= 0) return [...widths];
  return [...widths.slice(0, -1), Math.max(Math.min(last, FLEXIBLE_MIN), last - over)];
}

function shrinkWidest(given: readonly number[], width: number): number[] {
  const widths = [...given];
  while (total(widths) > width) {
    const widest = Math.max(...widths);
    if (widest <= COLUMN_MIN) break;
    widths[widths.indexOf(widest)] = widest - 1;
  }
  return widths;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Shortens ids as far as they stay unique; a short id is accepted wherever the whole one is. */
function shortenIds(rows: readonly string[][]): string[][] {
  const [titles = [], ...others] = rows;
  const lengths = titles.map((_, at) => {
    const ids = new Set(others.map((row) => row[at] ?? '').filter((cell) => uuid.test(cell)));
    return ids.size === 0 ? undefined : shortestUnique([...ids]);
  });
  const shorten = (row: readonly string[]): string[] =>
    row.map((cell, at) => (uuid.test(cell) ? cell.slice(0, lengths[at]) : cell));
  return [titles, ...others.map(shorten)];
}

function shortestUnique(ids: readonly string[]): number {
  for (let length = SHORT_ID_CHARS; ; length += 1) {
    if (new Set(ids.map((id) => id.slice(0, length))).size === ids.length) return length;
  }
}

/** Counts the terminal columns of a text. */
export function widthOf(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segmenter().segment(text)) width += segmentWidth(segment);
  return width;
}

/** Cuts a text with an ellipsis, or pads it, to a number of columns. */
export function fitText(text: string, columns: number): string {
  const width = widthOf(text);
  return width > columns ? cut(text, columns) : text + ' '.repeat(columns - width);
}

/** Cuts a text to at most so many columns. */
export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let kept = '';
  let width = 0;
  for (const { segment } of segmenter().segment(text)) {
    width += segmentWidth(segment);
    if (width > columns - 1) break;
    kept += segment;
  }
  return columns > 0 ? `${kept}…` : '';
}

/** Wraps a text; lines after the first are indented. */
export function wrap(text: string, columns: number): string[] {
  if (widthOf(text) <= columns) return [text];
  const lines: string[] = [];
  let kept = '';
  let width = 0;
  for (const { segment } of segmenter().segment(text)) {
    const more = segmentWidth(segment);
    if (width + more > columns && width > INDENT.length) {
      lines.push(kept);
      kept = INDENT;
      width = INDENT.length;
    }
    kept += segment;
    width += more;
  }
  return [...lines, kept];
}

const INDENT = '  ';
const plain = /^[\x20-\x7e…]*$/;
// East Asian scripts and most emoji take two columns; combining marks take none.
const wide = new RegExp(
  [
    String.raw`[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff]`,
    String.raw`[\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\ufe0f]`,
    String.raw`[\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]`,
    String.raw`\p{Emoji_Presentation}`,
  ].join('|'),
  'u',
);
const unseen = /^[\p{M}\p{Cf}]+$/u;

function segmentWidth(segment: string): number {
  if (unseen.test(segment)) return 0;
  return wide.test(segment) ? 2 : 1;
}

let made: Intl.Segmenter | undefined;

/** Returns the segmenter, which is created on first use: that takes longer than most tables. */
function segmenter(): Intl.Segmenter {
  return (made ??= new Intl.Segmenter('en', { granularity: 'grapheme' }));
}

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** True for a timestamp in the product's format. */
export function isMoment(value: unknown): value is string {
  return typeof value === 'string' && timestamp.test(value);
}

const units = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
] as const;

/** Formats how long ago a time was, or how long it is until then, in one unit. */
export function formatWhen(moment: string, nowMs: number): string {
  const ms = nowMs - fromTimestamp(moment);
  const distance = Math.abs(ms);
  for (const [size, name] of units) {
    if (distance < size) continue;
    const count = `${Math.floor(distance / size)}${name}`;
    return ms < 0 ? `in ${count}` : `${count} ago`;
  }
  return 'now';
}

/** Formats a time as wall-clock time. */
export function formatTimeOfDay(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 'hh:mm:ss'.length);
}
