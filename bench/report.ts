import { isMet, ratioOf, type Line } from './frame.ts';

export interface Cells {
  /** Row id and arm; a later run replaces the line with the same key. */
  readonly key: string;
  readonly cells: readonly string[];
}

export const columns = ['#', 'what', 'arm', 'base', 'ratio', 'goal', 'met', 'medians: arm, base'];

export function toCells(line: Line): Cells {
  const { row } = line;
  return {
    key: `${row.id} ${line.arm}`,
    cells: [
      row.id,
      row.title,
      line.arm,
      row.base,
      formatRatio(line),
      formatGoal(line),
      formatMet(line),
      `${formatMedian(line.armMedian)}, ${formatMedian(line.baseMedian)} ${row.unit}`,
    ],
  };
}

/** Formats rows for a terminal, with aligned columns. */
export function toText(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((cells) => cells[at]?.length ?? 0)),
  );
  return rows
    .map((cells) =>
      cells
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function formatRatio(line: Line): string {
  const ratio = ratioOf(line);
  if (ratio === undefined) return `not measured: ${line.reason ?? 'no repetition had both'}`;
  const least = Math.min(...line.ratios).toFixed(2);
  const most = Math.max(...line.ratios).toFixed(2);
  return `${ratio.toFixed(2)} (${least}–${most}, ${line.ratios.length} ×)`;
}

function formatGoal({ row, judged }: Line): string {
  if (!judged || row.goal === undefined) return '';
  return `${row.better === 'higher' ? '≥' : '≤'} ${row.goal}`;
}

function formatMet(line: Line): string {
  const met = isMet(line);
  if (met === undefined) return line.judged && line.row.goal !== undefined ? '?' : '';
  return met ? 'yes' : 'NO';
}

function formatMedian(value: number | undefined): string {
  if (value === undefined) return '–';
  return value >= 100
    ? Math.round(value).toLocaleString('en-US')
    : value.toLocaleString('en-US', { maximumSignificantDigits: 3 });
}
