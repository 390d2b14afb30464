import { visible } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer, Row } from '../cli/print.ts';
import { rowOf, rowsOf } from '../cli/view-parts.ts';

/** Prints an attempt on one line, and below it the log entries of its response and its stderr. */
export function printAttempt(row: Row, printer: Printer): void {
  const { completed_at, plugin, command, job_id, attempt, status, cause, last_error, stderr } = row;
  const why = cause === 'ok' ? '' : ` (${showCell(cause)})`;
  const words = [completed_at, plugin, command, job_id, `#${showCell(attempt)}`].map(showCell);
  const error = typeof last_error === 'string' ? `  ${showCell(last_error)}` : '';
  printer.line(`${words.join(' ')} ${printer.tint(showCell(status))}${why}${error}`);
  for (const { level, message } of rowsOf(row['logs'])) {
    printer.line(`  ${printer.tint(showCell(level))} ${showCell(message)}`);
  }
  if (typeof stderr !== 'string' || stderr.trim() === '') return;
  for (const line of stderr.trimEnd().split('\n')) printer.line(`  | ${visible(line)}`);
}

/** One line of the log of the server. */
export function printCoreLine(row: Row, printer: Printer): void {
  const fields = Object.entries(rowOf(row['fields'])).map(
    ([name, value]) => ` ${showCell(name)}=${showCell(value)}`,
  );
  const { timestamp, level, component, message } = row;
  const head = `${showCell(timestamp)} ${printer.tint(showCell(level))} ${showCell(component)}`;
  printer.line(`${head}  ${showCell(message)}${fields.join('')}`);
}

export function showCoreLog(output: JsonOutput, printer: Printer): void {
  for (const row of rowsOf(output['logs'])) printCoreLine(row, printer);
}
