import { formatDuration } from '../base/quantity.ts';
import type { JsonOutput } from '../operation/define.ts';
import { showCell, type Printer, type ResultRow } from '../cli/print.ts';
import {
  listOf,
  rowOf,
  rowsOf,
  showSection,
  listWaitingWork,
  listProblems,
  type ResultView,
} from '../cli/view-parts.ts';

export function showPlugins(output: JsonOutput, printer: Printer): void {
  const rows = rowsOf(output['plugins']).map((plugin) => ({
    ...plugin,
    commands: Object.entries(rowOf(plugin['types'])).map(
      ([name, type]) => `${name} (${showCell(type)})`,
    ),
  }));
  printer.table(rows, {
    columns: [
      ['NAME', 'name'],
      ['VERSION', 'version'],
      ['USES', 'uses', 'detail'],
      ['PARALLEL', 'parallelism'],
      ['COMMANDS', 'commands'],
      ['DESCRIPTION', 'description'],
    ],
    empty: 'There are no plugins.',
  });
  for (const { name, health, reason, enabled } of rows.map(rowOf)) {
    if (health === 'unhealthy') printer.advise(describeUnhealthy(name, reason));
    if (enabled === false) {
      printer.advise(
        `${showCell(name)} is disabled; run \`ductile plugin enable ${showCell(name)}\``,
      );
    }
  }
  const disabled = listOf(output['disabled']);
  if (disabled.length > 0) printer.line(`disabled: ${showCell(disabled)}`);
  for (const [name, keys] of Object.entries(rowOf(output['dormant']))) {
    printer.line(`${showCell(name)} is not set up yet; it needs ${showCell(keys)}`);
  }
  listProblems(rowsOf(output['problems']), printer);
  if (printer.isVerbose) listProblems(rowsOf(output['warnings']), printer);
}

/** Describes a plugin whose init failed. */
export function describeUnhealthy(plugin: unknown, reason: unknown): string {
  const name = showCell(plugin);
  return `the init of ${name} failed, and its jobs wait (${showCell(reason)}); run \`ductile plugin init ${name}\``;
}

export function showPlugin(output: JsonOutput, printer: Printer): void {
  const { commands, ...rest } = output;
  printer.pairs(Object.entries(rest));
  showSection(printer, 'Commands', commands, [
    ['NAME', 'name'],
    ['TYPE', 'type'],
    ['DESCRIPTION', 'description'],
  ]);
  if (!printer.isVerbose) return;
  for (const { name, input_schema } of rowsOf(commands)) {
    if (input_schema === undefined) continue;
    printer.title(`Input of ${showCell(name)}`);
    printer.json(input_schema);
  }
}

export function showPluginRun(output: JsonOutput, printer: Printer): void {
  const duration = output['duration_ms'];
  printer.pairs([
    ['job', output['job_id']],
    ['plugin', `${showCell(output['plugin'])} ${showCell(output['command'])}`],
    ['status', output['status']],
    ['reason', output['reason']],
    ['note', output['duplicate'] === true ? 'this job already existed; no job was added' : null],
    ['took', typeof duration === 'number' ? formatDuration(duration) : null],
    ['error', output['last_error']],
    ['result', output['result']],
  ]);
  if (printer.isVerbose || output['status'] !== 'succeeded')
    printer.block('stderr', output['stderr']);
  listWaitingWork(output, printer);
  if (output['timeout_exceeded'] === true) {
    printer.advise(`The job continues; see \`ductile job show ${showCell(output['job_id'])}\`.`);
  }
}

/** Views of commands that create and test plugins. */
export const workshopViews: Readonly<Record<string, ResultView>> = {
  'plugin.new': showCreated,
  'plugin.test': showTest,
};

function showCreated({ directory, files, enable, next }: JsonOutput, printer: Printer): void {
  printer.pairs([
    ['directory', directory],
    ['written', files],
  ]);
  printer.line();
  if (enable !== null) printer.line(showCell(enable));
  printer.line('Next steps:');
  for (const command of listOf(next)) printer.line(`  ${showCell(command)}`);
}

function showTest({ plugin, directory, findings }: JsonOutput, printer: Printer): void {
  const rows = rowsOf(findings);
  const wordWidth = Math.max(...rows.map(({ verdict }) => showCell(verdict).length));
  for (const row of rows) showFinding(row, wordWidth, printer);
  const count = (verdict: string): number =>
    rows.filter((row) => row['verdict'] === verdict).length;
  const verdicts = ['passed', 'failed', 'warning', 'hint', 'skipped'];
  const counts = verdicts.filter((verdict) => count(verdict) > 0);
  printer.line();
  const summary = counts.map((verdict) => `${count(verdict)} ${verdict}`).join(', ');
  printer.line(`${showCell(plugin ?? directory)}: ${summary}`);
}

function showFinding(row: ResultRow, width: number, printer: Printer): void {
  const { verdict, command, check, seen, means, mend } = row;
  const what = [command, check]
    .filter((word) => word !== null)
    .map(showCell)
    .join(' ');
  printer.line(`${printer.tint(showCell(verdict).padEnd(width))}  ${what}: ${showCell(seen)}`);
  const indent = ' '.repeat(width + 2);
  for (const text of [means, mend]) {
    if (text !== null) printer.line(`${indent}${printer.faint(showCell(text))}`);
  }
}
