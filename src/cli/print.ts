import { styleText } from 'node:util';
import type { DuctileError } from '../base/errors.ts';
import { visible } from '../base/text.ts';
import type { Table } from '../operations/define.ts';
import type { CliIo } from './host.ts';

export type Row = Readonly<Record<string, unknown>>;
type Style = Parameters<typeof styleText>[0];

/** Writes for people: everything that comes from outside is escaped on its way. */
export class Printer {
  readonly isVerbose: boolean;
  readonly #io: CliIo;

  constructor(io: CliIo, isVerbose: boolean) {
    this.#io = io;
    this.isVerbose = isVerbose;
  }

  line(text = ''): void {
    this.#io.stdout.write(`${text}\n`);
  }

  json(value: unknown): void {
    for (const line of JSON.stringify(value, undefined, 2).split('\n')) this.line(visible(line));
  }

  /** Labels and values, one pair on each line; pairs without a value are left out. */
  pairs(pairs: readonly (readonly [label: string, value: unknown])[]): void {
    const shown = pairs.filter(
      ([, value]) => value !== null && value !== undefined && value !== '',
    );
    const width = Math.max(0, ...shown.map(([label]) => label.length));
    for (const [label, value] of shown) {
      this.line(`${this.#paint('gray', label.padEnd(width))}  ${this.#tint(showCell(value))}`);
    }
  }

  /** Several lines that somebody wrote, each on a line of its own under a title. */
  block(title: string, text: unknown): void {
    if (typeof text !== 'string' || text.trim() === '') return;
    this.line(this.#paint('gray', title));
    for (const line of text.trimEnd().split('\n')) this.line(`  ${visible(line)}`);
  }

  title(text: string): void {
    this.line();
    this.line(this.#paint('bold', text));
  }

  table(rows: readonly Row[], { columns, empty }: Omit<Table, 'rows'>): void {
    if (rows.length === 0) return this.line(empty);
    const shown = columns.filter(([, , detail]) => detail === undefined || this.isVerbose);
    const cells = rows.map((row) => shown.map(([, field]) => showCell(row[field])));
    const widths = shown.map(([title], at) =>
      Math.max(title.length, ...cells.map((row) => row[at]?.length ?? 0)),
    );
    const titles = this.#fit(
      shown.map(([title]) => title),
      widths,
    );
    this.line(
      titles
        .map((title) => this.#paint('gray', title))
        .join('  ')
        .trimEnd(),
    );
    for (const row of cells) {
      const fitted = this.#fit(row, widths);
      this.line(
        fitted
          .map((cell) => this.#tint(cell))
          .join('  ')
          .trimEnd(),
      );
    }
  }

  /** Pads all cells; on a terminal the last one is cut where the line would break. */
  #fit(cells: readonly string[], widths: readonly number[]): string[] {
    const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
    const room = this.#io.isTTY && !this.isVerbose ? this.#io.columns - before : Infinity;
    return cells.map((cell, at) => {
      const isLast = at === cells.length - 1;
      if (!isLast) return cell.padEnd(widths[at] ?? 0);
      return cell.length > room && room > 1 ? `${cell.slice(0, room - 1)}…` : cell;
    });
  }

  #tint(cell: string): string {
    const style = statusStyles[cell.trim()];
    return style === undefined ? cell : this.#paint(style, cell);
  }

  #paint(style: Style, text: string): string {
    return this.#io.hasColors ? styleText(style, text, { validateStream: false }) : text;
  }
}

const statusStyles: Readonly<Record<string, Style>> = {
  succeeded: 'green',
  running: 'cyan',
  queued: 'yellow',
  paused: 'yellow',
  degraded: 'red',
  failed: 'red',
  timed_out: 'red',
  crashed: 'red',
  dead: 'red',
};

/** What went wrong, where, and what to do about it. */
export function printError(error: DuctileError, io: CliIo, asJson: boolean): void {
  if (asJson) {
    io.stderr.write(`${visible(JSON.stringify(error))}\n`);
    return;
  }
  const lines = [
    `error: ${error.message}`,
    ...(error.place === undefined ? [] : [`where: ${error.place}`]),
    `to do: ${error.hint}`,
    `code:  ${error.code}`,
  ];
  for (const line of lines.join('\n').split('\n')) io.stderr.write(`${visible(line)}\n`);
}

export function showCell(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-';
  if (Array.isArray(value)) return value.map(showCell).join(', ');
  return visible(typeof value === 'string' ? value : JSON.stringify(value));
}
