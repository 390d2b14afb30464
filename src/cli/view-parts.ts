import { isObject } from '../base/json.ts';
import type { JsonOutput, Table } from '../operation/define.ts';
import { showCell } from './print.ts';
import type { Printer, ResultRow } from './print.ts';

/** Shows a result as text. */
export type ResultView = (output: JsonOutput, printer: Printer) => void;

export function showSection(
  printer: Printer,
  title: string,
  value: unknown,
  columns: Table['columns'],
): void {
  const rows = rowsOf(value);
  if (rows.length === 0) return;
  printer.title(title);
  printer.table(rows, { columns, empty: '' });
}

/** Lists the jobs and runs that were started. */
export function listStartedWork(output: JsonOutput, printer: Printer): void {
  showSection(printer, 'Jobs', output['jobs'], [
    ['ID', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
    ['STATUS', 'status'],
    ['BY', 'submitted_by'],
  ]);
  showSection(printer, 'Runs', output['runs'], [
    ['ID', 'run_id'],
    ['PIPELINE', 'pipeline'],
    ['STATUS', 'status'],
    ['BY', 'submitted_by'],
  ]);
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function rowOf(value: unknown): ResultRow {
  return isObject(value) || Array.isArray(value) ? (value as unknown as ResultRow) : {};
}

/** Reads the rows in a field of a result. */
export function rowsOf(value: unknown): readonly ResultRow[] {
  return listOf(value).map(rowOf);
}

/**
 * Replaces the status of a job, a run or a schedule with its real state, and describes what it
 * waits for. JSON has the fields themselves.
 */
export function withRealState(row: ResultRow): ResultRow {
  const { status, waiting_for: waiting, retried_as: retried, held_by: held } = row;
  if (isObject(held)) return { ...row, held_by: rowOf(held)['message'] };
  if (isObject(waiting)) {
    return { ...row, status: 'waiting', waiting_for: formatWaiting(rowOf(waiting)) };
  }
  if (typeof retried === 'string') return { ...row, status: `${showCell(status)}, retried` };
  return row;
}

/** Describes in a few words what a run waits for. */
function formatWaiting({ kind, step, message, until }: ResultRow): string {
  const what = isText(message) ? `${showCell(kind)} ${showCell(message)}` : showCell(kind);
  const where = isText(step) ? ` at ${showCell(step)}` : '';
  return `${what}${where}${isText(until) ? ` until ${showCell(until)}` : ''}`;
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/** Shows every field by its name. */
export function showPairs(output: JsonOutput, printer: Printer): void {
  printer.pairs(Object.entries(output).map(([name, value]) => [name.replaceAll('_', ' '), value]));
}

/** Lists work that can't continue without a service, and says when it continues. */
export function listWaitingWork({ waiting, message }: JsonOutput, printer: Printer): void {
  if (waiting === undefined) return;
  showSection(printer, 'Waiting', waiting, [
    ['WHAT', 'name'],
    ['STEP', 'step'],
    ['WHY', 'why'],
    ['UNTIL', 'until'],
    ['JOB', 'job_id', 'detail'],
    ['RUN', 'run_id', 'detail'],
  ]);
  printer.line();
  printer.advise(showCell(message));
}

export function listProblems(problems: readonly ResultRow[], printer: Printer): void {
  if (problems.length > 0) printer.title('Problems');
  for (const { plugin, place, message, hint } of problems) {
    const name = plugin === null ? '' : `${showCell(plugin)}: `;
    printer.line(`${name}${showCell(message)}`);
    printer.line(`  ${showCell(place)}${hint === null ? '' : `. ${showCell(hint)}`}`);
  }
}
