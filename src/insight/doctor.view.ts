import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer, Row } from '../cli/print.ts';
import { listOf, rowOf, rowsOf, type View } from '../cli/view-parts.ts';

export const doctorViews: Readonly<Record<string, View>> = {
  'system.doctor': showDoctor,
  'incident.acknowledge': showAcknowledged,
};

/** What is wrong, what proves it, and the command to copy; the most urgent first. */
function showDoctor(output: JsonOutput, printer: Printer): void {
  const findings = rowsOf(output['findings']);
  // Of the files, notes after which nothing has to be done are for who wants to know all.
  const shown = findings.filter(
    (finding) => finding['severity'] !== 'info' || !isInFile(finding) || printer.isVerbose,
  );
  for (const finding of shown) showFinding(finding, printer);
  printer.line(
    shown.length === 0
      ? 'Nothing is wrong.'
      : describeCounts({ ...output, infos: shown.filter(isNote).length }),
  );
}

function isNote({ severity }: Row): boolean {
  return severity === 'info';
}

/** Findings in files are named by their category. */
function isInFile({ kind, category }: Row): boolean {
  return kind === category;
}

function showFinding(finding: Row, printer: Printer): void {
  const { severity, evidence, fix, since, why, place, key, message } = finding;
  // A finding in a file is about its key; the sentence of any other names its object.
  const name = isInFile(finding) && key !== '' ? `${showCell(key)} ` : '';
  printer.line(`${printer.tint(showCell(severity))}  ${name}${showCell(message)}`);
  const age = typeof since === 'string' ? ` (since ${printer.moment(since)})` : '';
  printer.line(`  ${printer.faint(`${showCell(evidence ?? place)}${age}`)}`);
  printer.line(`  ${showCell(fix)}`);
  const commands = listOf(finding['commands']).map(showCell);
  for (const command of commands) printer.line(`  $ ${command}`);
  const isExplained = commands.some((command) => command.startsWith('ductile why '));
  if (typeof why === 'string' && !isExplained) {
    printer.advise(`  To see why: \`ductile why ${showCell(why)}\`.`);
  }
  printer.line();
}

/** Says how much there is, in words. */
export function describeCounts(counts: JsonOutput | Row): string {
  const { errors, warnings, infos } = counts;
  const notes = infos === 0 ? '' : `, ${countOf(infos, 'note')}`;
  return `${countOf(errors, 'error')}, ${countOf(warnings, 'warning')}${notes}`;
}

function countOf(count: unknown, noun: string): string {
  return `${showCell(count)} ${noun}${count === 1 ? '' : 's'}`;
}

function showAcknowledged(output: JsonOutput, printer: Printer): void {
  const { finding } = rowOf(output);
  printer.line(`${showCell(finding)} is acknowledged. New ones are reported again.`);
}
