import { cut, fitText, widthOf } from './width.ts';

export const GAP = '  ';
const FLEXIBLE_MIN = 8;
const COLUMN_MIN = 1;
/**
 * The time of an id and the counter of its process, `0199a1b2-c3d4-7e5f`: a process gives it once. So
 * the short form names one thing among jobs, runs, signals and everything else that has an id.
 */
const SHORT_ID_CHARS = 18;

/**
 * Lines of cells in columns. With a width, no line is longer: the last column gives way first, then
 * ids lose what the rows do not need to be told apart, then the widest columns are cut.
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
      const room = widths[at] ?? 0;
      return at === count - 1 ? cut(cell, room) : fitText(cell, room);
    }),
  );
}

export function joinCells(cells: readonly string[]): string {
  return cells.join(GAP).trimEnd();
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
}

function shrinkLast(widths: readonly number[], room: number): number[] {
  const over = total(widths) - room;
  const last = widths.at(-1) ?? 0;
  if (over <= 0) return [...widths];
  return [...widths.slice(0, -1), Math.max(Math.min(last, FLEXIBLE_MIN), last - over)];
}

function shrinkWidest(given: readonly number[], room: number): number[] {
  const widths = [...given];
  while (total(widths) > room) {
    const widest = Math.max(...widths);
    if (widest <= COLUMN_MIN) break;
    widths[widths.indexOf(widest)] = widest - 1;
  }
  return widths;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The beginning of an id is accepted wherever the id is. */
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
