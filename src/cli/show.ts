import { isObject } from '../base/json.ts';
import type { JsonOutput, Table } from '../operation/define.ts';
import { pickFields, readFieldNames } from '../operation/result/pick-fields.ts';
import type { ResultShape } from '../operation/schema.ts';
import type { CommandDefinition } from './commands.ts';
import { makePrinter, type OutputTarget, type Printer, showCell } from './print.ts';
import type { CommonFlags } from './host.ts';
import {
  rowsOf,
  showPairs,
  listProblems,
  withRealState,
  listOf,
  type ResultView,
} from './view-parts.ts';
import { configViews } from '../config/view.ts';
import { controlViews } from '../directive/view.ts';
import { doctorViews, showMetrics, showWhy } from '../insight/view.ts';
import {
  showCancel,
  showJobDetail,
  showLogs,
  showRetry,
  showCoreLog,
  showTree,
} from '../job/view.ts';
import { packageViews } from '../package/view.ts';
import { pipelineViews } from '../pipeline/view.ts';
import { showPlugin, showPlugins, showPluginRun, workshopViews } from '../plugin/view.ts';
import { showProof, showCheck, showStatus } from '../engine/view.ts';
import { runViews } from '../pipeline/run/run.view.ts';
import { signalViews } from '../signal/view.ts';
import { webhookViews } from '../webhook/view.ts';

/** Prints a result as text. */
export function showResult(
  { name, view: viewName = name, table, result }: CommandDefinition,
  output: JsonOutput,
  options: CommonFlags,
  io: OutputTarget,
): void {
  const printer = makePrinter(io, options);
  const view = views[viewName];
  if (output['dry_run'] === true) showPlan(output, printer);
  else if (options.fields !== undefined) showFields(result, output, options.fields, printer);
  else if (view !== undefined) view(output, printer);
  else if (table !== undefined) showTable(table, output, printer);
  else showPairs(output, printer);
}

/** Shows the named columns as a table, or the named fields as pairs. */
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

/** Renders a result as lines of text. */
export function renderResult(
  definition: CommandDefinition,
  output: JsonOutput,
  options: CommonFlags,
  paper: Omit<OutputTarget, 'stdout'>,
): string[] {
  let text = '';
  const { hasColors, isTTY, columns } = paper;
  showResult(definition, output, options, {
    hasColors,
    isTTY,
    columns,
    now: () => paper.now(),
    stdout: { write: (part: string) => (text += part) },
  });
  return text.trimEnd().split('\n');
}

/** Shows a table, and after it the problems of entries that are left out. */
function showTable(table: Table, output: JsonOutput, printer: Printer): void {
  printer.table(rowsOf(output[table.rows]).map(withRealState), table);
  if (output['truncated'] === true && table.truncated !== undefined) {
    printer.line(table.truncated);
  }
  listProblems(rowsOf(output['problems']), printer);
}

/** Returns 0 unless the operation judges its result as a failure. */
export async function findExitCode(
  { name, isJudged }: CommandDefinition,
  output: JsonOutput,
): Promise<number> {
  if (!isJudged || output['dry_run'] === true) return 0;
  const { operations } = await import('../operation/all.ts');
  const { cli } = operations.find((operation) => operation.name === name) ?? {};
  return cli === undefined || 'absent' in cli ? 0 : (cli.exitCode?.(output) ?? 0);
}

/** Views of results for which a table isn't enough. */

export const views: Readonly<Record<string, ResultView>> = {
  ...configViews,
  ...controlViews,
  ...doctorViews,
  ...runViews,
  ...packageViews,
  ...pipelineViews,
  ...signalViews,
  ...webhookViews,
  ...workshopViews,
  'system.status': showStatus,
  'system.check': showCheck,
  'system.logs': showCoreLog,
  'system.metrics': showMetrics,
  'system.prove': showProof,
  'plugin.list': showPlugins,
  'plugin.inspect': showPlugin,
  'plugin.run': showPluginRun,
  'job.wait': showPluginRun,
  'plugin.openapi': showDocument,
  'system.openapi': showDocument,
  'job.inspect': showJobDetail,
  'job.logs': showLogs,
  'job.cancel': showCancel,
  'job.retry': showRetry,
  'job.tree': showTree,
  'why.explain': showWhy,
};

/** A document for programs is shown as JSON. */
function showDocument(output: JsonOutput, printer: Printer): void {
  printer.json(output);
}

export function showPlan(output: JsonOutput, printer: Printer): void {
  for (const sentence of listOf(output['plan'])) printer.line(showCell(sentence));
  printer.line('Nothing was done.');
}
