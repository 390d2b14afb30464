import { styleText } from 'node:util';
import type { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { showEscapedBreaks, toVisibleText } from '../base/text.ts';
import { describeProblem, type Problem } from '../config/problem.ts';
import type { Table } from '../operation/define.ts';
import { digest } from '../operation/result/digest.ts';
import type { CliIo, CommonFlags } from './host.ts';
import { repeatTargetInText } from './repeat-target.ts';
import { joinCells, layOut, isMoment, formatWhen } from './table.ts';

export type ResultRow = Readonly<Record<string, unknown>>;
export type Style = Parameters<typeof styleText>[0];

/** Properties of the terminal that a printer needs. */
export type OutputTarget = Pick<CliIo, 'stdout' | 'hasColors' | 'isTTY' | 'columns' | 'now'>;

interface PrinterOptions {
  readonly isVerbose?: boolean;
  /** Colors (default: those of the terminal). */
  readonly hasColors?: boolean;
  /** Arguments that named the installation; suggested commands repeat them. */
  readonly target?: readonly string[];
}

/** Creates the printer of a command from its flags. */
export function makePrinter(io: OutputTarget, options: CommonFlags): Printer {
  const { verbose = false, color = true, config, url } = options;
  const target = [
    ...(config === undefined ? [] : ['--config', config]),
    ...(url === undefined ? [] : ['--url', url]),
  ];
  return new Printer(io, { isVerbose: verbose, hasColors: io.hasColors && color, target });
}

/** Prints text for people; everything from outside is escaped. */
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

  /** True if a person reads the text at a terminal. */
  get isTerminal(): boolean {
    return this.#io.isTTY;
  }

  line(text = ''): void {
    this.#io.stdout.write(`${text}\n`);
  }

  /**
   * Prints a sentence with commands in backticks; the commands get the arguments that name the
   * installation.
   */
  advise(text: string): void {
    this.line(repeatTargetInText(text, this.#target));
  }

  /** Prints one document on one line. */
  jsonLine(value: unknown): void {
    this.line(toVisibleText(JSON.stringify(value)));
  }

  json(value: unknown): void {
    for (const line of JSON.stringify(value, undefined, 2).split('\n'))
      this.line(toVisibleText(line));
  }

  /** Prints labels and values, one pair per line; pairs without a value are left out. */
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

  /** Prints a text of several lines below a title. */
  block(title: string, text: unknown): void {
    if (typeof text !== 'string' || text.trim() === '') return;
    this.line(this.#paint('gray', title));
    for (const line of text.trimEnd().split('\n')) this.line(`  ${toVisibleText(line)}`);
  }

  /** Dims text that explains the line before it. */
  faint(text: string): string {
    return this.#paint('gray', text);
  }

  /** Formats a time for people. */
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

  /** Returns the title and one line for each row; on a terminal no line is wider than it. */
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

  /** Shows times as ages; `--verbose` shows the time itself. */
  #cell(value: unknown): string {
    const isForPerson = this.#io.isTTY && !this.isVerbose;
    return isForPerson && isMoment(value) ? formatWhen(value, this.#io.now()) : showCell(value);
  }

  /** Colors a status word; returns anything else as it is. */
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

/** Finds the color of a status word. */
export function styleOf(word: string): Style | undefined {
  return statusStyles[word];
}

/**
 * Prints an error, its location and its fix to standard error; standard output holds results only.
 */
export function printError(error: DuctileError, io: CliIo, asJson: boolean): void {
  if (asJson) {
    // `error` is the sentence, as in the API; `message` is the name that most programs expect.
    const { error: sentence, code, ...rest } = error.toJSON();
    const { docs, kind } = error;
    const shown = { error: sentence, code, message: sentence, ...rest, exit_code: kind.exit, docs };
    const { value } = digest(shown, limits.resultBytes);
    io.stderr.write(`${toVisibleText(JSON.stringify(value))}\n`);
    return;
  }
  const lines = [
    ...listMessageLines(error),
    ...(error.place === undefined ? [] : [`where: ${error.place}`]),
    `to do: ${error.hint}`,
    `code:  ${error.code}`,
    `more:  ductile docs errors#${error.code}`,
  ];
  for (const line of lines) io.stderr.write(`${toVisibleText(line)}\n`);
}

/** Lists several problems of one configuration on a line each. */
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
