import { isObject } from '../base/json.ts';
import type { JsonOutput, Table } from '../operation/define.ts';
import { pickFields, readFieldNames } from '../operation/result/pick-fields.ts';
import type { ResultShape } from '../operation/result/result-shape.ts';
import type { CommandDefinition } from './commands.ts';
import { makePrinter } from './options.ts';
import type { Common } from './host.ts';
import type { Paper, Printer } from './print.ts';
import { rowsOf, showPairs, showProblems, withRealState } from './view-parts.ts';
import { showPlan, views } from './views.ts';

/** Prints a result for people. */
export function show(
  { name, table, result }: CommandDefinition,
  output: JsonOutput,
  options: Common,
  io: Paper,
): void {
  const printer = makePrinter(io, options);
  if (output['dry_run'] === true) showPlan(output, printer);
  else if (options.fields !== undefined) showFields(result, output, options.fields, printer);
  else if (name in views) views[name]?.(output, printer);
  else if (table !== undefined) showTable(table, output, printer);
  else showPairs(output, printer);
}

/** The columns that were named as a table, or the fields that were named as pairs. */
function showFields(shape: ResultShape, output: JsonOutput, given: string, printer: Printer): void {
  const names = readFieldNames(given);
  const picked = pickFields(output, names, shape);
  const rows = shape.rows === undefined ? undefined : picked[shape.rows.field];
  const columns = names.filter((name) => shape.rows?.columns.includes(name.split('.')[0] ?? ''));
  if (!Array.isArray(rows) || columns.length === 0) return showPairs(picked, printer);
  printer.table(
    rowsOf(rows).map((row) =>
      Object.fromEntries(columns.map((name) => [name, findAt(row, name.split('.'))])),
    ),
    { columns: columns.map((name) => [name.toUpperCase(), name]), empty: 'No results.' },
  );
}

function findAt(value: unknown, [first, ...rest]: readonly string[]): unknown {
  if (first === undefined) return value;
  if (Array.isArray(value)) return value.map((entry) => findAt(entry, [first, ...rest]));
  return isObject(value) ? findAt(value[first], rest) : undefined;
}

/** The same as lines, to be put somewhere else. */
export function render(
  definition: CommandDefinition,
  output: JsonOutput,
  options: Common,
  paper: Omit<Paper, 'stdout'>,
): string[] {
  let text = '';
  const { hasColors, isTTY, columns } = paper;
  show(definition, output, options, {
    hasColors,
    isTTY,
    columns,
    now: () => paper.now(),
    stdout: { write: (part: string) => (text += part) },
  });
  return text.trimEnd().split('\n');
}

/** What was left out of the list for its faults is told behind it. */
function showTable(table: Table, output: JsonOutput, printer: Printer): void {
  printer.table(rowsOf(output[table.rows]).map(withRealState), table);
  if (output['truncated'] === true && table.truncated !== undefined) {
    printer.line(table.truncated);
  }
  showProblems(rowsOf(output['problems']), printer);
}

/** 0 unless the answer is bad news, which the operation itself knows best. */
export async function judge(
  { name, isJudged }: CommandDefinition,
  output: JsonOutput,
): Promise<number> {
  if (!isJudged || output['dry_run'] === true) return 0;
  const { operations } = await import('../operation/all.ts');
  const { cli } = operations.find((operation) => operation.name === name) ?? {};
  return cli === undefined || 'absent' in cli ? 0 : (cli.exitCode?.(output) ?? 0);
}
