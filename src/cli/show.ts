import type { JsonOutput, Table } from '../operations/define.ts';
import type { CommandDefinition } from './commands.ts';
import { makePrinter } from './options.ts';
import type { Common } from './options.ts';
import type { Paper, Printer } from './print.ts';
import { rowsOf, showPairs, showProblems, withRealState } from './views/parts.ts';
import { showPlan, views } from './views.ts';

/** Prints an answer as it was asked for. */
export function show(
  { name, table }: CommandDefinition,
  output: JsonOutput,
  options: Common,
  io: Paper,
): void {
  const printer = makePrinter(io, options);
  if (options.json === true) printer.json(output);
  else if (output['dry_run'] === true) showPlan(output, printer);
  else if (name in views) views[name]?.(output, printer);
  else if (table !== undefined) showTable(table, output, printer);
  else showPairs(output, printer);
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
  const { operations } = await import('../operations/index.ts');
  const { cli } = operations.find((operation) => operation.name === name) ?? {};
  return cli === undefined || 'absent' in cli ? 0 : (cli.exitCode?.(output) ?? 0);
}
