import type { JsonOutput } from '../operation/define.ts';
import { showCell, type Printer, type ResultRow } from '../cli/print.ts';
import { listOf, rowsOf, rowOf, type ResultView } from '../cli/view-parts.ts';
import { toVisibleText } from '../base/text.ts';
import { doctorParts } from './finding.ts';
import { formatMetrics } from './metrics.service.ts';

/** Shows the verdict, the chain of causes, and the commands that help. */
export function showWhy(output: JsonOutput, printer: Printer): void {
  const { kind, id, state, verdict, moves_at: movesAt, moves_by: movesBy } = output;
  printer.line(`${showCell(kind)} ${showCell(id)}  ${printer.tint(showCell(state))}`);
  printer.line();
  printer.line(showCell(verdict));
  // The verdict is the first fact as a sentence.
  const [first, ...others] = rowsOf(output['chain']);
  if (first !== undefined) printer.line(formatEvidence(first, printer));
  const blockers = rowsOf(output['blockers']);
  // For something that waits, the first blocker is the verdict, and the chain begins with all
  // blockers.
  const isWaiting = blockers[0]?.['fact'] === first?.['fact'];
  const isListed = isWaiting ? blockers.length > 1 : blockers.length > 0;
  if (isListed) showBlockers(blockers, printer);
  showChain(isListed && isWaiting ? others.slice(blockers.length - 1) : others, printer);
  if (movesAt !== null || movesBy !== null) {
    printer.line();
    printer.pairs([
      ['moves at', movesAt],
      ['moves by', movesBy],
    ]);
  }
  const commands = listOf(output['commands']).map(String);
  if (commands.length === 0) return;
  printer.line();
  for (const command of commands) printer.line(`  $ ${showCell(command)}`);
}

/** Lists the blockers in the order of repair. */
function showBlockers(blockers: readonly ResultRow[], printer: Printer): void {
  printer.title('Blockers, in the order of repair:');
  for (const [index, row] of blockers.entries()) {
    printer.line(`  ${index + 1}. ${showCell(row['fact'])}`);
    printer.line(`     ${formatEvidence(row, printer)}`);
    for (const command of listOf(row['commands']).slice(0, 1)) {
      printer.line(`     $ ${showCell(command)}`);
    }
  }
}

/** Lists the chain of causes: each fact was caused by the one below it. */
function showChain(chain: readonly ResultRow[], printer: Printer): void {
  if (chain.length === 0) return;
  printer.line();
  for (const row of chain) {
    printer.line(`  ← ${showCell(row['fact'])}`);
    printer.line(`    ${formatEvidence(row, printer)}`);
  }
}

function formatEvidence({ evidence, at }: ResultRow, printer: Printer): string {
  const when = at === undefined ? '' : `, ${printer.moment(at)}`;
  return printer.faint(`${showCell(evidence)}${when}`);
}

export const doctorViews: Readonly<Record<string, ResultView>> = {
  'system.doctor': showDoctor,
  'incident.acknowledge': showAcknowledged,
};

/** Shows each finding with its evidence and the command to copy, the most urgent first. */
function showDoctor(output: JsonOutput, printer: Printer): void {
  const findings = rowsOf(output['findings']);
  // Notes about files that need no action are shown only on request.
  const shown = findings.filter(
    (finding) => finding['severity'] !== 'info' || !isInFile(finding) || printer.isVerbose,
  );
  for (const finding of shown) showFinding(finding, printer);
  printer.line(
    shown.length === 0
      ? 'Nothing is wrong.'
      : describeCounts({ ...output, infos: shown.filter(isNote).length }),
  );
  // A script that reads the result doesn't need the advice.
  if (printer.isTerminal && (printer.isVerbose || shown.length === 0)) {
    printer.line(`Checks of one part: ${doctorParts.map((part) => `\`${part}\``).join(', ')}`);
  }
}

function isNote({ severity }: ResultRow): boolean {
  return severity === 'info';
}

/** Returns whether a finding is in the files: then its kind is its category. */
function isInFile({ kind, category }: ResultRow): boolean {
  return kind === category;
}

function showFinding(finding: ResultRow, printer: Printer): void {
  const { severity, evidence, fix, since, why, place, key, message } = finding;
  // The message of a finding in a file continues its key. Other messages name their object.
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

/** Describes the number of findings in words. */
export function describeCounts(counts: JsonOutput | ResultRow): string {
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

/** Shows metrics in the format of Prometheus. */
export function showMetrics({ families }: JsonOutput, printer: Printer): void {
  const text = formatMetrics(families as Parameters<typeof formatMetrics>[0]);
  for (const line of text.trimEnd().split('\n')) printer.line(toVisibleText(line));
}
