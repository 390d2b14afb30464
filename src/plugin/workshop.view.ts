/** Plugins that are being made: what was written, and how they did in their test. */
import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer, Row } from '../cli/print.ts';
import { listOf, rowsOf } from '../cli/view-parts.ts';
import type { View } from '../cli/view-parts.ts';

export const workshopViews: Readonly<Record<string, View>> = {
  'plugin.new': showMade,
  'plugin.test': showTrial,
};

function showMade({ directory, files, enable, next }: JsonOutput, printer: Printer): void {
  printer.pairs([
    ['directory', directory],
    ['written', files],
  ]);
  printer.line();
  if (enable !== null) printer.line(showCell(enable));
  printer.line('Go on with:');
  for (const command of listOf(next)) printer.line(`  ${showCell(command)}`);
}

function showTrial({ plugin, directory, findings }: JsonOutput, printer: Printer): void {
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

function showFinding(row: Row, width: number, printer: Printer): void {
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
