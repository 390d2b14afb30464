import { styleText } from 'node:util';
import type { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { showEscapedBreaks, toVisibleText } from '../base/text.ts';
import { describeProblem, type Problem } from '../config/problem.ts';
import type { Table } from '../operation/define.ts';
import { digest } from '../operation/result/digest.ts';
import type { CliIo } from './host.ts';
import { repeatTargetInText } from './repeat-target.ts';
import { joinCells, layOut, isMoment, formatWhen } from './table.ts';

export type ResultRow = Readonly<Record<string, unknown>>;
export type Style = Parameters<typeof styleText>[0];

/** What is needed of a command line's surroundings to print. */
export type OutputTarget = Pick<CliIo, 'stdout' | 'hasColors' | 'isTTY' | 'columns' | 'now'>;

export interface PrinterOptions {
  readonly isVerbose?: boolean;
  /** As the terminal has them unless told. */
  readonly hasColors?: boolean;
  /** The words that named the installation, which suggested commands repeat. */
  readonly target?: readonly string[];
}

/** Writes for people: everything that comes from outside is escaped on its way. */
export class Printer {
  readonly isVerbose: boolean;
  readonly #io: OutputTarget;
  readonly #hasColors: boolean;
  readonly #target: readonly string[];

  constructor(
    io: OutputTarget,
    { isVerbose = false, hasColors = io.hasColors, target = [] }: PrinterOptions = {},
  ) {
    this.#target = target;
    this.#io = io;
    this.isVerbose = isVerbose;
    this.#hasColors = hasColors;
  }

  line(text = ''): void {
    this.#io.stdout.write(`${text}\n`);
  }

  /** A sentence of the command line with commands in backticks: they mean the same installation. */
  advise(text: string): void {
    this.line(repeatTargetInText(text, this.#target));
  }

  /** One document on one line, for whoever reads on. */
  jsonLine(value: unknown): void {
    this.line(toVisibleText(JSON.stringify(value)));
  }

  json(value: unknown): void {
    for (const line of JSON.stringify(value, undefined, 2).split('\n'))
      this.line(toVisibleText(line));
  }

  /** Labels and values, one pair on each line; pairs without a value are left out. */
  pairs(pairs: readonly (readonly [label: string, value: unknown])[]): void {
    const shown = pairs.filter(([, value]) => !isNothing(value));
    const width = Math.max(0, ...shown.map(([label]) => label.length));
    for (const [label, value] of shown) {
      const ago =
        this.#io.isTTY && isMoment(value) ? ` (${formatWhen(value, this.#io.now())})` : '';
      const text = this.tint(showCell(value));
      this.line(`${this.#paint('gray', label.padEnd(width))}  ${text}${ago}`);
    }
  }

  /** Several lines that somebody wrote, each on a line of its own under a title. */
  block(title: string, text: unknown): void {
    if (typeof text !== 'string' || text.trim() === '') return;
    this.line(this.#paint('gray', title));
    for (const line of text.trimEnd().split('\n')) this.line(`  ${toVisibleText(line)}`);
  }

  /** What says more about the line before it. */
  faint(text: string): string {
    return this.#paint('gray', text);
  }

  /** When something was, as a person wants to read it. */
  moment(value: unknown): string {
    return this.#cell(value);
  }

  title(text: string): void {
    this.line();
    this.line(this.#paint('bold', text));
  }

  table(rows: readonly ResultRow[], { columns, empty }: Omit<Table, 'rows'>): void {
    if (rows.length === 0) return this.line(empty);
    for (const line of this.tableLines(rows, columns)) this.line(line);
  }

  /** The title first, then one line for each row; on a terminal none is longer than it is wide. */
  tableLines(rows: readonly ResultRow[], columns: Table['columns']): string[] {
    const shown = columns.filter(([, , detail]) => detail === undefined || this.isVerbose);
    const titles = shown.map(([title]) => title);
    const cells = rows.map((row) => shown.map(([, field]) => this.#cell(row[field])));
    const width = this.#io.isTTY ? this.#io.columns : Infinity;
    return layOut([titles, ...cells], width).map((line, at) => {
      const paint = (cell: string): string =>
        at === 0 ? this.#paint('gray', cell) : this.tint(cell);
      return joinCells(line.map(paint));
    });
  }

  /** To a person, how long ago something was says more than when; `--verbose` gives the moment. */
  #cell(value: unknown): string {
    const isForPerson = this.#io.isTTY && !this.isVerbose;
    return isForPerson && isMoment(value) ? formatWhen(value, this.#io.now()) : showCell(value);
  }

  /** A word for a state in its colour; anything else as it is. */
  tint(cell: string): string {
    const style = styleOf(cell.trim());
    return style === undefined ? cell : this.#paint(style, cell);
  }

  #paint(style: Style, text: string): string {
    return this.#hasColors ? styleText(style, text, { validateStream: false }) : text;
  }
}

const statusStyles: Readonly<Record<string, Style>> = {
  succeeded: 'green',
  completed: 'green',
  passed: 'green',
  kept: 'green',
  ok: 'green',
  closed: 'green',
  half_open: 'yellow',
  open: 'red',
  requested: 'yellow',
  warning: 'yellow',
  warn: 'yellow',
  error: 'red',
  running: 'cyan',
  queued: 'yellow',
  paused: 'yellow',
  degraded: 'red',
  failed: 'red',
  timed_out: 'red',
  crashed: 'red',
  dead: 'red',
  broken: 'red',
  halted: 'red',
  cancelled: 'yellow',
  waiting: 'yellow',
  advancing: 'cyan',
  skipped: 'gray',
};

/** The colour of a word for a state. */
export function styleOf(word: string): Style | undefined {
  return statusStyles[word];
}

/** What went wrong, where, and what to do about it; standard output holds answers only. */
export function printError(error: DuctileError, io: CliIo, asJson: boolean): void {
  if (asJson) {
    // `error` is the sentence, as it is over HTTP; `message` is what most programs call it.
    const { error: sentence, code, ...rest } = error.toJSON();
    const told = { error: sentence, code, message: sentence, ...rest, exit_code: error.kind.exit };
    const { value } = digest(told, limits.resultBytes);
    io.stderr.write(`${toVisibleText(JSON.stringify(value))}\n`);
    return;
  }
  const lines = [
    ...listMessageLines(error),
    ...(error.place === undefined ? [] : [`where: ${error.place}`]),
    `to do: ${error.hint}`,
    `code:  ${error.code}`,
  ];
  for (const line of lines) io.stderr.write(`${toVisibleText(line)}\n`);
}

/** Several problems of one configuration are easier to read on a line each. */
function listMessageLines({ message, details }: DuctileError): string[] {
  const found = details?.['problems'];
  const problems = Array.isArray(found) ? (found as readonly Problem[]) : [];
  if (problems.length < 2) return [`error: ${message}`];
  const lines = problems.map((problem) => `  ${describeProblem(problem)}`);
  return [`error: The configuration has ${problems.length} problems:`, ...lines];
}

function isNothing(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value === null || value === undefined || value === '';
}

export function showCell(value: unknown): string {
  if (isNothing(value)) return '-';
  if (Array.isArray(value)) return value.map(showCell).join(', ');
  return typeof value === 'string'
    ? toVisibleText(value)
    : showEscapedBreaks(toVisibleText(JSON.stringify(value)));
}
